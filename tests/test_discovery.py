"""Which files are read, which are left out and why, and what their names claim."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from correlator.discovery import discover
from correlator.errors import NothingReadable, UsageError
from correlator.path_claims import path_claims
from correlator.reading import DamagedArchive, binary_reason, iter_bytes

LINE = b"[rank0]: hello from a log\n"


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("none_2y2dpd45/attempt_1/3/stderr.log", {"attempt": 1, "local_rank": 3, "stream": "stderr", "rank": None}),
        ("gpu-a017/none_x/attempt_0/0/error.json", {"attempt": 0, "local_rank": 0}),
        ("none_x/attempt_0/3/filtered_stderr.log", {"attempt": 0, "local_rank": 3, "stream": "stderr"}),
        ("debugfile.gpu-a017.4711", {"node": "gpu-a017", "pid": 4711}),
        ("NCCL_gpu-a017.example.net_4711.log", {"node": "gpu-a017.example.net", "pid": 4711}),
        ("nccl_node_12.log", {"node": None, "pid": None}),
        ("nccl-gpu-a017-4711.log", {"node": None, "pid": None}),
        ("train_123_node012_task37.out", {"task": 37, "rank": None, "stream": "stdout"}),
        ("multitask_37.out", {"task": None}),
        ("nvrx_log_gpu-a017.log", {"node": "gpu-a017"}),
        ("session_latest/logs/worker-8f3e5d7c9b1a-01000000-4711.err", {"pid": 4711, "stream": "stderr"}),
        ("session_latest/logs/python-core-worker-8f3e5d7c9b1a_4711.log", {"pid": 4711}),
        ("session_latest/logs/worker_5.out", {"pid": None}),
        ("host-gpu-a017-pid-4711.log", {"pid": 4711}),
        ("rapid-4711.log", {"pid": None}),
        ("py-spy-4711.txt", {"pid": 4711}),
        ("debug/plog/plog-4711_20240501074018123.log", {"pid": 4711}),
        ("train.o4711", {"stream": "stdout", "pid": None}),
        ("train.e4711", {"stream": "stderr"}),
        ("4711.pbs01.ER", {"stream": "stderr"}),
        ("trainer_rank=5.log", {"rank": 5}),
        ("jax_process_5.log", {"rank": 5}),
        ("process_5_of_64.log", {"rank": 5}),
        ("postprocess_5.log", {"rank": None}),
        ("rank_00012.log", {"rank": 12}),
        ("rank12.log", {"rank": 12}),
        ("pretrain_rank12.log", {"rank": 12}),
        ("nemo_log_globalrank-9_localrank-1.txt", {"rank": 9, "local_rank": 1}),
        ("rank9.stderr.txt", {"rank": 9, "stream": "stderr"}),
        ("20240501074018_rank9.log", {"rank": 9}),
        ("1/rank.9/stdout", {"rank": 9, "stream": "stdout"}),
        ("nccl.gpu-a017.4711.log", {"node": "gpu-a017", "pid": 4711}),
        ("nccl.gpu-a017.example.net.4711.log", {"node": "gpu-a017.example.net", "pid": 4711}),
        ("NCCL_LOG.gpu-a017.4711", {"node": "gpu-a017", "pid": 4711}),
        ("nccl_debug/gpu-a017/4711.log", {"node": None, "attempt": None}),
        ("nccl-debug/gpu-a017/0.log", {"node": None, "attempt": None}),
        ("trainer-7f9kd/gpu/0.log", {"node": "trainer-7f9kd", "attempt": 0}),
        ("llm-0_ml_pytorch-" + "0a" * 32 + ".log", {"node": "llm-0"}),
        ("pods/ml_llm-worker-0_5f1c0d0e/pytorch/2.log", {"node": "llm-worker-0", "attempt": 2}),
        ("sosreport-gpu-a017-2024-05-01-abcdefg/var/log/messages", {"node": "gpu-a017"}),
        ("sosreport-gpu-a017-2024-05-01-abcdefg-obfuscated.tar.xz!/a/dmesg", {"node": "gpu-a017"}),
        ("sosreport-gpu-00117-2024-05-01-abcdefg/dmesg", {"node": None}),
        ("nvidia-bug-report_gpu-a017.log.gz", {"node": "gpu-a017"}),
        ("nvidia-bug-report.log.gz", {"node": None}),
        ("logs.tar.gz!/node1/rank_7.log.zst", {"rank": 7}),
        ("llm-worker-1/pytorch/0.log", {"node": "llm-worker-1", "attempt": 0}),
        ("proc2.log", {"rank": 2}),
        ("40218853_0_log.err", {"task": 0, "stream": "stderr"}),
        ("attempt3.log", {"attempt": 3, "rank": None}),
        ("slurm-4242.out", {"task": None, "stream": "stdout"}),
        ("node_rank_1.log", {"rank": None, "local_rank": None}),
        ("group_rank_1.log", {"rank": None}),
        ("frankfurt12.log", {"rank": None}),
        ("train.log", {"rank": None, "node": None, "stream": None}),
    ],
)
def test_claims_of_names(name: str, claims: dict[str, object]) -> None:
    found = path_claims(name)
    assert {key: getattr(found, key) for key in claims} == claims


def test_everything_that_may_be_a_node_name_is_a_token() -> None:
    assert {"gpu-a017", "node_00_a100-17", "a100-17"} <= set(path_claims("gpu-a017/node_00_a100-17.log").tokens)
    assert "nvme.ip-10-0-0-7" in path_claims("nvme.ip-10-0-0-7.txt").tokens
    assert "ip-10-0-0-7" in path_claims("nvme.ip-10-0-0-7.txt.gz").tokens
    assert "gpu-a017" in path_claims("sel-gpu-a017.txt").tokens
    assert "gpu-a017" in path_claims("nvidia-smi-q-gpu-a017.xml").tokens
    assert "gpu-a017" in path_claims("gpu-a017-ibstat.txt").tokens
    assert {"gpu", "gpu-00117"} <= set(path_claims("sosreport-gpu-00117-2024-05-01-abcdefg/dmesg").tokens)
    assert path_claims("run7.tar.zst!/gpu-a017/x.log").tokens == ("run7", "gpu-a017", "x")


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LINE)


def tasks(folder: Path) -> dict[str, int | None]:
    return {file.name: file.claims.task for file in discover([folder]).files}


def test_siblings_that_count_from_zero_are_tasks(tmp_path: Path) -> None:
    write(
        tmp_path,
        "slurm-77_0.out",
        "slurm-77_1.out",
        "slurm-77_0.err",
        "slurm-77_1.err",
        "run_1.log",
        "run_2.log",
        "x_0.log",
    )
    assert tasks(tmp_path) == {
        "run_1.log": None,
        "run_2.log": None,
        "slurm-77_0.err": 0,
        "slurm-77_0.out": 0,
        "slurm-77_1.err": 1,
        "slurm-77_1.out": 1,
        "x_0.log": None,
    }


def test_nodes_and_workers_that_count_from_zero_are_not(tmp_path: Path) -> None:
    write(tmp_path, "llm-worker-0.log", "llm-worker-1.log", "node-0.log", "node-1.log")
    assert set(tasks(tmp_path).values()) == {None}


def test_the_walk(tmp_path: Path) -> None:
    write(tmp_path, "b/one.log", "a.log", "empty.txt")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "b" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "again.log").symlink_to(tmp_path / "a.log")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "script.py").write_text("raise RuntimeError('NCCL WARN')\n")
    (tmp_path / "tokenizer.json").write_text("{}")
    found = discover([tmp_path])
    assert [file.name for file in found.files] == ["a.log", "b/one.log", "empty.txt"]
    assert all(file.path.is_absolute() and file.mtime_ns > 0 for file in found.files)
    assert {skip.name: skip.why for skip in found.skipped} == {
        "again.log": "the same file under another name",
        "b/loop": "a link to a folder that is read anyway",
        "dangling": "a link that leads nowhere",
        "pipe": "a pipe",
        "script.py": "program code, not a log",
        "tokenizer.json": "a model's own file, not a log",
    }


def test_a_socket_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.log")
    monkeypatch.chdir(tmp_path)  # socket names are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        assert [(skip.name, skip.why) for skip in discover([tmp_path]).skipped] == [("s", "a socket")]


def test_checkpoints_and_other_binaries_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "a.log")
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("data.pkl", b"x" * 100)
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"w": list(range(99))}, protocol=2))
    (tmp_path / "w.safetensors").write_bytes(
        b"\x40\x00\x00\x00\x00\x00\x00\x00" + b'{"w":{"dtype":"BF16"}}'.ljust(64) + b"\x00" * 99
    )
    (tmp_path / "core.4711").write_bytes(b"\x7fELF" + bytes(200))
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(100))
    found = discover([tmp_path])
    assert [file.name for file in found.files] == ["a.log"]
    assert {skip.name for skip in found.skipped} == {
        "a.parquet", "core.4711", "model.pt", "old.pt", "w.safetensors", "weights.bin",
    }  # fmt: skip


def core(name: bytes, pid: int, signal: int, *, order: str = "<", mappings: int = 300) -> bytes:
    """A core file as Linux writes it: header, the notes' place and those of many mappings, notes."""
    status = struct.pack(f"{order}3ih2xQQi", signal, 0, 0, signal, 0, 0, pid).ljust(336, b"\0")
    process = struct.pack(f"{order}4B4xQIIiiii16s80s", 0, 82, 0, 0, 0, 0, 0, pid, 1, 1, 1, name, name)
    notes = b"".join(
        struct.pack(f"{order}III8s", 5, len(content), kind, b"CORE") + content
        for kind, content in ((1, status), (3, process), (1, status.replace(bytes([signal]), b"\0")))
    )
    start = 64 + 56 * (1 + mappings)
    head = struct.pack(
        f"{order}4s4B8xHHIQQQIHHHHHH",
        b"\x7fELF",
        2,
        1 + (order == ">"),
        1,
        0,
        4,
        62,
        1,
        0,
        64,
        0,
        0,
        64,
        56,
        1 + mappings,
        0,
        0,
        0,
    )
    table = struct.pack(f"{order}IIQQQQQQ", 4, 0, start, 0, 0, len(notes), 0, 4)
    return head + table + struct.pack(f"{order}IIQQQQQQ", 1, 0, 0, 0, 0, 0, 0, 0) * mappings + notes + bytes(4096)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_core_file_is_left_out_by_the_name_of_its_program(
    tmp_path: Path, order: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.log").write_bytes(LINE)
    (tmp_path / "core").write_bytes(pack(core(b"python3", 4711, 11, order=order)))
    (skipped,) = discover([tmp_path]).skipped
    assert (skipped.name, skipped.why) == ("core", "a core dump of python3 (pid 4711, signal 11), no log; gdb reads it")


@pytest.mark.parametrize("size", [18, 60, 64, 100, 20_000])
def test_a_core_file_cut_off_is_still_one(size: int) -> None:
    assert (binary_reason(core(b"python3", 4711, 11)[:size]) or "").startswith("a core dump")


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 5000 + LINE,
        LINE + b"\x00" * 5000,
        LINE + b"\x00\x00\x00\x00" + LINE,
        b"",
        LINE + b"\xff\xfe\xe2\x28" + LINE,
        "Epoch 0: 100%|██████████| 24/24 [00:02<00:00]\r".encode() * 50,
        "日本語のログ\n".encode() * 40,
        b"\xff\xfe" + "hello\n".encode("utf-16-le"),
        b"\x1b[31mred\x1b[0m\n" * 30,
        b"caf\xe9 latin-1 text\n" * 30,
    ],
)
def test_what_looks_odd_but_is_text(content: bytes) -> None:
    assert binary_reason(content) is None


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("kind", COMPRESS)
def test_compression_is_told_by_content(tmp_path: Path, kind: str) -> None:
    (tmp_path / "rank3.log").write_bytes(COMPRESS[kind](LINE * 10))
    (file,) = discover([tmp_path]).files
    assert (file.compression, file.claims.rank, file.streamed) == (kind, 3, True)
    assert b"".join(iter_bytes(file.path, file.compression)) == LINE * 10


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_damaged_archive_gives_what_it_can(tmp_path: Path, kind: str) -> None:
    content = b"".join(b"line %d %s\n" % (i, os.urandom(40).hex().encode()) for i in range(20_000))
    packed = COMPRESS[kind](content)
    path = tmp_path / "a.log"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    got = b""
    with pytest.raises(DamagedArchive):
        for piece in iter_bytes(path, kind):
            got += piece
    assert content.startswith(got)
    assert len(got) > len(content) // 3
    assert b"".join(iter_bytes(path, kind, damage_is_error=False)) == got


