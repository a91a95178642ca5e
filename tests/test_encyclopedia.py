"""The encyclopedia's pages in every form, and the web site."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from correlator.cli import main
from correlator.lookup import Explained, look_up
from correlator.report.entry import EMITTERS, entry_parts, in_short
from correlator.report.entry_forms import entry_markdown
from correlator.report.entry_html import entry_fragment, entry_html
from correlator.report.site import site_files
from correlator.signatures import by_id, load_signatures
from correlator.signatures.model import parse_signature

HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202e|x| `a` [b](javascript:c) <img src=x onerror=y>"
ENTRY = (
    f"""
id = "shard-lost"
title = '''{HOSTILE}'''
class = "application"
subclass = "data"
role = "cause"
blames = "self"
weight = 0.5
priority = 30
status = "test"
sources = ['''{HOSTILE}''']
mechanism = '''{HOSTILE}'''
literals = [{{ text = '''{HOSTILE}''', by = '''{HOSTILE}''' }}]
symptoms = [{{ sign = '''{HOSTILE}''', why = '''{HOSTILE}''' }}]
affects = ['''{HOSTILE}''']
fix = [{{ kind = "disruptive", do = '''{HOSTILE}''', why = '''{HOSTILE}''', command = '''{HOSTILE}''' }}]
questions = [{{ ask = '''{HOSTILE}''', answer = '''{HOSTILE}''' }}]
references = [{{ title = '''{HOSTILE}''', url = "https://example.net/a" }}]
[match]
event = "python.exception"
[[sample]]
hit = true
line = '''{HOSTILE}'''
[[sample]]
hit = false
line = '''{HOSTILE}'''
""".replace("\x1b", "\\u001b")
    .replace("'''", '"""')
    .replace("[2J", "[2J")
)
WORLD = "AssertionError: world size (20) is not divisible by total_model_size (total_model_size=8)"


class Tags(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "encyclopedia"
    assert main(["explain", "--site", str(folder)]) == 0
    return folder


# --- pages


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_every_form_holds_the_same_facts(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "xid-79", "--format", form]) == 0
    page = re.sub(r"\\(?=\W)|&#39;|&#34;", "", " ".join(capsys.readouterr().out.split()))
    entry = by_id()["xid-79"]
    assert entry.title in page and entry.id in page
    for step in entry.fix:
        assert re.sub(r"['\"]", "", step.do.split(",")[0]) in re.sub(r"['\"]", "", page)


def test_json_is_the_entry_with_all_its_fields(tmp_path: Path) -> None:
    out = tmp_path / "entry.json"
    assert main(["explain", WORLD, "-o", str(out)]) == 0
    answer = json.loads(out.read_bytes())
    assert answer["schema"] == "correlator.explain/1" and answer["exact"] is True
    assert answer["entry"]["id"] == "world-size-not-divisible"
    assert answer["entry"]["class"] == "configuration" and answer["entry"]["emitter"] == "megatron"
    assert {step["kind"] for step in answer["entry"]["fix"]} <= {"read-only", "changes-config", "disruptive"}


