"""The terminal pages: what a reader must find, at which width, and what hostile text must not do."""

from __future__ import annotations

import doctest
import io
import json
import re
import shlex
import unicodedata
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from documents import JOURNAL, XID, ZERO, hardware_document, neighbourhood, none_document, unknown_document
from hypothesis import given
from hypothesis import strategies as st

from correlator.diagnosis import (
    Action,
    CascadeEvent,
    Document,
    Evidence,
    Initiator,
    Place,
    Resume,
    ResumeCandidate,
    SkippedFile,
)
from correlator.report import layout, safe, words
from correlator.report.safe import visible, visible_json, visible_lines, visible_prose
from correlator.report.standing import render_standing
from correlator.report.text import export_svg, render_report, render_text
from correlator.report.timeline import build_waves, choose_waves, zero_time

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x08\x9b31m[bold red]x[/bold red] :boom: \u202egnp.exe\u200b\u2028\udc80\U000e0041"


def one_line(text: str) -> str:
    return " ".join(text.split())


# --- making text harmless


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    shown = visible(HOSTILE)
    assert shown == (
        "\\x1b]0;owned\\x07\\x1b[2J\\r\\x08\\x9b31m[bold red]x[/bold red] :boom: \\u202egnp.exe\\u200b\\u2028\\x80\\U000e0041"
    )


@given(st.text())
def test_whatever_comes_is_printable_afterwards(text: str) -> None:
    assert visible(text).isprintable()
    assert visible_prose(text).isprintable()


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"], include_characters=" ")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_marks_that_climb_over_other_lines_are_escaped() -> None:
    assert visible("e\u0301") == "e\u0301"
    shown = visible("z" + "\u0335" * 40)
    assert sum(unicodedata.category(c) == "Mn" for c in shown) <= 4
    assert "\\u0335" in shown


def test_lines_end_at_line_feeds_only() -> None:
    assert visible_lines("a\tb\r\nc\x0bd\n") == ["a    b", "c\\x0bd", ""]


def test_json_keeps_its_meaning_and_loses_its_teeth() -> None:
    raw = json.dumps({"a": "\u202e\x9b\x7f\U000e0041 ok ü"}, ensure_ascii=False).encode()
    shown = visible_json(raw)
    assert json.loads(shown) == json.loads(raw)
    assert all(c.isprintable() for c in shown.decode())
    assert "ü" in shown.decode()


# --- words