def test_packed_binaries_are_skipped_too(tmp_path: Path) -> None:
    write(tmp_path, "a.log")
    (tmp_path / "w.bin.gz").write_bytes(gzip.compress(bytes(range(256)) * 40))
    assert [skip.why for skip in discover([tmp_path]).skipped] == ["binary data"]


def test_one_file_and_several_folders(tmp_path: Path) -> None:
    write(tmp_path, "n1/a.log", "n2/a.log")
    assert [file.name for file in discover([tmp_path / "n1" / "a.log"]).files] == ["a.log"]
    assert [file.name for file in discover([tmp_path / "n1", tmp_path / "n2"]).files] == ["n1/a.log", "n2/a.log"]


def test_a_name_that_is_no_text_can_still_be_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.log")
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff.log", os.O_CREAT | os.O_WRONLY))
    names = [file.name for file in discover([tmp_path]).files]
    assert names == ["a.log", "bad\ufffd.log"]
    assert all(name.encode() for name in names)


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        discover([tmp_path / "missing"])
    with pytest.raises(UsageError, match="no path given"):
        discover([])
    with pytest.raises(NothingReadable, match="no readable log in"):
        discover([tmp_path])
    (tmp_path / "m.pt").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(NothingReadable, match=r"m\.pt: a Python pickle"):
        discover([tmp_path])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "secret.log", "closed/b.log")
    (tmp_path / "secret.log").chmod(0)
    (tmp_path / "closed").chmod(0)
    found = discover([tmp_path])
    (tmp_path / "closed").chmod(0o700)
    assert {skip.name: skip.why for skip in found.skipped} == {
        "closed": "no permission to read the folder",
        "secret.log": "no permission to read the file",
    }


def test_files_of_one_name_in_several_folders_keep_apart_whatever_their_order(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"{rank}").mkdir()
        (tmp_path / f"{rank}" / "stderr.log").write_text(f"rank {rank} says something\n")
    places = sorted(tmp_path.glob("*/stderr.log"))
    found = [(file.name, file.path) for file in discover(places).files]
    assert [name for name, _ in found] == ["0/stderr.log", "1/stderr.log", "2/stderr.log"]
    assert [(file.name, file.path) for file in discover(places[::-1]).files] == found


def test_folders_of_one_name_keep_apart(tmp_path: Path) -> None:
    for node in (1, 2):
        (tmp_path / f"node{node}" / "logs").mkdir(parents=True)
        (tmp_path / f"node{node}" / "logs" / "train.log").write_text("step 1\n")
    places = sorted(tmp_path.glob("*/logs"))
    assert [file.name for file in discover(places).files] == ["node1/logs/train.log", "node2/logs/train.log"]
