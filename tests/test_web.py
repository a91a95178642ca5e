"""The local web page: what people and programs get of it, and what it refuses."""

from __future__ import annotations

import io
import os
import re
import time
import zipfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from correlator.diagnosis import json_schema
from correlator.web.app import make_app
from correlator.web.settings import Settings

HERE = "http://127.0.0.1:8765"
CASE = Path(__file__).parents[1] / "fixtures/cases/gpu-off-the-bus/logs"
TOKEN = "a-token-for-these-tests"
TRACEBACK = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/train/main.py", line 12, in <module>
[rank3]:     main()
[rank3]: RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x1024 and 512x1024)
"""


def client_of(settings: Settings, base_url: str = HERE) -> TestClient:
    return TestClient(make_app(settings), base_url=base_url, follow_redirects=False)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(Settings(roots=(CASE.parent,))) as client:
        yield client


def finished(client: TestClient, sent: Any, seconds: float = 60) -> tuple[str, Any]:
    """Where a posted diagnosis is, and its page when it is no longer waiting."""
    assert sent.status_code == 303, sent.text
    address = sent.headers["location"]
    until = time.monotonic() + seconds
    while 'http-equiv="refresh"' in (page := client.get(address)).text:
        assert time.monotonic() < until
        time.sleep(0.1)
    return address, page


@pytest.fixture(scope="module")
def opened(client: TestClient) -> tuple[str, str]:
    """The case's folder, opened from the page: address and page."""
    address, page = finished(client, client.post("/diagnose", files=form(place="0/logs")))
    return address, page.text


def links(page: str, part: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]+)"', page) if part in link]


def form(**fields: str) -> dict[str, tuple[None, str]]:
    """Fields as a browser sends them."""
    return {name: (None, value) for name, value in fields.items()}


def zipped(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


# --- what people get -------------------------------------------------------------------------------------------------


def test_a_folder_gives_verdict_report_and_downloads(client: TestClient, opened: tuple[str, str]) -> None:
    address, page = opened
    assert "HARDWARE FAILURE" in page and "Xid 79" in page and "Next step" in page
    report = client.get(f"{address}/report.html")
    assert report.text.startswith("<!doctype html>") and "Xid 79" in report.text
    answer = client.get(f"{address}/diagnosis.json?save")
    assert answer.headers["content-disposition"].startswith("attachment")
    jsonschema.validate(answer.json(), json_schema())
    assert client.get(f"{address}/report.md").text.startswith("#")


def test_the_verdict_leads_to_the_raw_line_and_its_neighbours(client: TestClient, opened: tuple[str, str]) -> None:
    address, page = opened
    first = client.get(f"{address}/diagnosis.json").json()["initiator"]["first_error"]
    raw = client.get(links(page, "/raw?")[0]).text
    key = re.search(r'class="key"[^>]*><span class="number">(\d+)</span><code>(.*?)</code>', raw)
    assert key is not None
    assert int(key[1]) == first["line"]
    assert first["text"].split("\n")[0] in unescape(key[2])
    shown = [line.decode() for line in (CASE / first["file"]).read_bytes().splitlines()][:5]
    assert all(line in unescape(raw) for line in shown if first["line"] < 10)


def test_every_place_that_the_page_names_is_a_link(client: TestClient, opened: tuple[str, str]) -> None:
    parts = "|".join(f"<{tag}.*?</{tag}>" for tag in ("style", "script", "figure", "svg", "pre"))
    text = unescape(re.sub(parts, "", opened[1], flags=re.DOTALL))
    named = set(re.findall(r"[\w./-]+\.(?:log|journal):\d+", re.sub(r"<[^>]+>", " ", text)))
    linked = set(re.findall(r'<a href="[^"]*/raw\?[^"]*#line">([^<]*)</a>', text))
    assert len(named) > 5 and named <= linked


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"file": "../case.toml", "offset": "0"}, 404),
        ({"file": "/etc/passwd", "offset": "0"}, 404),
        ({"file": "", "offset": "0"}, 404),
        ({"file": "stdout", "offset": "-1"}, 400),
        ({"file": "stdout", "offset": "9" * 40}, 400),
        ({"file": "stdout", "offset": "0", "around": "100000"}, 400),
    ],
)
def test_only_lines_of_this_diagnosis_are_shown(
    client: TestClient, opened: tuple[str, str], query: dict[str, str], status: int
) -> None:
    assert client.get(f"{opened[0]}/raw", params=query).status_code == status


