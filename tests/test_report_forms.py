"""The report as Markdown, HTML and SARIF: whole, of the right form by the file's ending, and deaf to hostile log text."""

from __future__ import annotations

import doctest
import hashlib
import html.parser
import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import ModuleType

import pytest
from documents import JOURNAL, XID, ZERO, hardware_document, neighbourhood, none_document, unknown_document
from markdown_it import MarkdownIt
from sarif_schema import read_sarif
from stories import spread, story, told

from correlator.cli import main
from correlator.diagnosis import Action, CascadeEvent, Document, Evidence, Place, ResumeCandidate, RuledOut, Topology
from correlator.plots.moments import Moment, Seat, Story
from correlator.report import linked, markdown, ticks
from correlator.report.html import render_html
from correlator.report.markdown import code_block, escaped, render_markdown
from correlator.report.sarif import to_sarif

CASE = Path(__file__).parents[1] / "fixtures" / "cases" / "gpu-off-the-bus" / "logs"
HOSTILE = (
    '<script>alert(1)</script> <img src=x onerror=alert(2)> </pre></style>" onload="x ![i](http://e.vil/p.png) '
    "[c](javascript:x) @team #12 `tick` ```` | cell | {{ 7*7 }} {% raw %} \x1b]0;owned\x07 \u202egnp"
)


def hostile_document() -> Document:
    document = hardware_document()
    document.verdict.title = document.verdict.summary = document.initiator.nodes[0] = HOSTILE
    document.initiator.first_error = Place(HOSTILE, 1, 0, HOSTILE)
    document.cascade = [CascadeEvent("e", None, [1], [HOSTILE], HOSTILE, "initiator")]
    document.evidence = [Evidence("verdict", HOSTILE, 1, 0, HOSTILE, 0.5, HOSTILE)]
    document.actions = [Action.of("read-only", HOSTILE, f"echo '{HOSTILE}'", HOSTILE)]
    document.ruled_out = [RuledOut(HOSTILE, HOSTILE)]
    document.resume.path = document.job.job_id = HOSTILE
    return document


class Page(html.parser.HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_draws_the_graph_and_loads_nothing() -> None:
    document = hardware_document()
    page = Page(render_html(document, neighbourhood, story(*spread(32, 21), ranks=32)))
    assert page.tags.count("svg") == 2
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert {str(value)[:7] for name, value in page.attributes if name in ("src", "href", "srcset")} == {"#proof-"}
    said = " ".join(page.text.split())
    for fact in (
        "HARDWARE FAILURE: GPU has fallen off the bus; almost certain (95 %)",
        "rank 21, gpu-a009, GPU 5, 17:28:17 UTC",
        XID,
        "Safe to resume from iteration 7050",
        "scontrol update NodeName=gpu-a009",
        "Read 8 files, 48,211 lines, 5.2 MB; 312 events.",
    ):
        assert fact in said


def test_hostile_text_stays_text_in_the_page() -> None:
    document = hostile_document()
    shown = Story(
        (Moment("initiator", "a.b", HOSTILE, 1, HOSTILE, ZERO, 0.0, False, None, HOSTILE, 1, HOSTILE),),
        (Seat(1, HOSTILE, 0, True, ZERO),),
        ZERO,
    )
    page = Page(render_html(document, lambda *_: [HOSTILE], shown))
    assert "img" not in page.tags
    assert page.tags.count("script") == 1  # its own
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert all(c.isprintable() or c == "\n" for c in page.text)


def test_only_the_script_of_the_page_itself_may_run() -> None:
    text = render_html(hardware_document(), neighbourhood)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'\"" in text


@pytest.mark.parametrize("module", [linked, markdown, ticks])
def test_the_examples_in_the_docstrings_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).attempted and not doctest.testmod(module).failed


def test_checkpoints_are_a_table_with_the_chosen_one_marked() -> None:
    document = hardware_document()
    document.resume.candidates.append(ResumeCandidate(document.resume.path, 7050, True, "tp 4 pp 2", []))
    text = render_html(document)
    said = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    assert "7060 /ckpt/iter_0007060 incomplete 3 of 32 shards missing" in said
    assert "7050 /ckpt/iter_0007050 complete, resume here tp 4 pp 2" in said
    assert text.count('class="chosen"') == 1