@pytest.mark.parametrize("module", [words, safe])
def test_examples_in_docstrings(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried and not failed


def test_ranks_and_nodes_are_folded() -> None:
    assert words.ranks_words([0, 1, 2, 3, 4, 5, 6, 7, 9, 10]) == "ranks 0-7,9-10 (10)"
    assert words.ranks_words(range(0, 200, 2)).endswith(",… (100)")
    assert words.fold_nodes([f"n{i}" for i in (8, 9, 10, 11)]) == "n[10-11], n[8-9]"
    assert words.fold_nodes(f"{letter}1" for letter in "abcdefgh") == "a1, b1, c1, d1, e1, f1 and 2 more"
    assert words.fold_nodes(["10.0.0.12", "10.0.0.13"]) == "10.0.0.[12-13]"


@pytest.mark.parametrize(
    ("confidence", "said"),
    [(1.0, "almost certain (100 %)"), (0.7, "likely (70 %)"), (0.5, "more likely than not (50 %)"), (0.1, "a weak lead (10 %)")],
)  # fmt: skip
def test_confidence_in_words(confidence: float, said: str) -> None:
    assert words.confidence_words(confidence) == said


def test_a_time_is_not_finer_than_its_uncertainty() -> None:
    assert words.clock_words(ZERO, 0.01) == "2024-05-07 17:28:17.120 UTC"
    assert words.clock_words(ZERO, 2.0) == "2024-05-07 17:28:17 UTC"
    assert words.clock_words(ZERO, None) == "2024-05-07 17:28:17 UTC"


@given(
    st.lists(
        st.one_of(st.sampled_from(["journalctl", "-k", "|", "a\\ b", '"x  y"', "'p q'", "--since=\"1 h\""]), st.from_regex(r"[a-z/.-]{1,30}", fullmatch=True)),
        min_size=1,
    ),
    st.integers(10, 100),
)  # fmt: skip
def test_a_broken_command_means_the_same_to_the_shell(parts: list[str], width: int) -> None:
    command = " ".join(parts)
    lines = words.wrap_command(command, width)
    pasted = "\n".join(lines).replace("\\\n", "")
    assert shlex.split(pasted) == shlex.split(command)


def test_a_long_command_is_broken_at_the_width() -> None:
    assert words.wrap_command("srun --nodes=2 --ntasks-per-node=8 --exclude='gpu-a009, gpu-a010' train.sh", 40) == [
        "srun --nodes=2 --ntasks-per-node=8 \\",
        "    --exclude='gpu-a009, gpu-a010' \\",
        "    train.sh",
    ]


def test_a_command_with_a_comment_or_here_document_is_left_alone() -> None:
    for command in (
        "sleep 1 # then look at the fans, all of them, one by one",
        "cat << EOF aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ):
        assert words.wrap_command(command, 20) == [command]


# --- the timeline


def test_equal_occurrences_are_one_wave_with_all_ranks() -> None:
    waves = build_waves(hardware_document().cascade)
    told = [(wave.role, len(wave.ranks), wave.time and (wave.time - ZERO).total_seconds()) for wave in waves]
    assert told == [
        ("unrelated", 1, -3600.0),
        ("initiator", 1, 0.0),
        ("collateral", 1, 2.2),
        ("collateral", 31, 600.0),
        ("collateral", 0, None),
        ("teardown", 0, 612.0),
    ]
    assert waves[-1].nodes == {"gpu-a004", "gpu-a005", "gpu-a011"}


def test_an_effect_stamped_before_its_cause_stands_after_it_and_has_no_sure_time() -> None:
    document = hardware_document()
    document.cascade = [
        CascadeEvent("b", ZERO - timedelta(minutes=14), [3], [], "process ended", "collateral", ["a"]),
        CascadeEvent("a", ZERO, [21], [], "fell off the bus", "initiator"),
    ]
    text = render_text(document, None, 80)
    assert "  +0.0 s  failed first  rank 21: fell off the bus\n          suffered      rank 3: process ended\n" in text


def test_two_stalls_an_hour_apart_are_two_waves() -> None:
    cascade = [CascadeEvent(str(i), ZERO + timedelta(hours=i), [i], [], "timed out", "collateral") for i in range(2)]
    assert len(build_waves(cascade)) == 2


def test_an_initiator_without_a_time_comes_first_and_leaves_zero_to_the_earliest_known() -> None:
    cascade = [
        CascadeEvent("b", ZERO, [1], [], "timed out", "collateral", ["a"]),
        CascadeEvent("a", None, [0], [], "silent", "initiator"),
    ]
    waves = build_waves(cascade)
    assert [wave.role for wave in waves] == ["initiator", "collateral"]
    assert zero_time(waves, None) == ZERO


def test_of_many_waves_the_initiator_and_the_early_ones_stay() -> None:
    letters = "abcdefghijklmnopqrst"
    cascade = [
        CascadeEvent(c, ZERO + timedelta(minutes=n), [n], [], f"failure {c}{c}", "collateral")
        for n, c in enumerate(letters)
    ]
    cascade.append(CascadeEvent("z", ZERO + timedelta(days=1), [99], [], "first of all", "initiator"))
    cascade.append(CascadeEvent("y", ZERO, [98], [], "torn down", "teardown"))
    shown, hidden = choose_waves(build_waves(cascade), 12)
    assert len(shown) == 12
    assert [wave.role for wave in shown].count("initiator") == 1
    assert {wave.role for wave in hidden} == {"collateral", "teardown"}


# --- the report


@pytest.mark.parametrize(
    "document", [hardware_document(), unknown_document(), none_document()], ids=lambda d: d.verdict.class_
)
@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_page_and_nothing_but_text_is_drawn(document: Document, width: int) -> None:
    for line in render_text(document, neighbourhood, width).splitlines():
        assert len(line) <= width or line.startswith("     "), line  # a command's word may be wider
        assert line == line.rstrip()
        assert not any(0x2500 <= ord(c) < 0x25A0 for c in line)


def test_sections_come_in_the_order_of_need() -> None:
    text = render_text(hardware_document(), neighbourhood, 80)
    heads = [line for line in text.splitlines() if line.isupper() and not line.startswith(" ")]
    assert heads == [
        "WHO FAILED FIRST", "HOW IT SPREAD", "WHAT ELSE IT COULD BE", "RULED OUT", "WHERE TO RESUME", "WHAT TO DO NOW", "WARNINGS",
    ]  # fmt: skip
    assert text.startswith(
        "HARDWARE FAILURE: GPU has fallen off the bus; almost certain (95 %)\n"
        "Rank 21, gpu-a009, GPU 5, 17:28:17 UTC\nSafe to resume from iteration 7050\n"
    )
    assert text.endswith("\nRead 8 files, 48,211 lines, 5.2 MB; 312 events.\n")


def test_who_when_and_where_are_said() -> None:
    text = one_line(render_text(hardware_document(), neighbourhood, 80))
    for fact in (
        "rank 21, gpu-a009",
        "signature xid-79 (correlator explain xid-79), area gpu",
        "GPU 5 (PCI 0000:cb:00, serial 1650023004411)",
        "2024-05-07 17:28:17 UTC (± 0.5 s; its own clock is 52.0 s ahead of gpu-a004's), step 7060",
        f"{JOURNAL}:4 the driver lost the device itself",
        "+2.2 s suffered rank 21 on gpu-a009: the watchdog stopped: CUDA error stdout/gpu-a009.log:5, same gpu",
        "+10m00s suffered ranks 0-20,22-31 (31): collective timed out after 600 s, ALLREDUCE seq 4411 (30 more with other numbers)",
        "suffered gpu-a005: connection to the store lost",
        "+10m12s stopped gpu-a[004-005,011]: the launcher stopped its workers",
        "Left out here: 1 unrelated",
        "infrastructure, node-power (3 %): A loss of power also takes a device off the bus. To tell: ipmitool sel list",
        "Safe to resume from iteration 7050 /ckpt/iter_0007050",
        "/ckpt/iter_0007060: incomplete, 3 of 32 shards missing",
        "2. Drain the node and reboot it (DISRUPTIVE)",
        "Fixed when: no Xid on this bus id for a day under load dcgmi diag -r 4",
        "skipped core.3102, core.3103: not text",
        "damaged stdout/gpu-a011.log: 3 lines are no UTF-8",
        "nothing in the logs ties the clock of gpu-a011 to the others: its times say nothing about the order",
        "clocks differ: gpu-a009 is 52.0 s ahead of gpu-a004 (± 0.5 s); times outside quoted lines are shown on gpu-a004's clock",
    ):  # fmt: skip
        assert fact in text


def test_the_key_line_is_marked_between_its_neighbours() -> None:
    lines = render_text(hardware_document(), neighbourhood, 200).splitlines()
    at = lines.index(f"    > 4 {XID}")
    assert lines[at - 1].startswith("      3 May 07")
    assert lines[at + 1].startswith("      5 May 07")
    assert lines[at - 2] == "      2 start"


def test_the_key_line_is_found_where_fewer_lines_stand_before_it() -> None:
    lines = render_text(hardware_document(), lambda *_: ["a neighbour", XID, "after"], 200).splitlines()
    at = lines.index(f"    > 4 {XID}")
    assert lines[at - 1].endswith("  3 a neighbour")


def test_evidence_is_wrapped_and_never_cut() -> None:
    document = hardware_document()
    text = "RuntimeError: " + " ".join(f"word{n}" for n in range(400))
    document.initiator.first_error = Place("rank5.log", 12, 0, text)
    assert text in one_line(render_text(document, None, 80))


def test_a_long_neighbour_is_cut_and_says_so() -> None:
    text = render_text(hardware_document(), lambda *_: ["", "x" * 5000, "", XID, ""][1:], 80)
    assert "(+4,850 characters)" in one_line(text)


def test_without_the_file_the_text_that_was_read_is_shown() -> None:
    assert XID in one_line(render_text(hardware_document(), lambda *_: [], 80))


def test_a_place_told_twice_is_shown_once() -> None:
    assert render_text(hardware_document(), neighbourhood, 80).count(f"  {JOURNAL}:4  ") == 1


def test_the_same_from_other_ranks_is_named_by_place_and_longer_proof_is_one_line() -> None:
    document = hardware_document()
    document.initiator.first_error = Place("a.log", 7, 0, "[rank1]: size mismatch for layers.0\ncopying a param\n")
    document.evidence = [
        Evidence("verdict", "a.log", 19, 0, "[rank3]: size mismatch for layers.0\ncopying a param", 0.5, "own error"),
        Evidence("verdict", "b.log", 5, 0, "RuntimeError: one\ntwo\nthree", 0.4, "own error"),
    ]
    text = render_text(document, None, 80)
    assert "    > 7 [rank1]: size mismatch for layers.0\n        copying a param\n    the same at a.log:19\n" in text
    assert "    > 5 RuntimeError: one … (+2 lines)\n" in text


def test_a_reason_that_holds_for_two_lines_is_said_once() -> None:
    document = hardware_document()
    for entry in document.evidence:
        entry.why = "rank 21 has an error of its own"
    assert render_text(document, None, 80).count("rank 21 has an error of its own") == 1


def test_a_warning_about_no_file_stands_alone() -> None:
    document = hardware_document()
    document.inputs.warnings = [SkippedFile("", "two lines state another world size")]
    assert "\n  - two lines state another world size\n" in render_text(document, None, 80)


def test_a_checkpoint_is_not_told_twice() -> None:
    document = hardware_document()
    chosen = ResumeCandidate("/ckpt/iter_0007050", 7050, True)
    document.resume.candidates = [chosen, chosen, ResumeCandidate(None, 7000, None, "tp 4")]
    text = render_text(document, None, 80)
    assert text.count("/ckpt/iter_0007050") == 1
    chosen.topology = "tp 4 pp 2"
    assert "iteration 7050\n  /ckpt/iter_0007050: complete, tp 4 pp 2\n" in render_text(document, None, 80)
    assert "  - iteration 7000: not checked, tp 4\n" in text


def test_nothing_failed_is_said_first_and_with_its_evidence() -> None:
    text = render_text(none_document(), None, 80)
    assert text.startswith("NO FAILURE FOUND; almost certain (97 %)\n")
    assert "WHO FAILED FIRST" not in text
    assert (
        "WHAT SHOWS IT\n  stdout/gpu-a011.log:77  the program says that it finished\n    > 77 [after training is done]\n"
        in text
    )


def test_an_undecided_case_says_what_would_decide_it() -> None:
    text = render_text(unknown_document(), None, 80)
    assert text.startswith(
        "UNDECIDED: A worker was killed with SIGKILL; who it was: possible (30 %)\nRank 5, gpu-a004\n"
        "Resume: not known; rerun with --checkpoints DIR\n"
    )
    assert text.index("WHAT WOULD DECIDE IT") < text.index("WHO FAILED FIRST")
    said = one_line(text)
    assert "no line is known to be of 16 of 32 ranks; a quiet rank cannot be told from a missing log" in said
    assert "application, host-out-of-memory (45 %)" in said
    assert "To tell: dmesg -T on gpu-a004: an oom-kill line that names the process." in said
    assert "time not known" in said
    assert "Not known whether it is safe to resume" in said


def test_an_undecided_case_without_rivals_points_to_what_can_be_looked_at() -> None:
    document = unknown_document()
    document.alternatives = []
    text = render_text(document, None, 80)
    assert "WHAT WOULD DECIDE IT\n  - Save the driver's record: A reboot wipes it.\n\n" in text
    assert "Drain the node" not in text[: text.index("WHO FAILED FIRST")]


def test_an_undecided_case_without_candidates_still_says_where_to_look() -> None:
    document = unknown_document()
    document.alternatives, document.actions = [], []
    document.initiator = Initiator()
    document.job.ranks_seen = 0
    said = one_line(render_text(document, None, 80))
    assert "the kernel log of every node" in said
    assert "no rank or node can be named on this evidence" in said
    assert "time not known" not in said
    assert (
        said.count("These logs do not say which rank wrote which line; a quiet rank cannot be told") == 2
    )  # as what is missing, and as a limit of the answer


@pytest.mark.parametrize(
    ("initiator", "said"),
    [
        (Initiator(list(range(32)), scope="all"), "all 32 ranks"),
        (Initiator([8, 9, 10], ["gpu-a005"], scope="node"), "node gpu-a005 with ranks 8-10 (3)"),
        (Initiator([], ["gpu-a005"], scope="node"), "node gpu-a005"),
        (Initiator([0, 1, 2, 9], ["gpu-a004", "gpu-a005"], scope="ranks"), "ranks 0-2,9 (4), gpu-a[004-005]"),
    ],
)
def test_who_failed_in_every_scope(initiator: Initiator, said: str) -> None:
    document = hardware_document()
    document.initiator = initiator
    lines = render_text(document, None, 80).splitlines()
    assert lines[lines.index("WHO FAILED FIRST") + 1] == f"  {said}"


@pytest.mark.parametrize(
    ("resume", "said"),
    [
        (Resume("unsafe", 40, "/ckpt/40"), "Not safe to resume at iteration 40"),
        (Resume("no-checkpoint"), "No checkpoint to resume from: the job starts over"),
    ],
)
def test_where_to_resume(resume: Resume, said: str) -> None:
    document = hardware_document()
    document.resume = resume
    assert f"WHERE TO RESUME\n  {said}\n" in render_text(document, None, 80)


def hostile_document() -> Document:
    document = hardware_document()
    document.verdict.title = document.verdict.summary = document.initiator.nodes[0] = HOSTILE
    document.initiator.first_error = Place(HOSTILE, 1, 0, HOSTILE)
    document.cascade = [CascadeEvent("e", ZERO, [1], [HOSTILE], HOSTILE, "initiator")]
    document.evidence = [Evidence("verdict", HOSTILE, 1, 0, HOSTILE, 0.5, HOSTILE)]
    document.actions = [Action.of("read-only", HOSTILE, f"echo '{HOSTILE}'", HOSTILE)]
    document.resume.path = document.job.job_id = HOSTILE
    return document


def test_hostile_text_does_no_harm_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    text = render_text(hostile_document(), lambda *_: [HOSTILE], 80)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "[bold red]x[/bold red] :boom:" in text  # neither markup nor emoji codes
    coloured = rendered_for_terminal(hostile_document(), monkeypatch)
    assert set(re.findall("\x1b.", coloured)) == {"\x1b["}
    assert re.fullmatch(r"(?:[^\x1b]|\x1b\[[0-9;]*m)*", coloured)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def rendered_for_terminal(document: Document, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return layout.render_for(Terminal(), render_report(document, neighbourhood))


def test_colour_only_on_a_terminal_and_not_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[(?:\d+;)*3\d")
    assert colour.search(rendered_for_terminal(hardware_document(), monkeypatch))
    assert "\x1b" not in layout.render_for(io.StringIO(), render_report(hardware_document()))
    monkeypatch.setenv("NO_COLOR", "1")
    without = layout.render_for(Terminal(), render_report(hardware_document(), neighbourhood))
    assert not colour.search(without)


def test_width_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert layout.page_width(io.StringIO()) == 100
    monkeypatch.setenv("COLUMNS", "72")
    assert layout.page_width(io.StringIO()) == 72
    monkeypatch.setenv("COLUMNS", "5")
    assert layout.page_width(io.StringIO()) == 40
    monkeypatch.setenv("COLUMNS", "900")
    assert layout.page_width(Terminal()) == 120


def test_a_stream_without_unicode_gets_plain_signs() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    document = hardware_document()
    document.verdict.summary = "größer"
    text = layout.render_for(stream, render_report(document))
    assert text.isascii()
    assert "(+/- 0.5 s;" in text
    assert "gr\\xf6\\xdfer" in text


def test_the_picture_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.svg"
    export_svg(hostile_document(), path, neighbourhood)
    picture = path.read_text()
    ElementTree.fromstring(picture)
    assert "url(http" not in picture and "@font-face" not in picture
    assert "HARDWARE" in picture


# --- one rank's place in the cascade


@pytest.mark.parametrize(
    ("rank", "head", "chain"),
    [
        (21, "rank 21: failed first: nothing before it explains it", ["+0.0 s"]),
        (30, "rank 30: suffered: it failed because of what happened elsewhere before", ["+0.0 s", "~+10m03s"]),
    ],
)
def test_why_a_rank_has_its_role(rank: int, head: str, chain: list[str]) -> None:
    first, *rest = layout.render_plain(render_standing(hardware_document(), rank)).splitlines()
    assert first == head
    assert [match[0] for line in rest if (match := re.match(r"~?\S+ s|\S+m\S+s", line.strip()))] == chain


def test_a_rank_without_a_line_is_not_guessed_at() -> None:
    document = none_document()
    assert layout.render_plain(render_standing(document, 4)).startswith("rank 4: unknown:")
    document.collateral.ranks = [4]
    assert layout.render_plain(render_standing(document, 4)).startswith("rank 4: suffered: it ended with the others")
    document.initiator.ranks = [4]
    assert layout.render_plain(render_standing(document, 4)).startswith(
        "rank 4: failed first: found by what the others say"
    )


def test_a_chain_that_bites_its_tail_ends() -> None:
    document = hardware_document()
    document.cascade = [
        CascadeEvent("a", ZERO, [1], [], "one", "collateral", ["b"]),
        CascadeEvent("b", ZERO, [2], [], "two", "collateral", ["a"]),
    ]
    assert len(layout.render_plain(render_standing(document, 1)).splitlines()) == 3