def test_a_pasted_traceback_is_diagnosed(client: TestClient) -> None:
    _, page = finished(client, client.post("/diagnose", files=form(text=TRACEBACK)))
    assert page.status_code == 200
    assert "shapes cannot be multiplied" in page.text
    assert links(page.text, "/encyclopedia/entries/")


def test_files_keep_the_names_that_tell_of_ranks(client: TestClient) -> None:
    files = [("files", (f"run7/rank{rank}.log", TRACEBACK.replace("rank3", f"rank{rank}"))) for rank in (0, 1)]
    address, _ = finished(client, client.post("/diagnose", files=files))
    answer = client.get(f"{address}/diagnosis.json").json()
    assert answer["initiator"]["ranks"] == [0, 1]
    assert {entry["file"] for entry in answer["evidence"]} <= {"run7/rank0.log", "run7/rank1.log"}


def test_lines_of_an_archive_can_still_be_seen_afterwards(client: TestClient) -> None:
    archive = ("logs.zip", zipped(**{"n1/rank3.log": TRACEBACK}))
    address, page = finished(client, client.post("/diagnose", files={"files": archive}))
    raw = client.get(links(page.text, "/raw?")[0])
    assert "main()" in raw.text and "n1/rank3.log" in raw.text
    assert client.post(f"{address}/forget").status_code == 303
    assert client.get(address).status_code == 404


def test_the_encyclopedia_and_its_search(client: TestClient) -> None:
    assert client.get("/encyclopedia/").headers["location"] == "/encyclopedia/index.html"
    index = client.get("/encyclopedia/index.html").text
    assert 'src="search.js"' in index and 'href="/"' in index
    assert client.get("/encyclopedia/entries.js").headers["content-type"].startswith("text/javascript")
    assert "Xid 79" in client.get("/encyclopedia/entries/xid-79.html").text
    assert client.get("/encyclopedia/entries/../../pyproject.toml").status_code == 404
    line = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus."
    page = client.get("/explain", params={"q": line}).text
    assert "<h1>GPU has fallen off the bus" in page
    assert client.get("/api/explain", params={"q": line}).json()["entry"]["id"] == "xid-79"
    assert client.get("/explain", params={"q": " "}).status_code == 400
    assert client.get("/explain", params={"q": "x" * 9000}).status_code == 413


# --- what programs get -----------------------------------------------------------------------------------------------


def test_the_api_answers_and_keeps_nothing(client: TestClient) -> None:
    answer = client.post("/api/diagnose?name=rank3.log", content=TRACEBACK)
    jsonschema.validate(answer.json(), json_schema())
    assert answer.json()["initiator"]["ranks"] == [3]
    assert client.get("/health").json() == {"status": "ok", "unfinished": 0}


