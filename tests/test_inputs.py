"""What was read is told by kind, and of the usual sources those that are not there; a quiet log is there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from documents import hardware_document
from joblogs import (
    HOSTS,
    iterations,
    kernel,
    raises,
    rendezvous,
    slurm_cancelled,
    srun_exit,
    torch_prefix,
    worker_failed,
    write,
)

from correlator.cli import main
from correlator.diagnosis import Inputs, MissingSource, Source
from correlator.pipeline import diagnose
from correlator.report.markdown import render_markdown
from correlator.report.text import render_text

Files = dict[str, list[str]]
A, B = HOSTS[:2]
USB = "usb 1-1: new high-speed USB device number 4 using xhci_hcd"


def rank_files(*ranks: int) -> Files:
    return {
        f"{HOSTS[rank // 2]}/rank_{rank}.log": [
            *torch_prefix(iterations(3), rank),
            *raises("ValueError: shard 12 is empty", rank=rank),
        ]
        for rank in ranks
    }


def launchers() -> Files:
    return {
        f"agents/{host}.log": [
            *rendezvous(0, host, [2 * n, 2 * n + 1], group_rank=n, world=4),
            *worker_failed(9, 2 * n, 0, 1),
        ]
        for n, host in enumerate((A, B))
    }


def read(folder: Path, files: Files) -> Inputs:
    return diagnose(write(folder, files), workers=1).document.inputs


def missing(inputs: Inputs) -> dict[str, MissingSource]:
    found = {source.kind: source for source in inputs.missing}
    assert len(found) == len(inputs.missing)
    return found


def test_kinds_are_counted_by_file(tmp_path: Path) -> None:
    files = {
        **rank_files(0, 1, 2, 3),
        **launchers(),
        "slurm-4242.out": slurm_cancelled(12, "TIME LIMIT"),
        "dmesg.txt": kernel(8, A, USB),
        "notes.txt": ["the meeting is at noon"],
    }
    assert read(tmp_path, files).sources == [
        Source("training", 4),
        Source("launcher", 2),
        Source("scheduler", 1),
        Source("kernel", 1),
        Source("other", 1),
    ]


def test_a_file_of_several_kinds_counts_for_each(tmp_path: Path) -> None:
    files = {
        "slurm-4242.out": [*iterations(3), *raises("ValueError: bad"), *srun_exit(A, "0", "Exited with exit code 1")]
    }
    inputs = read(tmp_path, files)
    assert inputs.sources == [Source("training", 1), Source("launcher", 1)]
    assert set(missing(inputs)) == {"kernel", "scheduler"}


def test_kernel_logs_are_missing_by_node(tmp_path: Path) -> None:
    inputs = read(tmp_path, {**rank_files(0, 1, 2, 3), **launchers(), f"logs/{B}.txt": kernel(8, B, USB)})
    assert missing(inputs)["kernel"] == MissingSource("kernel", f"kernel log of {A}", nodes=[A])


def test_a_kernel_log_without_any_fault_is_there(tmp_path: Path) -> None:
    quiet = {f"logs/{host}.txt": kernel(8, host, USB) for host in (A, B)}
    assert "kernel" not in missing(read(tmp_path, {**rank_files(0, 1, 2, 3), **launchers(), **quiet}))


@pytest.mark.parametrize("name", ["dmesg", "var/log/messages", "kern.log", "journal/boot.txt"])
def test_a_kernel_log_of_an_unknown_node_may_be_that_of_either(tmp_path: Path, name: str) -> None:
    inputs = read(tmp_path, {**rank_files(0, 1, 2, 3), **launchers(), name: ["something that names nobody"]})
    assert missing(inputs)["kernel"] == MissingSource("kernel", f"kernel logs of 1 of {A}, {B}")


def test_ranks_without_a_file_are_missing(tmp_path: Path) -> None:
    inputs = read(tmp_path, rank_files(0, 1, 3) | {"torchrun.log": worker_failed(9, 2, 0, 1)})
    assert missing(inputs)["training"] == MissingSource("training", "logs of 1 of 4 ranks (2)", ranks=[2])


def test_a_quiet_rank_of_a_shared_file_is_not_missing(tmp_path: Path) -> None:
    files = {
        "job.log": [*torch_prefix(iterations(3), 0), *raises("ValueError: bad", rank=0), *worker_failed(9, 2, 0, 1)]
    }
    assert "training" not in missing(read(tmp_path, files))


def test_nothing_is_missing_where_all_was_collected(tmp_path: Path) -> None:
    files = {
        **rank_files(0, 1, 2, 3),
        **launchers(),
        "slurm-4242.out": slurm_cancelled(12, "TIME LIMIT"),
        **{f"{host}.dmesg": kernel(8, host, USB) for host in (A, B)},
    }
    assert read(tmp_path, files).missing == []


def test_one_process_needs_no_launcher(tmp_path: Path) -> None:
    started = "[I501 07:40:18.123456789 ProcessGroupNCCL.cpp:962] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL initialization options: size: 1, global rank: 0, TIMEOUT(ms): 600000"
    found = diagnose(write(tmp_path, {"train.log": [started, *iterations(3), *raises("ValueError: bad")]}), workers=1)
    assert found.job.world_size == 1
    assert "launcher" not in missing(found.document.inputs)


def test_a_long_list_of_ranks_is_cut_in_words_only(tmp_path: Path) -> None:
    files = {f"rank_{rank}.log": torch_prefix(iterations(2), rank) for rank in range(0, 200, 2)}
    lost = missing(read(tmp_path, files))["training"]
    assert lost.ranks == list(range(1, 198, 2))
    assert lost.what == "logs of 99 of 199 ranks (1,3,5,7,9,11,13,15,17,19,21,23, …)"


def test_parts_know_the_same(tmp_path: Path) -> None:
    write(tmp_path / "logs", {**rank_files(0, 1, 2, 3), **launchers(), "a.txt": kernel(8, A, USB)})
    assert main(["ingest", str(tmp_path / "logs"), "-o", str(tmp_path / "part.parquet")]) == 0
    of_parts = diagnose(tmp_path / "part.parquet").document.inputs
    assert of_parts == diagnose(tmp_path / "logs").document.inputs
    assert missing(of_parts)["kernel"].nodes == [B]


def test_the_report_tells_it_in_a_line() -> None:
    document = hardware_document()
    document.inputs = msgspec.structs.replace(
        document.inputs,
        sources=[Source("training", 32), Source("kernel", 1)],
        missing=[MissingSource("kernel", "kernel logs of gpu-a004, gpu-a005", nodes=["gpu-a004", "gpu-a005"]),
                 MissingSource("scheduler", "scheduler records")],
    )  # fmt: skip
    told = "Kinds: training output 32, kernel logs 1. Missing: kernel logs of gpu-a004, gpu-a005; scheduler records."
    assert told in " ".join(render_text(document).split())
    assert "Missing: kernel logs of" in render_markdown(document)


def test_a_kernel_log_that_is_there_is_not_asked_for(tmp_path: Path) -> None:
    files = {f"{host}/job.log": iterations(3) for host in (A, B)}
    asked = diagnose(write(tmp_path / "without", files), workers=1).document.actions
    assert f"the kernel log (dmesg -T) of {A}, {B}" in " ".join(action.title for action in asked)
    files |= {f"logs/{B}.txt": kernel(8, B, USB)}
    asked = diagnose(write(tmp_path / "with", files), workers=1).document.actions
    assert f"the kernel log (dmesg -T) of {A}" in " ".join(action.title for action in asked)
    assert B not in " ".join(action.title for action in asked)
