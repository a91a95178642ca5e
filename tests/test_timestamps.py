"""Stamps in every built-in layout, what they leave open, and layouts that have to be learned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.envelopes import layouts
from correlator.envelopes.layouts import learn_layout, shape
from correlator.errors import UsageError
from correlator.timestamps import (
    SECOND,
    Clock,
    announced_stamp,
    dated_stamps_ns,
    match_stamp,
    match_time_of_day,
    parse_zone,
)


def ns(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * SECOND  # type: ignore[misc]


MAY = Clock(reference_ns=ns(2024, 5, 2))


@pytest.mark.parametrize(
    ("text", "expected", "resolution", "rest"),
    [
        ("2024-05-01 07:40:18,123 - x", ns(2024, 5, 1, 7, 40, 18) + 123_000_000, 1_000_000, " - x"),
        ("2024-05-01T07:40:18.123456+02:00 host", ns(2024, 5, 1, 5, 40, 18) + 123_456_000, 1_000, " host"),
        ("2024-05-01T07:40:18,123456+02:00 text", ns(2024, 5, 1, 5, 40, 18) + 123_456_000, 1_000, " text"),
        ("2024-05-01T05:40:18.123456789Z stderr", ns(2024, 5, 1, 5, 40, 18) + 123_456_789, 1, " stderr"),
        ("2024-05-01T07:40:18+0200 n", ns(2024, 5, 1, 5, 40, 18), SECOND, " n"),
        ("2024-05-01_07:40:18", ns(2024, 5, 1, 7, 40, 18), SECOND, ""),
        ("2024/05/01 07:40:18 x", ns(2024, 5, 1, 7, 40, 18), SECOND, " x"),
        ("2024-05-01 07:40:18 - 12 done", ns(2024, 5, 1, 7, 40, 18), SECOND, " - 12 done"),
        ("05/31/2024 07:40:18 - INFO", ns(2024, 5, 31, 7, 40, 18), SECOND, " - INFO"),
        ("31/05/2024 07:40:18", ns(2024, 5, 31, 7, 40, 18), SECOND, ""),
        ("05/01/2024 07:40:18 PM", ns(2024, 5, 1, 19, 40, 18), SECOND, ""),
        ("05/01/2024 12:40:18 AM", ns(2024, 5, 1, 0, 40, 18), SECOND, ""),
        ("24/05/01 07:40:18 INFO", ns(2024, 5, 1, 7, 40, 18), SECOND, " INFO"),
        ("05/01/24 07:40:18] INFO", ns(2024, 5, 1, 7, 40, 18), SECOND, "] INFO"),
        ("01.05.2024 07:40:18", ns(2024, 5, 1, 7, 40, 18), SECOND, ""),
        ("01/May/2024:07:40:18 +0000", ns(2024, 5, 1, 7, 40, 18), SECOND, ""),
        ("20240501-074018.345", ns(2024, 5, 1, 7, 40, 18) + 345_000_000, 1_000_000, ""),
        ("20240501 07:40:18", ns(2024, 5, 1, 7, 40, 18), SECOND, ""),
        ("05-01 07:40:18 [engine.py:69]", ns(2024, 5, 1, 7, 40, 18), SECOND, " [engine.py:69]"),
        ("May  1 07:40:18 node012", ns(2024, 5, 1, 7, 40, 18), SECOND, " node012"),
        ("May 01 07:40:18.123456 node012", ns(2024, 5, 1, 7, 40, 18) + 123_456_000, 1_000, " node012"),
        ("Wed May  1 07:40:18 2024] x", ns(2024, 5, 1, 7, 40, 18), SECOND, "] x"),
        ("Wed May  1 07:40:18 CEST 2024", ns(2024, 5, 1, 5, 40, 18), SECOND, ""),
        ("Wed 2024-05-01 07:40:18 CEST node012", ns(2024, 5, 1, 5, 40, 18), SECOND, " node012"),
        ("Wed, 01 May 2024 07:40:18 +0000", ns(2024, 5, 1, 7, 40, 18), SECOND, ""),
        ("1714542018.123456 node012", ns(2024, 5, 1, 5, 40, 18) + 123_456_000, 1_000, " node012"),
        ("1714542018123456789", ns(2024, 5, 1, 5, 40, 18) + 123_456_789, 1, ""),
    ],
)  # fmt: skip
def test_layouts(text: str, expected: int, resolution: int, rest: str) -> None:
    stamp = match_stamp(text, 0, MAY)
    assert stamp is not None
    assert (stamp.ns, stamp.resolution_ns, text[stamp.end :]) == (expected, resolution, rest)


@pytest.mark.parametrize(
    "text",
    ["", "x", "10", "may", "1102 08:00:00", "123456.789012", "2024-13-01 07:40:18", "Feb 30 07:40:18", "12:34 done", "4711"],
)  # fmt: skip
def test_what_is_no_dated_stamp(text: str) -> None:
    assert match_stamp(text, 0, MAY) is None


def test_the_year_steps_where_a_file_runs_from_december_into_january() -> None:
    clock = Clock(reference_ns=ns(2025, 1, 1))
    stamps = [match_stamp(text, 0, clock) for text in ("Dec 31 23:59:59", "Jan  1 00:00:03")]
    assert [s.ns for s in stamps if s] == [ns(2024, 12, 31, 23, 59, 59), ns(2025, 1, 1, 0, 0, 3)]


def test_a_modification_time_is_the_latest_a_stamp_can_be() -> None:
    clock = Clock(reference_ns=ns(2025, 2, 10), reference_is_latest=True)
    stamps = [match_stamp(text, 0, clock) for text in ("Mar  5 10:00:00", "Feb 10 20:00:00", "Feb 29 10:00:00")]
    assert [s.ns if s else None for s in stamps] == [ns(2024, 3, 5, 10), ns(2025, 2, 10, 20), ns(2024, 2, 29, 10)]


def test_without_a_reference_a_year_is_not_invented() -> None:
    assert match_stamp("May  1 07:40:18", 0, Clock()) is None


def test_a_time_of_day_takes_the_day_that_is_nearest() -> None:
    near = ns(2024, 5, 2, 0, 10)
    stamp = match_time_of_day("23:59:58.5 x", 0, Clock(), near)
    assert stamp is not None
    assert stamp.ns == ns(2024, 5, 1, 23, 59, 58) + 500_000_000
    assert match_time_of_day("23:59:58", 0, Clock(), None) is None


def test_zone_of_the_caller_with_its_summer_time() -> None:
    clock = Clock(zone=parse_zone("Europe/Berlin"))
    summer, winter = match_stamp("2024-07-01 12:00:00", 0, clock), match_stamp("2024-01-01 12:00:00", 0, clock)
    assert summer
    assert winter
    assert (summer.ns, winter.ns) == (ns(2024, 7, 1, 10), ns(2024, 1, 1, 11))


@pytest.mark.parametrize(("name", "hours"), [("+02:00", 2), ("-0730", -7.5), ("UTC+5", 5), ("UTC", 0), (None, 0)])
def test_zones_by_offset(name: str | None, hours: float) -> None:
    assert parse_zone(name).utcoffset(datetime(2024, 5, 1)) == timedelta(hours=hours)


def test_an_unknown_zone_is_one_sentence_for_the_user() -> None:
    with pytest.raises(UsageError, match="unknown time zone 'Mars/Olympus'"):
        parse_zone("Mars/Olympus")


@given(st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)))
def test_local_time_agrees_with_the_standard_library(when: datetime) -> None:
    # An hour that a zone passes twice or never has no right answer; fold=0 is what both sides take.
    clock = Clock(zone=ZoneInfo("Europe/Berlin"))
    stamp = match_stamp(when.strftime("%Y-%m-%d %H:%M:%S.%f"), 0, clock)
    assert stamp is not None
    expected = when.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert stamp.ns // 1000 == round(expected.timestamp() * 1_000_000)


def test_stamps_that_a_line_states_about_itself() -> None:
    line = "slurmstepd: error: *** STEP 77.0 ON node012 CANCELLED AT 2024-05-01T07:40:18 DUE TO TIME LIMIT ***"
    stamp = announced_stamp(line, Clock())
    assert stamp is not None
    assert stamp.ns == ns(2024, 5, 1, 7, 40, 18)
    assert announced_stamp("checkpoint of 2024-05-01 07:40:18 loaded", Clock()) is None


def test_dated_stamps_are_found_anywhere_in_a_sample() -> None:
    sample = b"x\n7: time : 2024-05-01_07:40:18\n[Wed May  1 07:40:20 2024] y\nversion 2024-05\n"
    assert dated_stamps_ns(sample, Clock()) == [ns(2024, 5, 1, 7, 40, 18), ns(2024, 5, 1, 7, 40, 20)]


# --- layouts nobody listed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["%d-%b-%Y %H:%M:%S", "%Y %b %d %H:%M:%S", "%d %b %Y, %H:%M:%S.%f", "%m-%d-%Y %I:%M:%S %p"]
)
def test_an_unlisted_layout_is_learned_from_samples(form: str) -> None:
    times = [datetime(2024, 3 + i % 8, 1 + 2 * i, (5 * i) % 24, 13, 40 + i) for i in range(12)]
    lines = [f"[{time.strftime(form)}] epoch {i} done" for i, time in enumerate(times)]
    layout = learn_layout(lines)
    assert layout is not None
    for line, time in zip(lines, times, strict=True):
        stamp = layout.match(line, Clock())
        assert stamp is not None
        assert stamp.ns == int(time.replace(tzinfo=UTC).timestamp()) * SECOND
        assert line[stamp.end :].startswith(" epoch")


def test_dateparser_sees_a_layout_only_once_and_twelve_lines_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def parse(text: str) -> datetime:
        calls.append(text)
        return datetime.strptime(text, "%d~%b~%Y %H:%M:%S")

    monkeypatch.setattr(layouts, "_dateparser", lambda: parse)
    monkeypatch.setattr(layouts, "_SEEN", {})
    monkeypatch.setattr(layouts, "_CANDIDATE", layouts.re.compile(r"([\w~]+ \d\d:\d\d:\d\d)"))
    lines = [f"{day:02d}~Mar~2024 07:{day:02d}:18 step" for day in range(1, 31)]
    assert learn_layout(lines) is not None
    assert learn_layout(lines[::-1]) is not None
    assert len(calls) == layouts.SAMPLES


def test_lines_without_a_common_stamp_teach_nothing() -> None:
    assert learn_layout(["ratio 12:34:56:78", "no time here", "at 7:30 we stop", "x"]) is None
    assert shape("[01-Mar-2024 07:40]") == "[99-A-9999 99:99]"


def test_a_clock_put_forward_inside_a_file() -> None:
    clock = Clock(zone=parse_zone("Europe/Berlin"))
    before, after = (match_stamp(f"2024-03-31 {time}", 0, clock) for time in ("01:59:59", "03:00:01"))
    assert before and after and after.ns - before.ns == 2 * SECOND