def test_the_description_fits_what_is_answered(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    jsonschema.Draft202012Validator.check_schema({"$defs": described["components"]["schemas"]})
    assert set(described["paths"]) == {"/api/diagnose", "/api/explain", "/d/{job}/raw.json", "/health"}
    schema = described["paths"]["/api/diagnose"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    answer = client.post("/api/diagnose", files=form(place="0/logs"))
    jsonschema.validate(answer.json(), {**schema, "components": described["components"]})
    for path, methods in described["paths"].items():
        for method, said in methods.items():
            answer = client.request(method.upper(), path.replace("{job}", "unknown"))
            assert str(answer.status_code) in said["responses"]
            assert "error" in answer.json() or answer.status_code == 200


def test_a_program_drills_from_the_answer_to_the_raw_lines(client: TestClient) -> None:
    answer = client.post("/api/diagnose?hold", files=form(place="0/logs"))
    first, address = answer.json()["initiator"]["first_error"], answer.headers["location"]
    asked = {"file": first["file"], "offset": first["byte_offset"], "line": first["line"], "around": 50}
    raw = client.get(f"{address}/raw.json", params=asked).json()
    assert raw["why"] and [line["text"] for line in raw["lines"] if line["is_asked"]] == [first["text"]]
    lines = (CASE / first["file"]).read_text().splitlines()
    assert raw["lines"] and all(lines[line["line"] - 1] == line["text"] for line in raw["lines"])
    assert client.get(f"{address}/raw.json", params={**asked, "file": "/etc/passwd"}).json().keys() == {"error"}
    assert "HARDWARE" in client.get(address).text
    client.post(f"{address}/forget")


# --- hostile input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ([], 400),
        ([("files", ("empty.log", b""))], 400),
        ([("files", ("blank.log", b"\n\0\n"))], 422),
        ([("files", ("model.bin", b"\x7fELF" + bytes(range(256)) * 40))], 422),
        ([("files", ("logs.zip", b"PK\x03\x04 torn"))], 422),
    ],
    ids=["nothing", "empty", "blank", "binary", "torn"],
)
def test_what_holds_no_log_is_said_in_one_sentence(client: TestClient, files: list[Any], status: int) -> None:
    answer = client.post("/api/diagnose", files=files or form(text=" "))
    assert answer.status_code == status
    assert answer.json()["error"] and "/tmp" not in answer.json()["error"]


@pytest.mark.parametrize(
    "name", ["../../../etc/cron.d/x", "/etc/x", "..", "a/../../x", "C:\\x\\..\\..\\y", "x\0y", "n" * 3000, "d/" * 500 + "x", "\x1b[2J<b>.log"]
)  # fmt: skip
def test_no_name_leads_out_of_the_folder(client: TestClient, tmp_path: Path, name: str) -> None:
    from correlator.web.received import _new_path

    top = tmp_path / "sent"
    top.mkdir()
    paths = [_new_path(top, name) for _ in range(1)]
    for path in paths:
        path.write_text("x")
        assert path.resolve().is_relative_to(top)
    again = _new_path(top, name)
    again.write_text("y")
    assert again not in paths and again.resolve().is_relative_to(top)
    inside = _new_path(top, f"{paths[0].relative_to(top).as_posix()}/inner")
    inside.write_text("z")
    assert {path.name for path in tmp_path.iterdir()} == {"sent"}


def test_a_member_that_climbs_out_of_its_archive_stays_in_it(client: TestClient) -> None:
    archive = ("logs.zip", zipped(**{"../../../../tmp/climbed-out.log": TRACEBACK}))
    answer = client.post("/api/diagnose", files={"files": archive}).json()
    assert answer["initiator"]["first_error"]["file"] == "logs.zip!/tmp/climbed-out.log"
    assert not Path("/tmp/climbed-out.log").exists()


def test_too_much_is_refused_whatever_length_was_stated() -> None:
    with client_of(Settings(max_upload=1 << 20)) as client:
        assert client.post("/api/diagnose", content=b"x" * (2 << 20)).status_code == 413
        pieces = iter([b"x" * (1 << 19)] * 4)  # no length is stated
        answer = client.post("/api/diagnose", content=pieces)
        assert answer.status_code == 413 and "1 MiB" in answer.json()["error"]
        form = client.post("/diagnose", files={"files": ("a.log", b"x" * (2 << 20))})
        assert form.status_code == 413
        assert client.get("/health").json()["unfinished"] == 0


def test_a_zip_bomb_ends_at_the_limit_of_the_disk() -> None:
    with client_of(Settings(max_disk=32 << 20)) as client:
        bomb = ("logs.zip", zipped(**{f"{n}.log": "x" * 80 + "\n" * (100 << 20) for n in range(2)}))
        answer = client.post("/api/diagnose", files={"files": bomb})
        assert answer.status_code == 413 and "unpacks to more" in answer.json()["error"]