def test_of_a_thousand_ranks_the_page_is_small_and_names_the_one_that_failed_first() -> None:
    document = hardware_document()
    document.job.world_size, document.job.topology = 1024, Topology(8, 4, 32, 1, 1, "tp-cp-ep-dp-pp")
    document.initiator.ranks = [617]
    document.collateral.ranks = [rank for rank in range(1024) if rank != 617]
    text = render_html(document, neighbourhood, story(*spread(1024, 617), ranks=1024))
    assert len(text.encode()) < 1_000_000
    page = Page(text)
    assert "rank 617 on gpu-a77: failed first; tp 1, pp 2, dp 13" in page.text
    assert page.tags.count("rect") > 1024
    assert "A lane for each of 128 nodes" in page.text


def test_of_more_nodes_than_anybody_looks_at_the_page_says_how_many_it_leaves_out() -> None:
    document = hardware_document()
    document.job.world_size, document.job.topology = 16384, Topology(8, 16, 128, 1, 1, "tp-cp-ep-dp-pp")
    document.initiator.ranks = [9000]
    document.collateral.ranks = [rank for rank in range(16384) if rank != 9000]
    text = render_html(document, neighbourhood, story(*spread(16384, 9000), ranks=16384))
    page = Page(text)
    assert len(text.encode()) < 5_000_000
    assert "A lane for each of 512 nodes" in page.text
    assert "Of 2,048 nodes the first 512 have a lane, those of the first failure before all others." in page.text
    assert "8 ranks with consecutive numbers a cell" in page.text
    assert "ranks 9000-9007 (8) on gpu-a1125: failed first; rank 9000 of ranks 9000-9007 (8)" in page.text


def test_what_has_no_time_is_counted_under_the_timeline() -> None:
    drawn = [told(21, 0), told(3, 9)]
    for untimed, said in (
        ((), None),
        (("collateral",) * 3, "No time is known of 3 events: not in this picture."),
        (("initiator", "collateral"), "No time is known of the first failure and of 1 other event: not in this"),
    ):
        text = Page(render_html(hardware_document(), None, replace(story(*drawn), untimed=untimed))).text
        assert said in text if said else "No time is known" not in text


def test_one_moment_alone_is_no_timeline_and_one_box_no_graph() -> None:
    document = hardware_document()
    document.cascade = document.cascade[:1]
    page = Page(render_html(document, None, story(told(21, 0, "initiator"), ranks=32)))
    assert "What happened when" not in page.text and "How it spread" not in page.text


