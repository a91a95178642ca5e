"""The local web page in a real browser, as a person uses it: the server is started by its command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")


CASES = Path(__file__).parents[1] / "fixtures/cases"
HOSTILE = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/train/main.py", line 12, in <module>
[rank3]: RuntimeError: <script>document.title='owned'</script><img src=x onerror=alert(1)> \x1b[31mred **bold** [x](http://x)
"""
#: A diagnosis on a busy machine, in milliseconds.
PATIENCE = 90_000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    command = [sys.executable, "-m", "correlator", "serve", "--port", "0", str(CASES)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        try:
            yield run.stdout.readline().strip().rstrip("/")
        finally:
            run.terminate()


@pytest.fixture
def page(browser: Any, server: str) -> Iterator[Any]:
    """A page whose console must stay silent, whatever is done with it."""
    said: list[str] = []
    with browser.new_context(base_url=server) as context:
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        yield page
    assert said == []


def expect(thing: Any) -> Any:
    return sync_api.expect(thing)


def wait_for_verdict(page: Any) -> None:
    page.wait_for_selector("#proofs", timeout=PATIENCE)


@pytest.fixture(scope="module")
def verdict(browser: Any, server: str) -> str:
    """The address of the diagnosis of a folder that was named at the start, opened by clicking through."""
    with browser.new_context(base_url=server) as context:
        page = context.new_page()
        page.goto("/")
        for name in (str(CASES), "gpu-off-the-bus/", "logs/"):
            page.get_by_role("link", name=name).click()
        page.get_by_role("button", name="Diagnose this folder").click()
        wait_for_verdict(page)
        return str(page.url)


def test_from_the_verdict_to_the_raw_line(page: Any, verdict: str) -> None:
    page.goto(verdict)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Xid 79")
    page.locator("#proofs a").first.click()
    expect(page.locator("#line")).to_contain_text("GPU has fallen off the bus")
    expect(page.locator("#line")).to_be_in_viewport()
    assert page.locator(".raw li").count() > 3
    page.get_by_role("link", name="Back to the verdict").click()
    expect(page).to_have_url(verdict)


def test_a_traceback_is_pasted_and_hostile_text_is_shown_as_text(page: Any) -> None:
    page.goto("/")
    page.get_by_label("Or paste a log").fill(HOSTILE)
    page.get_by_role("button", name="Diagnose").click()
    wait_for_verdict(page)
    for part in (
        "<script>document.title='owned'</script>",
        "<img src=x onerror=alert(1)>",
        "\\x1b[31mred **bold** [x]",
    ):
        expect(page.locator("#proofs pre").first).to_contain_text(part)
    assert page.title() != "owned"
    assert page.locator("main img").count() == 0
    page.locator("#proofs a").first.click()
    expect(page.locator(".raw")).to_contain_text("<script>document.title='owned'</script>")


def test_files_are_chosen_and_forgotten(page: Any, tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.log").write_text(
            f"[rank{rank}]: RuntimeError: CUDA error: device-side assert triggered\n"
        )
    page.goto("/")
    page.get_by_label("Files or archives").set_input_files([tmp_path / "rank0.log", tmp_path / "rank1.log"])
    page.get_by_role("button", name="Diagnose").click()
    wait_for_verdict(page)
    expect(page.locator("#proofs a").first).to_contain_text("rank")
    with page.expect_download() as saving:
        page.get_by_role("link", name="Report as a file").click()
    assert Path(saving.value.path()).read_text().startswith("<!doctype html>")
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What killed the job?")


def test_a_dropped_file_is_sent(page: Any) -> None:
    page.goto("/")
    dropped = page.evaluate_handle(
        "text => { const t = new DataTransfer(); t.items.add(new File([text], 'rank3.log')); return t; }",
        HOSTILE,
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
    expect(page.locator("#dropped")).to_have_text("rank3.log")
    page.get_by_role("button", name="Diagnose").click()
    wait_for_verdict(page)
    expect(page.locator("#proofs a").first).to_contain_text("rank3.log")


def test_the_encyclopedia_is_searched(page: Any) -> None:
    page.goto("/")
    page.get_by_role("link", name="Encyclopedia").click()
    page.get_by_label("Error text").fill("fallen off the bus")
    expect(page.locator("#browse")).to_be_hidden()
    page.locator("#results a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("off the bus")
    page.get_by_role("link", name="Diagnose").click()
    page.get_by_label("An error line").fill("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("off the bus")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(browser: Any, server: str, verdict: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with browser.new_context(base_url=server, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(verdict)
        raw = str(page.locator("#proofs a").first.get_attribute("href"))
        entries = ("/encyclopedia/entries/xid-79.html", "/encyclopedia/by-class.html", "/explain?q=xid-79")
        faults = ("/nowhere", "/d/unknown", "/explain?q=", "/login")
        searched = "/encyclopedia/index.html#fallen%20off"
        for address in ("/", "/folders/0", verdict, f"{verdict}/report.html", raw, searched, *entries, *faults):
            page.goto(address)
            found = axe.run(page).response["violations"]
            serious = [
                (address, fault["id"], [node["html"] for node in fault["nodes"]][:3])
                for fault in found
                if fault["impact"] in ("serious", "critical")
            ]
            assert serious == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(browser: Any, server: str, verdict: str, width: int) -> None:
    with browser.new_context(base_url=server, viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        for address in ("/", "/folders/0", verdict):
            page.goto(address)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address
        page.locator("#proofs a").first.click()
        page.wait_for_selector("#line")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