def test_a_diagnosis_ends_at_its_time_limit() -> None:
    with client_of(Settings(time_limit=0.05)) as client:
        answer = client.post("/api/diagnose", content=TRACEBACK)
        assert answer.status_code == 504 and "longer than the limit" in answer.json()["error"]


def test_a_diagnosis_ends_at_its_limit_of_memory() -> None:
    with client_of(Settings(max_memory=16 << 20)) as client:  # less than a worker has before it begins
        archive = ("logs.zip", zipped(**{f"{n}.log": TRACEBACK * 20_000 for n in range(8)}))
        answer = client.post("/api/diagnose", files={"files": archive})
        assert answer.status_code == 413
        assert answer.json()["error"] == "it needs more memory than the limit of 16 MiB"
        assert client.get("/health").json()["unfinished"] == 0


def test_hostile_text_stays_text(client: TestClient) -> None:
    hostile = "<script>alert(1)</script> \x1b[2J **bold** [x](javascript:alert(1))"
    text = f"[rank3]: RuntimeError: CUDA error: out of memory {hostile}\n{TRACEBACK}"
    files = {"files": ('"><img src=x onerror=alert(1)>.log', text)}
    address, page = finished(client, client.post("/diagnose", files=files))
    for shown in (page.text, client.get(f"{address}/report.html").text, client.get(links(page.text, "/raw?")[0]).text):
        assert "<script>alert" not in shown and "<img" not in shown and "\x1b" not in shown
        assert 'href="javascript' not in shown


# --- who is let in, and where to ------------------------------------------------------------------------------------


def test_every_answer_forbids_the_browser_what_it_can(client: TestClient, opened: tuple[str, str]) -> None:
    for path in ("/", "/health", "/nowhere", "/encyclopedia/index.html", opened[0], f"{opened[0]}/report.html"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors" in policy
        assert ("script-src 'unsafe-inline'" in policy) == path.endswith("report.html")
        assert policy.startswith("sandbox ") == path.endswith("report.html")
        assert "allow-same-origin" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.", ""])
def test_another_name_for_this_machine_is_not_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8765", "127.0.0.1", "[::1]:9"])
def test_the_names_of_loopback_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_forms_of_other_sites_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/diagnose", files=form(text=TRACEBACK), headers=headers).status_code == 403
    assert client.post("/api/diagnose", content=TRACEBACK, headers=headers).status_code == 403


def test_with_a_token_only_its_holder_sees_anything() -> None:
    settings = Settings(token=TOKEN, hosts=None, roots=(CASE,))
    with client_of(settings, "http://login-node.example:8765") as client:
        assert client.get("/health").status_code == 200
        assert client.get("/folders/0").headers["location"] == "/login?next=/folders/0"
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Bearer "},
            {"cookie": "correlator-session="},
        ):
            assert client.post("/api/diagnose", content="x", headers=headers).status_code == 401
            assert client.post("/diagnose", files=form(text="x"), headers=headers).status_code == 401
        known = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/folders/0", headers=known).status_code == 200


def test_the_login_form_sets_a_cookie_that_scripts_and_other_sites_cannot_use() -> None:
    with client_of(Settings(token=TOKEN, hosts=None), "https://login-node.example") as client:
        assert client.post("/login", data={"token": "wrong"}).status_code == 401
        assert client.get("/").status_code == 303
        answer = client.post("/login?next=/folders/0", data={"token": TOKEN})
        assert answer.headers["location"] == "/folders/0"
        cookie = answer.headers["set-cookie"].lower()
        assert TOKEN not in cookie
        assert all(part in cookie for part in ("httponly", "samesite=strict", "secure", "path=/"))
        assert client.get("/").status_code == 200
        for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example"):
            answer = client.post("/login", params={"next": elsewhere}, data={"token": TOKEN})
            assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    "place", ["1", "-1", "x", "", "0/..", "0/../case.toml", "0/logs/../..", "0//etc", "0/./logs", "0/nowhere", "0/logs\0x", "²"]
)  # fmt: skip
def test_no_address_leads_out_of_the_named_folders(client: TestClient, place: str) -> None:
    assert client.post("/api/diagnose", files={"x": b""}, data={"place": place}).status_code == 400


