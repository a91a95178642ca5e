"""What tests share: a terminal of no stated width, and the browser for tests of pages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_stated_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell or a runner of tests may export its own, and lines would break elsewhere."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium without a window, driven by Playwright; skips where either is missing."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None or sys.platform == "win32":
        pytest.skip("no Chromium: apt-get install chromium has the tests run in it")
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        yield browser
        browser.close()