def test_the_form_follows_the_ending_of_the_file(tmp_path: Path) -> None:
    for name, start in (("a.md", "# "), ("a.html", "<!doctype html>"), ("a.txt", "GPU has fallen")):
        assert main(["explain", "xid-79", "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_a_page_that_only_comes_near_says_so() -> None:
    found = look_up("the world size is no multiple of something parallel")
    assert found is not None and not found.exact
    assert "No entry fits exactly" in entry_markdown(found) and "No entry fits exactly" in entry_html(found)


def test_hostile_text_stays_text_in_every_form() -> None:
    found = Explained(parse_signature(ENTRY, "torch/shard-lost.toml"))
    page = entry_html(found)
    assert "\x1b" not in page and "\u202e" not in page
    tags = Tags(page).found
    assert {tag for tag, _ in tags}.isdisjoint({"script", "img", "iframe"})
    assert {attrs["href"] for tag, attrs in tags if tag == "a"} == {"https://example.net/a"}
    text = entry_markdown(found)
    assert "\x1b" not in text and "\u202e" not in text
    rendered = Tags(MarkdownIt("commonmark").render(text)).found
    assert {tag for tag, _ in rendered}.isdisjoint({"script", "img", "iframe"})
    assert {attrs["href"] for tag, attrs in rendered if tag == "a"} == {"https://example.net/a"}
    index = dict(site_files([found.entry]))["entries.js"].decode()
    assert "<" not in index and "\u202e" not in index.partition("ENTRIES")[0]


def test_a_fragment_links_where_its_host_says() -> None:
    found = Explained(by_id()["xid-79"])
    links = [attrs["href"] for tag, attrs in Tags(entry_fragment(found, lambda id_: f"/e/{id_}")).found if tag == "a"]
    assert "/e/xid-119" in links
    assert "/e/" not in entry_fragment(found)


def test_every_emitter_has_a_name_and_every_entry_a_page() -> None:
    assert {entry.emitter for entry in load_signatures()} == set(EMITTERS)
    assert all(len(entry_parts(Explained(entry))) >= 3 for entry in load_signatures())


# --- the web site


def test_the_site_has_a_page_for_every_entry_and_no_dead_link(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == len(load_signatures()) + 3
    ids: dict[Path, set[str]] = {}
    links: list[tuple[Path, str]] = []
    for page in pages:
        tags = Tags(page.read_text(encoding="utf-8")).found
        ids[page] = {str(attrs["id"]) for _, attrs in tags if "id" in attrs}
        links += [(page, str(attrs[key])) for _, attrs in tags for key in ("href", "src") if attrs.get(key)]
    dead = []
    for page, link in links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in ids[target]):
            dead.append((page.name, link))
    assert len(links) > 5000 and not dead


def test_the_site_loads_nothing_from_elsewhere_and_fetches_nothing(site: Path) -> None:
    for page in site.rglob("*.html"):
        for tag, attrs in Tags(page.read_text(encoding="utf-8")).found:
            if tag in ("script", "link", "img"):
                assert ":" not in str(attrs.get("src") or attrs.get("href"))
    script = (site / "search.js").read_text(encoding="utf-8")
    assert "fetch(" not in script and "innerHTML" not in script and "eval" not in script


def test_the_search_index_holds_every_entry(site: Path) -> None:
    text = (site / "entries.js").read_text(encoding="utf-8")
    rows = json.loads(text[text.index("[") : text.rindex(";")])
    assert {row[0] for row in rows} == set(by_id())


def test_the_site_is_the_same_twice() -> None:
    assert list(site_files(load_signatures())) == list(site_files(reversed(load_signatures())))


def test_an_earlier_site_is_replaced_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "site"
    assert main(["explain", "--site", str(folder)]) == 0
    (folder / "index.html").write_text("old", encoding="utf-8")
    assert main(["explain", "--site", str(folder)]) == 0
    assert (folder / "index.html").read_text(encoding="utf-8") != "old"
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    assert main(["explain", "--site", str(folder)]) == 2
    assert "no earlier site" in capsys.readouterr().err
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.parametrize("kind", ["logs", "file", "nowhere", "nothing"])
def test_a_place_that_is_no_site_is_refused(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text("step 1\n", encoding="utf-8")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    place = {"nowhere": str(tmp_path / "a" / "b"), "nothing": ""}.get(kind, str(tmp_path / kind))
    assert main(["explain", "--site", place]) == 2
    err = capsys.readouterr().err
    assert err.startswith("correlator: ") and err.count("\n") == 1
    assert (tmp_path / "logs" / "rank0.log").read_text(encoding="utf-8") == "step 1\n"


def test_a_site_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    from correlator.cli._folder import write_site
    from correlator.errors import UsageError

    folder = tmp_path / "site"
    write_site(str(folder), [("a.html", b"a"), ("m.json", b'{"files": ["a.html", "m.json"]}')], "m.json")

    def torn():
        yield "b.html", b"b"
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="No space left"):
        write_site(str(folder), torn(), "m.json")
    assert sorted(path.name for path in folder.iterdir()) == ["a.html", "m.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_site_goes_with_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "xid-79", "--site", str(tmp_path / "site")]) == 2
    assert "--site writes every page" in capsys.readouterr().err and not (tmp_path / "site").exists()


def test_every_page_says_first_whether_the_line_is_a_cause_and_where_to_begin() -> None:
    for entry in load_signatures():
        said = " ".join(in_short(entry))
        assert said.endswith((".", "?")) and "?." not in said
        assert said.startswith("No ") == (entry.role != "cause"), entry.id
        assert ("Begin with: " in said) == bool(entry.fix), entry.id