def test_links_in_a_named_folder_are_not_followed(tmp_path: Path) -> None:
    outside, named = tmp_path / "outside", tmp_path / "named"
    (outside / "folder").mkdir(parents=True)
    named.mkdir()
    (outside / "secret.log").write_text("[rank7]: RuntimeError: the secret\n")
    (outside / "folder" / "rank8.log").write_text("[rank8]: RuntimeError: the secret\n")
    (named / "rank3.log").write_text(TRACEBACK)
    (named / "rank7.log").symlink_to(outside / "secret.log")
    (named / "sub").symlink_to(outside / "folder")
    with client_of(Settings(roots=(named,))) as client:
        answer = client.post("/api/diagnose", files=form(place="0"))
        assert "secret" not in answer.text
        assert {skip["file"] for skip in answer.json()["inputs"]["files_skipped"]} == {"rank7.log", "sub"}
        assert client.post("/api/diagnose", files=form(place="0/sub")).status_code == 400
        assert client.post("/api/diagnose", files=form(place="0/rank7.log")).status_code == 400
        page = client.get("/folders/0").text
        assert "rank3.log" in page and "rank7.log" not in page
        # A link that took the place of a log after it was read shows nothing either.
        _, page = finished(client, client.post("/diagnose", files=form(place="0")))
        (named / "rank3.log").unlink()
        (named / "rank3.log").symlink_to(outside / "secret.log")
        assert client.get(links(page.text, "/raw?")[0]).status_code == 410


def test_names_on_the_disk_that_are_not_utf8_are_read_and_shown(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"job \xff")
    (odd / os.fsdecode(b"sub\xfe")).mkdir(parents=True)
    (odd / os.fsdecode(b"rank3 \xff.log")).write_text(TRACEBACK)
    for root in (odd, tmp_path):
        with client_of(Settings(roots=(root,))) as client:
            assert client.get("/").status_code == client.get("/folders/0").status_code == 200
            _, page = finished(client, client.post("/diagnose", files=form(place="0")))
            assert "shapes cannot be multiplied" in page.text
            assert "main()" in client.get(links(page.text, "/raw?")[0]).text


def test_a_log_is_the_body_whatever_type_a_program_states(client: TestClient) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "nonsense", ""):
        text = TRACEBACK + "a=b&" * 1000
        answer = client.post("/api/diagnose?name=rank3.log", content=text, headers={"content-type": kind})
        assert answer.json()["initiator"]["ranks"] == [3]


# --- nothing is kept -------------------------------------------------------------------------------------------------


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with client_of(Settings()) as client:
        finished(client, client.post("/diagnose", files=form(text=TRACEBACK)))
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_reports_are_kept_where_asked(tmp_path: Path) -> None:
    with client_of(Settings(keep=tmp_path)) as client:
        finished(client, client.post("/diagnose", files=form(text=TRACEBACK)))
    (kept,) = tmp_path.iterdir()
    assert {path.name for path in kept.iterdir()} == {"report.html", "diagnosis.json"}


def test_several_people_at_once_and_no_more_than_may_wait() -> None:
    with client_of(Settings(parallel=2, waiting=1)) as client:
        sent = [client.post("/diagnose", files=form(text=TRACEBACK)) for _ in range(3)]
        assert client.post("/diagnose", files=form(text=TRACEBACK)).status_code == 503
        pages = [finished(client, one)[1] for one in sent]
        assert all("shapes cannot be multiplied" in page.text for page in pages)
        assert len({one.headers["location"] for one in sent}) == 3
