"""The HTML report in a real browser: it loads fast, zooms, hovers, copies, and leaves nobody out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import hardware_document, neighbourhood
from stories import spread, story

from correlator import diagnose
from correlator.diagnosis import Topology
from correlator.report.html import render_html

sync_api = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

#: Seconds a report of a thousand ranks may take to load, and a zoom of it.
PATIENCE_S = 2.0


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of 1,024 ranks."""
    document = hardware_document()
    document.job.world_size, document.job.topology = 1024, Topology(8, 4, 32, 1, 1, "tp-cp-ep-dp-pp")
    document.initiator.ranks, document.collateral.ranks = [617], [r for r in range(1024) if r != 617]
    place: Path = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(render_html(document, neighbourhood, story(*spread(1024, 617), ranks=1024)), encoding="utf-8")
    return place.as_uri()


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(browser: Any, report: str, scheme: str) -> Iterator[Any]:
    """The report, opened; its console must stay silent, and it may load nothing."""
    said: list[str] = []
    with browser.new_context(color_scheme=scheme, offline=True) as context:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda asked: said.append(asked.url) if asked.url != report else None)
        page.goto(report)
        yield page
    assert said == []


def drawn(page: Any) -> None:
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_thousand_ranks_load_and_zoom_at_once(page: Any, report: str) -> None:
    began = time.monotonic()
    page.goto(report)
    drawn(page)
    assert time.monotonic() - began < PATIENCE_S
    page.locator("summary").first.click()
    mark = page.locator(".lane.initiator i.spot.initiator").first
    before = mark.bounding_box()["x"]
    began = time.monotonic()
    page.get_by_role("button", name="Later").click()
    drawn(page)
    assert time.monotonic() - began < PATIENCE_S
    assert mark.bounding_box()["x"] < before - 50


def test_around_the_first_failure_the_ticks_are_seconds(page: Any) -> None:
    page.get_by_role("button", name="Show the seconds around").click()
    assert "+5 s" in page.locator(".movable .ticks").first.inner_text()


def test_hover_and_keyboard_show_the_line_behind_a_mark(page: Any) -> None:
    mark = page.locator("i.spot.initiator").first
    mark.hover()
    assert "rank 617" in page.get_by_role("tooltip").inner_text()
    assert "a.log:7" in page.get_by_role("tooltip").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#hover").is_visible()
    mark.focus()
    assert page.locator("#hover").is_visible()


def test_a_command_is_copied_as_it_is_written(page: Any) -> None:
    block = page.locator("pre.command").first
    written = block.inner_text().removesuffix("Copy").strip()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block.get_by_role("button", name="Copy").click()
    sync_api.expect(block.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == written


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_screen_and_nobody_is_left_out(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    faults = axe.Axe().run(page).response["violations"]
    assert [
        f"{fault['id']}: {fault['nodes'][0]['html'][:200]}"
        for fault in faults
        if fault["impact"] in ("serious", "critical")
    ] == []


@pytest.mark.parametrize("width", [360, 1200])
def test_a_name_without_a_break_is_no_wider_than_the_screen(browser: Any, width: int, tmp_path: Path) -> None:
    """File names of 200 letters, of which nodes and writers are named."""
    log = tmp_path / "logs" / ("h" * 200 + ".log")
    log.parent.mkdir()
    log.write_text(
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/opt/job/train.py", line 88, in <module>\n'
        f"[rank3]: ValueError: {'w' * 300} {'世界' * 100}\n"
    )
    place = tmp_path / "report.html"
    place.write_text(diagnose(log.parent).html(), encoding="utf-8")
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(place.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
