"""Logs at addresses: fsspec's memory file system, file://, and a real S3-compatible server."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packing import tar
from tinylogs import PATTERNS, one, put, rows

from correlator.containers import remote
from correlator.errors import UsageError
from correlator.ingest import ingest
from correlator.rawtext import RawLines

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


LOGS = {
    "node1/rank_0.log": b"x\nBOOM seq=1\n",
    "node2/rank_1.log.gz": gzip.compress(b"x\nBOOM seq=2\n"),
    "old.tar": tar({"rank_2.log": b"x\nBOOM seq=3\n"}),
    "step_100/model.safetensors": b"\x40" + bytes(7) + b'{"w":{}}',
    "train.py": b"BOOM seq=4\n",
}
WANTED = [("node1/rank_0.log", 1, 0), ("node2/rank_1.log.gz", 2, 1), ("old.tar!/rank_2.log", 3, 2)]
LEFT = {"step_100/model.safetensors": "a safetensors file", "train.py": "program code, not a log"}


def check(url: str) -> None:
    result = ingest(url, patterns=PATTERNS)
    assert [(row["file"], row["seq"], row["rank"]) for row in rows(result)] == WANTED
    assert {skip.name: skip.why for skip in result.skipped} == LEFT
    assert all(source.mtime_ns > 1_700_000_000 * 10**9 for source in result.sources if "!" not in source.name)
    raw = RawLines({source.name: source for source in result.sources})
    assert raw.line("node1/rank_0.log", 2) == "BOOM seq=1"


def test_a_tree_in_memory(memory: Any) -> None:
    for name, content in LOGS.items():
        memory.pipe(f"/bucket/run7/{name}", content)
    check("memory://bucket/run7")
    check("memory://bucket/run7/")


def test_one_object_and_several_addresses(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/bucket/a/rank_0.log", b"BOOM seq=1\n")
    memory.pipe("/bucket/b/rank_0.log", b"BOOM seq=2\n")
    assert one(ingest("memory://bucket/a/rank_0.log", patterns=PATTERNS))["file"] == "rank_0.log"
    put(tmp_path, "BOOM seq=3\n", "c/rank_0.log")
    found = rows(ingest(["memory://bucket/a", "memory://bucket/b", tmp_path / "c"], patterns=PATTERNS))
    assert [(r["file"], r["seq"]) for r in found] == [("a/rank_0.log", 1), ("b/rank_0.log", 2), ("c/rank_0.log", 3)]


def test_large_objects_are_looked_at_before_they_are_fetched(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LOOK_FIRST", 100)
    fetched: list[str] = []
    memory.pipe("/bucket/model.bin", bytes(range(256)) * 40)
    memory.pipe("/bucket/a.log", b"BOOM\n" * 40)
    get = type(memory).get

    def noted(self: Any, addresses: list[str], *args: Any, **options: Any) -> None:
        fetched.extend(addresses)
        get(self, addresses, *args, **options)

    monkeypatch.setattr(type(memory), "get", noted)
    result = ingest("memory://bucket", patterns=PATTERNS)
    assert fetched == ["/bucket/a.log"]
    assert [(skip.name, skip.why) for skip in result.skipped] == [("model.bin", "binary data")]


def test_an_object_that_cannot_be_fetched_is_named(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe("/bucket/a.log", b"BOOM\n")
    memory.pipe("/bucket/b.log", b"BOOM\n")
    get_file = type(memory).get_file

    def refuse(self: Any, address: str, path: str, **options: Any) -> None:
        if address.endswith("b.log"):
            raise PermissionError("access denied")
        get_file(self, address, path, **options)

    monkeypatch.setattr(type(memory), "get_file", refuse)
    result = ingest("memory://bucket", patterns=PATTERNS)
    assert one(result)["file"] == "a.log"
    assert [(skip.name, skip.why) for skip in result.skipped] == [("b.log", "could not be fetched")]


def test_file_addresses_are_paths(tmp_path: Path) -> None:
    put(tmp_path, "BOOM\n", "a b/rank_0.log")
    (source,) = ingest((tmp_path / "a b").as_uri(), patterns=PATTERNS).sources
    assert (source.path, source.spool) == (tmp_path / "a b" / "rank_0.log", None)


def test_what_is_missing_is_said(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="memory://nowhere does not exist or holds no file"):
        ingest("memory://nowhere")
    with pytest.raises(UsageError, match="nosuch://x cannot be opened: Protocol not known"):
        ingest("nosuch://x")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(
        UsageError, match=r"s3://b/x cannot be opened yet: pip install 'rank-correlator\[remote\]' s3fs"
    ):
        ingest("s3://b/x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"needs the extra `remote`: pip install 'rank-correlator\[remote\]'"):
        ingest("s3://b/x")


def test_no_room(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe("/bucket/a.log", b"BOOM\n")
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 3}))
    with pytest.raises(UsageError, match="holds 5 bytes of logs, more than the 3 bytes free"):
        ingest("memory://bucket")


def test_an_s3_server(monkeypatch: pytest.MonkeyPatch) -> None:
    server_module = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    try:
        system = s3fs.S3FileSystem(skip_instance_cache=True)
        system.mkdir("bucket")
        for name, content in LOGS.items():
            system.pipe(f"bucket/run7/{name}", content)
        check("s3://bucket/run7")
        with pytest.raises(UsageError, match="s3://bucket/empty"):
            ingest("s3://bucket/empty")
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()
