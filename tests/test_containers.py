"""Archives are opened as what they are; nothing in them can hurt; standard input and growing files are read too."""

from __future__ import annotations

import gc
import gzip
import io
import os
import pickle
import random
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packing import ARCHIVES, COMPRESS, MTIME, link, put_archive, tar, zipped
from tinylogs import PATTERNS, one, put, read, rows

from correlator import reading
from correlator.containers import tar as tar_module
from correlator.containers import unpack
from correlator.discovery import discover
from correlator.errors import NothingReadable, UsageError
from correlator.ingest import Ingested, ingest, planning
from correlator.rawtext import RawLines

MEMBERS = {
    "node1/rank_0.log": b"first line\nBOOM seq=1\nlast\n",
    "node2/rank_1.log": b"x" * 90 + b"\nBOOM seq=2\n",
}


def noise(lines: int) -> bytes:
    """Text that does not compress to nothing."""
    source = random.Random(0)
    return b"".join(b"%d %s\n" % (i, source.randbytes(30).hex().encode()) for i in range(lines))


def reasons(result: Ingested) -> dict[str, str]:
    return {skip.name: skip.why for skip in result.skipped}


def complaints(result: Ingested) -> dict[str, str]:
    return {warning.name: warning.why for warning in result.warnings}


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are made."""
    folder = tmp_path / "spools"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# --- what is in an archive is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHIVES)
def test_members_are_source_files(tmp_path: Path, name: str) -> None:
    path = put_archive(tmp_path, name, MEMBERS)
    result = ingest(path, patterns=PATTERNS)
    found = [(r["file"], r["line"], r["byte_offset"], r["seq"], r["rank"]) for r in rows(result, "test.boom")]
    assert found == [
        (f"{name}!/node1/rank_0.log", 2, 11, 1, 0),
        (f"{name}!/node2/rank_1.log", 2, 91, 2, 1),
    ]
    assert {source.mtime_ns for source in result.sources} == {MTIME * 1_000_000_000}
    assert (result.skipped, result.warnings) == ([], [])


@pytest.mark.parametrize("name", ["logs.tar.gz", "logs.zip"])
def test_members_are_quoted(tmp_path: Path, name: str) -> None:
    members = {**MEMBERS, "packed.log.gz": gzip.compress(b"before\nBOOM seq=3\nafter\n")}
    result = ingest(put_archive(tmp_path, name, members), patterns=PATTERNS)
    raw = RawLines({source.name: source for source in result.sources})
    quoted = [raw.neighbourhood(r["file"], r["byte_offset"], 1, 1) for r in rows(result, "test.boom")]
    assert quoted == [
        ["first line", "BOOM seq=1", "last"],
        ["x" * 90, "BOOM seq=2", ""],
        ["before", "BOOM seq=3", "after"],
    ]


def test_an_archive_among_logs(tmp_path: Path) -> None:
    put(tmp_path, "BOOM seq=0\n", "a.log")
    put(tmp_path, tar({"./n1/b.log": b"BOOM seq=1\n", "n1/": link("n1/", "", tarfile.DIRTYPE)}), "more/old.tar")
    result = read(tmp_path)
    assert [file.name for file in result.files] == ["a.log", "more/old.tar!/n1/b.log"]
    assert result.skipped == []


def test_paths_in_an_archive_make_claims(tmp_path: Path) -> None:
    put(tmp_path, tar({"n1/x.log": b"BOOM\n"}), "rank3.tar.gz")
    put(tmp_path, zipped({"job/nccl.gpu-a017.4711.log": b"BOOM\n"}), "b.zip")
    first, second = discover([tmp_path]).files
    assert (first.claims.node, first.claims.pid) == ("gpu-a017", 4711)
    assert (second.claims.rank, second.claims.tokens) == (3, ("rank3", "n1", "x"))


def test_archives_in_archives_to_depth_two(tmp_path: Path) -> None:
    third = tar({"deep.log": b"BOOM seq=3\n"})
    second = zipped({"c.tar": third, "b.log": b"BOOM seq=2\n"})
    put(tmp_path, gzip.compress(tar({"b.zip": second, "a.log": b"BOOM seq=1\n"})), "a.tgz")
    result = read(tmp_path)
    assert [file.name for file in result.files] == ["a.tgz!/a.log", "a.tgz!/b.zip!/b.log"]
    assert reasons(result) == {"a.tgz!/b.zip!/c.tar": "an archive inside 2 others; unpack the outer one"}


def test_the_same_name_twice(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for text in (b"BOOM seq=1\n", b"BOOM seq=2\n"):
            info = tarfile.TarInfo("x.log")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    assert [(r["file"], r["seq"]) for r in rows(read(tmp_path))] == [("a.tar!/x.log", 1), ("a.tar!/x.log~2", 2)]


def test_old_tar_without_magic(tmp_path: Path) -> None:
    raw = bytearray(tar({"x.log": b"BOOM\n"}))
    raw[257:265] = bytes(8)
    raw[148:156] = b"%06o\x00 " % (sum(raw[:148]) + sum(raw[156:512]) + 8 * 32)
    assert one(read(put(tmp_path, bytes(raw), "v7.tar")))["file"] == "v7.tar!/x.log"


@pytest.mark.parametrize("kind", COMPRESS)
def test_one_after_the_other_in_one_compressed_file(tmp_path: Path, kind: str) -> None:
    parts = [COMPRESS[kind](b"line %d\nBOOM seq=%d\n" % (i, i)) for i in range(3)]
    found = rows(read(put(tmp_path, b"".join(parts), "rank_0.log")))
    assert [(row["line"], row["byte_offset"], row["seq"]) for row in found] == [(2, 7, 0), (4, 25, 1), (6, 43, 2)]


def test_a_sosreport(tmp_path: Path) -> None:
    top = "sosreport-gpu-a017-2024-05-01-abcdefg"
    members: dict[str, bytes | tarfile.TarInfo] = {
        f"{top}/var/log/messages": b"May  1 07:40:18 gpu-a017 kernel: BOOM\n",
        f"{top}/sos_commands/kernel/dmesg": b"[123456.789012] BOOM\n",
        f"{top}/etc/fstab": b"BOOM\n",
        f"{top}/etc/hosts": b"BOOM\n",
        f"{top}/proc/cmdline": b"BOOM\n",
        f"{top}/free": link(f"{top}/free", "sos_commands/memory/free"),
    }
    result = read(put(tmp_path, COMPRESS["xz"](tar(members)), f"{top}.tar.xz"))
    inside = f"{top}.tar.xz!/{top}"
    assert {(r["file"], r["node"]) for r in rows(result)} == {
        (f"{inside}/sos_commands/kernel/dmesg", "gpu-a017"),
        (f"{inside}/var/log/messages", "gpu-a017"),
    }
    assert reasons(result) == {
        f"{inside}/etc/": "configuration and state, no logs",
        f"{inside}/proc/": "configuration and state, no logs",
        f"{inside}/free": "a link inside the archive; not followed",
    }


def test_a_sosreport_states_its_host(tmp_path: Path) -> None:
    top = "sosreport-gpu-00117-2024-05-01-abcdefg"
    host = {
        "sos_commands/host/hostname": b"gpu-00117.example.net\n",
        "sos_commands/kernel/uname_-a": b"Linux other 5.14 #1\n",
    }
    said = {"sos_commands/host/hostnamectl_status": b"   Static hostname: gpu-00118\n         Icon name: computer\n"}
    logs = {"sos_commands/kernel/dmesg": b"[123456.789012] BOOM\n", "var/log/app.log": b"BOOM\n"}
    first = {f"{top}/{name}": content for name, content in {**logs, **host}.items()}
    put(tmp_path, COMPRESS["xz"](tar(first)), "ticket.tar.xz")
    for name, content in {**logs, **said}.items():
        put(tmp_path, content, f"unpacked/{name}")
    put(tmp_path, b"BOOM\n", "train.log")
    assert [(r["file"].split("/")[0], r["node"]) for r in rows(read(tmp_path))] == [
        ("ticket.tar.xz!", "gpu-00117.example.net"),
        ("ticket.tar.xz!", "gpu-00117.example.net"),
        ("train.log", None),
        ("unpacked", "gpu-00118"),
        ("unpacked", "gpu-00118"),
    ]


def test_what_is_no_host_name_in_a_sosreport(tmp_path: Path) -> None:
    put(tmp_path, b"hostname: command not found, try --help\n", "sos/sos_commands/host/hostname")
    put(tmp_path, b"BOOM\n", "sos/sos_commands/kernel/dmesg")
    assert one(read(tmp_path))["node"] is None


def test_a_bug_report_states_its_host(tmp_path: Path) -> None:
    head = b"_______\n\nStart of NVIDIA bug report log file.  Please include\n\nDate: Wed May  1 07:50:00 UTC 2024\n"
    uname = b"uname: Linux gpu-a017 5.15.0-105-generic #115-Ubuntu SMP x86_64 GNU/Linux\n"
    put(tmp_path, gzip.compress(head + uname + b"[123456.789012] BOOM\n"), "nvidia-bug-report.log.gz")
    put(tmp_path, uname + b"BOOM\n", "notes.log")
    assert [row["node"] for row in rows(read(tmp_path))] == [None, "gpu-a017"]


def test_members_without_a_time_have_the_archives(tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("messages"), "May  1 07:40:18 node012 kernel: BOOM\n")
    os.utime(path, (1_714_600_000, 1_714_600_000))
    row = one(read(path))
    assert (row["node"], row["timestamp"]) == ("node012", 1_714_549_218 * 10**9)


def test_bug_reports_of_nodes(tmp_path: Path) -> None:
    text = b"____________________________________________\n\nStart of NVIDIA bug report log file.\nBOOM\n"
    put(tmp_path, gzip.compress(text), "nvidia-bug-report_gpu-a017.log.gz")
    put(tmp_path, gzip.compress(text), "nvidia-bug-report-gpu-a018-20240501-074018.log.gz")
    put(tmp_path, gzip.compress(text), "nvidia-bug-report.log.gz")
    assert [row["node"] for row in rows(read(tmp_path))] == ["gpu-a018", None, "gpu-a017"]


# --- what is no log --------------------------------------------------------------------------------------------------


def test_binaries_in_archives_are_left_there(tmp_path: Path, spools: Path) -> None:
    members = {
        "a.log": b"BOOM\n",
        "w.bin": bytes(range(256)) * 99,
        "core": b"\x7fELF\2\1" + bytes(10) + b"\4" + bytes(99),
        "t.py": b"BOOM\n",
    }
    put(tmp_path, tar(members), "in/x.tar")
    result = read(tmp_path / "in")
    assert reasons(result) == {
        "x.tar!/core": "a core dump, no log; gdb reads it",
        "x.tar!/t.py": "program code, not a log",
        "x.tar!/w.bin": "binary data",
    }
    assert len([path for path in spools.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"model/data.pkl": b"x", "model/version": b"3\n"}, "a torch checkpoint"),
        ({"a.npy": b"\x93NUMPY", "b.npy": b"\x93NUMPY"}, "numpy arrays"),
        ({"[Content_Types].xml": b"<x/>", "word/document.xml": b"<x/>"}, "an office document"),
        ({"META-INF/MANIFEST.MF": b"x", "readme.txt": b"BOOM\n"}, "program code, not a log"),
        ({}, "an empty archive"),
    ],
)
def test_zip_files_that_are_no_archives_of_logs(tmp_path: Path, members: dict[str, bytes], why: str) -> None:
    put(tmp_path, "x\n", "a.log")
    put(tmp_path, zipped(members), "model.pt")
    result = read(tmp_path)
    assert reasons(result) == {"model.pt": why}
    assert [file.name for file in result.files] == ["a.log"]


def test_a_torn_checkpoint_is_no_archive_either(tmp_path: Path) -> None:
    put(tmp_path, "x\n", "a.log")
    put(tmp_path, zipped({"model/data.pkl": b"x" * 500, "model/data/0": noise(900)})[:-300], "model.pt")
    assert reasons(read(tmp_path)) == {"model.pt": "a torch checkpoint"}


# --- nothing in an archive can hurt ----------------------------------------------------------------------------------

EVIL = ["../../outside.log", "/etc/outside.log", "a/../../outside.log", "..\\..\\outside.log", "./.././outside.log"]


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("make", [tar, zipped])
def test_no_name_leads_out(tmp_path: Path, spools: Path, make: Any, name: str) -> None:
    put(tmp_path, make({name: b"BOOM\n"}), "in/evil")
    before = set(tmp_path.rglob("*"))
    result = read(tmp_path / "in")
    assert {path for path in set(tmp_path.rglob("*")) - before if not path.is_relative_to(spools)} == set()
    assert one(result)["file"] in ("evil!/outside.log", "evil!/etc/outside.log", "evil!/a/outside.log")
    (copy,) = (path for path in spools.rglob("*") if path.is_file())
    assert copy.name == "1"


def test_links_devices_and_pipes_are_left_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("BOOM\n")
    members: dict[str, bytes | tarfile.TarInfo] = {
        "link.log": link("link.log", str(secret)),
        "hard.log": link("hard.log", str(secret), tarfile.LNKTYPE),
        "zero": link("zero", "", tarfile.CHRTYPE),
        "disk": link("disk", "", tarfile.BLKTYPE),
        "pipe": link("pipe", "", tarfile.FIFOTYPE),
        "a.log": b"harmless\n",
    }
    result = ingest(put(tmp_path, tar(members), "x.tar") / "x.tar", patterns=PATTERNS)
    assert result.events.num_rows == 0
    assert reasons(result) == {
        "x.tar!/disk": "a device",
        "x.tar!/hard.log": "a link inside the archive; not followed",
        "x.tar!/link.log": "a link inside the archive; not followed",
        "x.tar!/pipe": "a pipe",
        "x.tar!/zero": "a device",
    }


def test_links_and_encrypted_members_of_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.log", "BOOM\n")
        entry = zipfile.ZipInfo("link.log")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/hostname")
        archive.writestr("locked.log", "BOOM\n")
        archive.infolist()[-1].flag_bits |= 1
    result = read(tmp_path)
    assert one(result)["file"] == "x.zip!/a.log"
    assert reasons(result) == {
        "x.zip!/link.log": "a link inside the archive; not followed",
        "x.zip!/locked.log": "encrypted",
    }


def sparse_bomb() -> bytes:
    """A file of 300 MB in pax sparse format 1.0, of which nothing is stored."""
    info = tarfile.TarInfo("holes.log")
    info.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "holes.log",
        "GNU.sparse.realsize": str(300 << 20),
    }  # fmt: skip
    body = f"1\n{300 << 20}\n0\n".encode().ljust(512, b"\0")
    info.size = len(body)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(body))
    return out.getvalue()


ZEROS = b"BOOM seq=1\n" + b"\n" * (8 << 20)
BOMBS = {
    "x.tar.gz": lambda: gzip.compress(tar({"zeros.log": ZEROS, "b.log": b"BOOM seq=2\n"})),
    "x.zip": lambda: zipped({"zeros.log": ZEROS, "b.log": b"BOOM seq=2\n"}),
    "nested.tgz": lambda: gzip.compress(tar({"in.tgz": gzip.compress(tar({"zeros.log": ZEROS}), 1)})),
    "plain.log.gz": lambda: gzip.compress(ZEROS),
    "plain.log.xz": lambda: COMPRESS["xz"](ZEROS),
    "sparse.tar": sparse_bomb,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stop_at_the_limit(tmp_path: Path, spools: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(reading, "LEAST_UNPACKED", 1 << 20)
    monkeypatch.setattr(reading, "MAX_RATIO", 50)
    put(tmp_path, BOMBS[name](), f"in/{name}")
    put(tmp_path, "BOOM seq=0\n", "in/good.log")
    result = read(tmp_path / "in")
    limit = max(1 << 20, 50 * (tmp_path / "in" / name).stat().st_size)
    (why,) = complaints(result).values()
    assert next(iter(complaints(result))).startswith(name)
    assert f"unpacks to more than the limit of {limit:,} bytes" in why
    assert sum(path.stat().st_size for path in spools.rglob("*") if path.is_file()) <= limit
    assert {row["seq"] for row in rows(result)} >= ({0} if "sparse" in name else {0, 1})


def test_only_what_is_put_on_disk_is_limited_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_UNPACKED", 100_000)
    text = noise(3000) + b"BOOM\n"
    put(tmp_path, gzip.compress(text), "a.log.gz")
    put(tmp_path, gzip.compress(tar({"b.log": text})), "b.tar.gz")
    result = read(tmp_path)
    assert one(result)["file"] == "a.log.gz"
    assert list(complaints(result)) == ["b.tar.gz"]
    assert "the limit of 100,000 bytes" in complaints(result)["b.tar.gz"]


def test_a_header_may_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_module, "_MAX_HEADER", 1 << 18)
    long_name = tar({"a" * (1 << 20): b"BOOM\n"})
    result = ingest(put(tmp_path, tar({"a.log": b"BOOM\n"})[:1024] + long_name, "x.tar") / "x.tar", patterns=PATTERNS)
    assert one(result)["file"] == "x.tar!/a.log"
    assert complaints(result) == {"x.tar": "has a header of more than the limit of 262,144 bytes"}


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_MEMBERS", 3)
    for name in ("logs.tar", "logs.zip"):
        result = ingest(put_archive(tmp_path, name, {f"{i}.log": b"BOOM\n" for i in range(5)}), patterns=PATTERNS)
        assert len(result.files) == 3
        assert complaints(result) == {name: "holds more files than the limit of 3; those before it were read"}


def test_no_room_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    put(tmp_path, "BOOM\n", "in/a.log")
    put(tmp_path, tar(MEMBERS), "in/x.tar")
    result = read(tmp_path / "in")
    assert one(result)["file"] == "a.log"
    assert complaints(result) == {"x.tar": "could not be unpacked to its end: no such file or directory"}


# --- torn and damaged archives ---------------------------------------------------------------------------------------

TORN = {"a.log": b"BOOM seq=1\n", "big.log": b"BOOM seq=2\n" + noise(30_000), "lost.log": b"BOOM seq=3\n"}


@pytest.mark.parametrize("name", [name for name in ARCHIVES if name != "lzma.zip"])
def test_of_a_torn_archive_all_that_is_there_is_read(tmp_path: Path, name: str) -> None:
    path = put_archive(tmp_path, name, TORN)
    whole = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(whole * 2 // 3)
    result = ingest(path, patterns=PATTERNS)
    assert [row["seq"] for row in rows(result)] == [1, 2]
    assert list(complaints(result)) == [name]
    torn = next(file for file in result.files if file.name.endswith("big.log"))
    assert torn.size > len(TORN["big.log"]) // 4


def test_a_torn_plain_tar_loses_nothing(tmp_path: Path) -> None:
    packed = tar(TORN)
    result = ingest(put(tmp_path, packed[:-150_000], "x.tar") / "x.tar", patterns=PATTERNS)
    assert sum(file.size for file in result.files) == len(packed) - 150_000 - 2 * 512 - (512 - 11)
    assert complaints(result) == {"x.tar": "ends inside big.log"}


def test_a_zip_written_to_a_pipe_and_torn(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError("a pipe has no place")

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"w.bin": bytes(range(256)) * 400, **TORN}.items():
            archive.writestr(name, content)
    packed = out.getvalue()
    result = ingest(put(tmp_path, packed[: len(packed) // 2], "x.zip") / "x.zip", patterns=PATTERNS)
    assert [row["seq"] for row in rows(result)] == [1, 2]
    assert reasons(result) == {"x.zip!/w.bin": "binary data"}


def test_a_damaged_member_does_not_hide_the_others(tmp_path: Path) -> None:
    packed = bytearray(zipped({"a.log": noise(3000), "b.log": b"BOOM\n"}))
    packed[20_000:20_040] = bytes(40)
    result = ingest(put(tmp_path, bytes(packed), "x.zip") / "x.zip", patterns=PATTERNS)
    assert one(result)["file"] == "x.zip!/b.log"
    assert complaints(result)["x.zip"].startswith("a.log: ")


def test_nothing_can_be_read_of_it(tmp_path: Path) -> None:
    put(tmp_path, b"x".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0"), "x.tar")
    with pytest.raises(NothingReadable, match=r"x\.tar: damaged archive"):
        discover([tmp_path])


# --- the temporary copies --------------------------------------------------------------------------------------------


def test_copies_live_as_long_as_the_result(tmp_path: Path, spools: Path) -> None:
    result = ingest(put_archive(tmp_path, "logs.tar.gz", MEMBERS), patterns=PATTERNS)
    (folder,) = spools.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    travelled = pickle.loads(pickle.dumps(result.sources[0]))
    assert (travelled, travelled.spool) == (result.sources[0], None)
    del travelled
    assert folder.exists()
    del result
    gc.collect()
    assert list(spools.iterdir()) == []


def test_workers_read_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "UNIT_BYTES", 20)
    path = put_archive(tmp_path, "logs.zip", MEMBERS)
    assert ingest(path, patterns=PATTERNS, workers=2).events.equals(ingest(path, patterns=PATTERNS).events)


# --- standard input --------------------------------------------------------------------------------------------------


def diagnose(arguments: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "correlator", "diagnose", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False)


LOG = b'[rank3]: step 1\n[rank3]: Traceback (most recent call last):\n[rank3]:   File "/opt/job/train.py", line 8, in f\n[rank3]:     g()\n[rank3]: ValueError: shard 7 is empty\n'


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_a_file(pack: Any) -> None:
    done = diagnose(["-", "--format", "json"], pack(LOG))
    assert done.returncode == 0, done.stderr
    assert b'"file":"-"' in done.stdout.replace(b'": "', b'":"')
    assert b"shard 7 is empty" in done.stdout


def test_an_archive_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(tar({"n1/rank_3.log": b"x\nBOOM\n"})))))
    row = one(ingest("-", patterns=PATTERNS))
    assert (row["file"], row["line"], row["byte_offset"], row["rank"]) == ("-!/n1/rank_3.log", 2, 2, 3)


def test_standard_input_beside_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\nBOOM seq=1\n")))
    put(tmp_path, "BOOM seq=2\n", "logs/a.log")
    found = rows(ingest([tmp_path / "logs", "-"], patterns=PATTERNS))
    assert [(row["file"], row["seq"]) for row in found] == [("-", 1), ("logs/a.log", 2)]


def test_nothing_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnose(["-"], b"").stderr == b"correlator: nothing came on standard input\n"
    main, side = os.openpty()
    with open(side) as terminal:  # noqa: PTH123 - a descriptor, not a path
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(UsageError, match="is a terminal here"):
            discover(["-"])
    os.close(main)


def test_a_file_called_minus_is_still_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "BOOM\n", "-")
    monkeypatch.chdir(tmp_path)
    assert one(ingest("./-", patterns=PATTERNS))["file"] == "-"


# --- files that change while they are read ---------------------------------------------------------------------------


def change(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """Have something happen between the search for files and their reading."""
    plan = planning.plan_units

    def then(files: Any) -> Any:
        action()
        return plan(files)

    monkeypatch.setattr("correlator.ingest.run.plan_units", then)


def appending(path: Path, text: bytes) -> Any:
    def append() -> None:
        with path.open("ab") as stream:
            stream.write(text)

    return append


@pytest.mark.parametrize("unit", [1 << 25, 40])
def test_a_growing_file_ends_with_its_last_whole_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: int
) -> None:
    monkeypatch.setattr(planning, "UNIT_BYTES", unit)
    put(tmp_path, "filler\n" * 30 + "BOOM seq=1\nBOOM seq=2")
    change(monkeypatch, appending(tmp_path / "a.log", b"22\nBOOM seq=3\n"))
    result = read(tmp_path)
    assert (one(result)["seq"], one(result)["line"], result.lines) == (1, 31, 31)
    assert result.warnings == []


def test_a_growing_file_of_utf16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "BOOM seq=1\n".encode("utf-16"))
    change(monkeypatch, appending(tmp_path / "a.log", "BOOM seq=2\n".encode("utf-16-le")))
    assert one(read(tmp_path))["seq"] == 1


def test_a_torn_last_line_of_a_file_at_rest_is_read(tmp_path: Path) -> None:
    assert [row["seq"] for row in rows(read(put(tmp_path, "BOOM seq=1\nBOOM seq=2")))] == [1, 2]


@pytest.mark.parametrize("unit", [1 << 25, 40])
def test_a_file_that_shrinks_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: int) -> None:
    monkeypatch.setattr(planning, "UNIT_BYTES", unit)
    put(tmp_path, "BOOM seq=1\n" + "filler\n" * 30 + "BOOM seq=2\n")
    change(monkeypatch, lambda: os.truncate(tmp_path / "a.log", 60))
    result = read(tmp_path)
    assert one(result)["seq"] == 1
    assert complaints(result) == {"a.log": "became shorter while it was read"}
    assert len(result.warnings) == 1