def test_every_proof_is_shown_among_its_neighbours_and_the_rest_is_listed() -> None:
    document = hardware_document()
    document.evidence += [Evidence("verdict", "b.log", 10 * n, 0, "x" * n, 0.1, f"reason {n}") for n in range(1, 6)]
    text = Page(render_html(document, lambda file, line, before, after: ["before", "x" * (line // 10), "after"])).text
    assert "9  before" in text and "11  after" in text
    assert "more lines" in text and "b.log:50 reason 5" in text


def test_the_pictures_say_when_a_time_is_a_lower_limit_or_on_a_clock_of_its_own() -> None:
    shown = story(
        told(21, 0, "initiator", bound_s=None), told(3, 9, not_before=True), told(4, 7, bound_s=0.25), ranks=8
    )
    tips = [
        value or "" for name, value in Page(render_html(hardware_document(), None, shown)).attributes if name == "title"
    ]
    assert any(tip.startswith("failed first, +0.0 s, on a clock tied to no other (") for tip in tips)
    assert any(tip.startswith("suffered, not before +9.0 s (") for tip in tips)
    assert any(tip.startswith("suffered, +7.0 s ± 0.25 s (") for tip in tips)


def shown_as_text(source: str) -> tuple[list[str], str]:
    """Kinds of tokens that are more than text, and all text that is not code, as CommonMark with tables reads it."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = [child for token in reader.parse(source) for child in (token, *(token.children or ()))]
    lively = {"link_open", "image", "html_inline", "html_block", "em_open", "s_open", "blockquote_open"}
    text = " ".join(token.content for token in tokens if token.type == "text")
    return [token.type for token in tokens if token.type in lively], text


def test_hostile_text_stays_text_in_markdown() -> None:
    text = render_markdown(hostile_document(), lambda *_: [HOSTILE])
    lively, prose = shown_as_text(text.replace("*(read-only)*", ""))
    assert lively == []
    assert "<script>alert(1)</script> <img src=x onerror=alert(2)>" in prose
    assert not re.search(r"@|#\d|://|www\.", prose)
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize(
    "text",
    [
        "[a](http://e.vil)", "![a](b)", "<b>", "*a* _b_ __c__ **d**", "~~a~~", "@a/b", "see #12, GH-3", "www.e.vil",
        "a`b`@c`", "\\`x`", "\\<b>", "\\\\*a*", "`@a", "&lt;b&gt;", "a@e.vil", "[x]: http://e.vil", "> q", "a_@b_", "<http://e.vil>",
        "*@a*", "|@a|#1", "_a", "(_b_)", "~a~", "\\", "x\\",
    ],
)  # fmt: skip
def test_no_text_becomes_more_than_text(text: str) -> None:
    for source in (escaped(text), f"**{escaped(text)}**", f"| a |\n| - |\n| {escaped(text)} |"):
        lively, prose = shown_as_text(source)
        assert lively == []
        assert not re.search(r"@|#\d|://|www\.|GH-\d", prose)
        html_text = "".join(re.sub(r"<[^>]+>", "", MarkdownIt("commonmark").enable("table").render(source)).split())
        assert "".join(text.replace("`", "").split()) in unescape(html_text).replace("`", "")


def test_ordinary_prose_needs_no_escape() -> None:
    for text in (
        "HARDWARE FAILURE: GPU has fallen off the bus (Xid 79); almost certain (93 %)",
        "stdout/gpu-c04.log:34, waited for it",
        "torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:317, tp_size = 4 + 1!",
        "~+9m13s",
    ):
        assert escaped(text) == text


def test_every_line_of_the_table_has_its_four_cells() -> None:
    text = render_markdown(hostile_document(), None)
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 3
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


def test_markdown_holds_what_the_text_report_holds() -> None:
    text = render_markdown(hardware_document(), neighbourhood)
    assert text.startswith("# HARDWARE FAILURE: GPU has fallen off the bus; almost certain (95 %)\n\n**rank 21, ")
    assert "```text\n  2 start\n  3 May 07 17:29" in text
    assert f"> 4 {XID}\n" in text
    assert "\n## How it spread\n\n| after | role |" in text
    assert "1\\. **Save the driver's record** *(read-only)* A reboot wipes it.\n\n```sh\nssh gpu-a009" in text
    assert "*(disruptive)*" in text


@pytest.mark.parametrize("text", ["1. one", "- x", "= x", "+ x", "# x", "> x", "www.e.vil", "a  \nb", "~~~"])
def test_text_cannot_begin_a_block(text: str) -> None:
    assert escaped(text)[0] not in "-=+#>~"
    assert not escaped(text).startswith(("1. ", "www."))
    assert "\n" not in escaped(text)


def test_nothing_in_a_code_block_closes_it() -> None:
    assert code_block(["a", "````", "b"]).split("\n") == ["`````text", "a", "````", "b", "`````"]


def test_without_a_failure_no_one_is_named() -> None:
    assert "Who failed first" not in render_markdown(none_document())
    assert "Who failed first" not in render_html(none_document())
    assert json.loads(to_sarif(none_document()))["runs"][0]["results"] == []


def test_an_undecided_case_says_what_would_decide_it() -> None:
    for text in (render_markdown(unknown_document()), render_html(unknown_document())):
        assert text.index("What would decide it") < text.index("Who failed first")


@pytest.mark.parametrize("document", [hardware_document, none_document, unknown_document, hostile_document])
def test_sarif_keeps_to_the_published_schema(document: Callable[[], Document]) -> None:
    read_sarif(to_sarif(document()))


def test_sarif_points_to_the_line() -> None:
    (run,) = json.loads(to_sarif(hardware_document()))["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": JOURNAL, "uriBaseId": "LOGDIR"}
    assert place["region"] == {"startLine": 4, "snippet": {"text": XID}}
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "xid-79"
    assert [entry["id"] for entry in result["relatedLocations"]] == [1]
    assert to_sarif(hostile_document()).isascii()


@pytest.mark.parametrize(
    ("name", "start"),
    [("d.html", b"<!doctype html>"), ("d.md", b"# "), ("d.JSON", b"{"), ("d.sarif", b"{"), ("d.txt", b"HARDWARE"), ("report", b"HARDWARE")],
)  # fmt: skip
def test_the_ending_of_the_file_chooses_the_form(tmp_path: Path, name: str, start: bytes) -> None:
    assert main(["diagnose", str(CASE), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_option_outranks_the_ending(tmp_path: Path) -> None:
    assert main(["diagnose", str(CASE), "--format", "markdown", "-o", str(tmp_path / "d.json")]) == 0
    assert (tmp_path / "d.json").read_bytes().startswith(b"# ")


def test_another_ending_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(CASE), "-o", str(tmp_path / "d.pdf")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("correlator: no form of the answer has the ending '.pdf'; known are .txt")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
