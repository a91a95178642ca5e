"""The parsers of NCCL, kernels, schedulers and tools: the spots where they are easily fooled."""

from __future__ import annotations

import json
from pathlib import Path

import parsing
import pytest

from correlator.events import Parser
from parsers import (
    batch,
    board_controller,
    dcgm,
    environment,
    fabric_manager,
    gpu_tools,
    kernel_gpu,
    kernel_host,
    kernel_memory,
    kubernetes,
    mpi,
    nccl,
    nic,
    shell,
    slurm,
    storage,
)
from parsers._pci import normalise_pci

PARSERS: dict[str, Parser] = {
    module.PARSER.name: module.PARSER
    for module in (
        batch, environment, fabric_manager, gpu_tools, kernel_gpu, kernel_host, kernel_memory, kubernetes, mpi, nccl, nic,
        shell, slurm, storage,
    )
}  # fmt: skip


def find(parser: Parser, text: str) -> dict[str, object]:
    """What the first fitting pattern makes of a text; empty when none fits."""
    founds = parsing.find(parser, text)
    return {"event": founds[0][0], **founds[0][1]} if founds else {}


# --- PCI addresses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("PCI:0000:DC:00", "0000:dc:00"),
        ("0000:dc:00.0", "0000:dc:00"),
        ("00000000:DC:00.0", "0000:dc:00"),
        ("00000008:01:00.0", "0008:01:00"),
        ("03:00.0", "0000:03:00"),
        ("dc000", "0000:dc:00"),
        ("2c000", "0000:2c:00"),
        ("1000", "0000:01:00"),
        ("101c0", "0000:10:1c"),
        ("900901000", "9009:01:00"),
        ("", None),
        ("GPU-0c5e9a17", None),
    ],
)
def test_one_spelling_for_pci_addresses(text: str, address: str | None) -> None:
    assert normalise_pci(text) == address


# --- NCCL ------------------------------------------------------------------------------------------------------------


def test_a_warning_in_the_middle_of_another_line_keeps_its_own_head() -> None:
    found = find(
        nccl.PARSER,
        "Epoch 3:  12%|█▏ gpu-a017:4711:5012 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
        "192.0.2.18<45982>",
    )
    assert (found["node"], found["pid"], found["gpu"], found["peer"]) == ("gpu-a017", "4711", "1", "192.0.2.18")


def test_a_stamp_is_not_taken_for_the_head() -> None:
    found = find(
        nccl.PARSER, "[2025-05-01 07:40:18] gpu-a017:4711:5012 [1] enqueue.cc:9 NCCL WARN Cuda failure 700 'boom'"
    )
    assert (found["node"], found["pid"], found["tid"]) == ("gpu-a017", "4711", "5012")


def test_the_device_of_an_init_line_is_that_of_the_communicator() -> None:
    line = "a:1:2 [0] NCCL INFO [Rank 3] ncclCommInitRank comm 0x1 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId dc000 commId 0x9"
    found = find(nccl.PARSER, f"{line} - Init START")
    assert (found["gpu"], found["comm_rank"], found["pci_bus_id"], found["phase"]) == ("3", "3", "0000:dc:00", "START")
    assert "rank" not in found


@pytest.mark.parametrize(
    "line",
    [
        "a:1:2 [0] NCCL INFO Channel 00/0 : 16[0] -> 18[2] [send] via NET/IB/0",
        "a:1:2 [0] NCCL INFO Trees [0] 9/-1/-1->8->10 [1] 9/-1/-1->8->10",
        "a:1:2 [0] NCCL INFO Connected all rings",
    ],
)
def test_ordinary_information_lines_are_no_events(line: str) -> None:
    assert find(nccl.PARSER, line) == {}


def test_a_failure_that_nccl_ignores_is_no_failure() -> None:
    found = find(nccl.PARSER, "a:1:2 [0] NCCL INFO init.cc:211 Cuda failure 'driver shutting down'")
    assert found["event"] == "nccl.cuda_failure_ignored"


# --- kernel ----------------------------------------------------------------------------------------------------------


def test_an_xid_without_a_process_has_no_pid() -> None:
    found = find(
        kernel_gpu.PARSER, "NVRM: Xid (PCI:0000:1b:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception: x"
    )
    assert found == {"event": "kernel.xid", "xid": "13", "pci_bus_id": "0000:1b:00", "text": "Graphics Exception: x"}


def test_a_comma_in_the_text_of_an_xid_stays_in_the_text() -> None:
    found = find(kernel_gpu.PARSER, "NVRM: Xid (PCI:0000:1b:00): 94, Contained: SM (0x1). RST: No, D-RST: No")
    assert found["text"] == "Contained: SM (0x1). RST: No, D-RST: No"


def test_only_the_device_with_the_uncorrected_status_is_an_error() -> None:
    def record(status: str) -> dict[str, object]:
        head = "amdgpu 0000:1c:00.0: {1}[Hardware Error]:"
        return find(
            kernel_gpu.PARSER,
            f"{head} Accelerator Check Architecture events logged\n{head} aca entry[00].STATUS={status}",
        )

    assert record("0x98000800003e0000")["severity"] == "info"
    assert record("0xbaa0000000060f0d")["severity"] == "error"


def test_an_announced_kill_is_not_a_second_kill() -> None:
    assert find(kernel_memory.PARSER, "Out of memory: Kill process 4711 (python3) score 912 or sacrifice child") == {}


def test_a_hot_plug_slot_is_no_network_link() -> None:
    line = "pcieport 0000:89:02.0: pciehp: Slot(5): Link Down"
    assert find(nic.PARSER, line) == {}
    assert find(kernel_host.PARSER, line)["event"] == "kernel.pcie_link"


# --- Slurm -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "signal"),
    [("Killed", 9), ("Terminated", 15), ("Segmentation fault (core dumped)", 11), ("Aborted", 6), ("Bus error", 7)],
)
def test_words_of_a_task_end_become_signals(how: str, signal: int) -> None:
    found = find(slurm.PARSER, f"srun: error: node012: task 37: {how}")
    assert (found["node"], found["task"], found["signal"]) == ("node012", "37", signal)


def test_several_hosts_stay_a_list_and_exit_codes_stay_as_printed() -> None:
    found = find(slurm.PARSER, "srun: error: node[012-013],gpu7: tasks 32-39,41: Exited with exit code 137")
    assert (found["nodes"], found["tasks"], found["exit_code"]) == ("node[012-013],gpu7", "32-39,41", "137")
    assert not {"node", "task", "signal"} & set(found)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("", ""),
        (" DUE TO TIME LIMIT", "TIME LIMIT"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "NODE FAILURE"),
        (" DUE to SIGNAL Terminated", "SIGNAL Terminated"),
    ],
)
def test_the_reason_of_a_cancellation(tail: str, reason: str) -> None:
    found = find(
        slurm.PARSER, f"slurmstepd: error: *** STEP 123.0 ON node012 CANCELLED AT 2024-05-01T07:40:18{tail} ***"
    )
    assert (found["event"], found["reason"], found["job"]) == ("slurm.cancelled", reason, "123")


def test_the_mark_of_an_oom_kill_is_no_signal() -> None:
    found = find(slurm.PARSER, "123.0     python3   gpu   acct   64  OUT_OF_ME+    0:125")
    assert found["state"] == "OUT_OF_MEMORY" and "signal" not in found


# --- launchers and environment ---------------------------------------------------------------------------------------


def test_a_rank_is_the_last_number_of_an_open_mpi_process_name() -> None:
    text = (
        "the job to be terminated. The first process to do so was:\n\n  Process name: [[12345,1],37]\n  Exit code:    1"
    )
    assert find(mpi.PARSER, text) == {"event": "mpi.rank_exited", "rank": "37", "exit_code": "1"}


def test_the_exit_sentence_of_lsf_is_not_that_of_srun() -> None:
    assert find(batch.PARSER, "srun: error: node012: task 37: Exited with exit code 1") == {}
    assert find(batch.PARSER, "Exited with exit code 140.")["exit_code"] == "140"


def test_an_environment_dump_is_one_row_without_secrets() -> None:
    text = "SLURM_JOB_ID=123\nAWS_SECRET_ACCESS_KEY=abc\nHOME=/home/alice\nMASTER_ADDR=gpu-a017\ntraining starts\nWORLD_SIZE=8"
    assert find(environment.PARSER, text) == {"event": "slurm.env", "SLURM_JOB_ID": "123", "MASTER_ADDR": "gpu-a017"}


def test_a_second_dump_begins_where_a_variable_has_another_value() -> None:
    found = find(environment.PARSER, "NODE_RANK=0\nNNODES=2\nNODE_RANK=1\nNNODES=2")
    assert found == {"event": "slurm.env", "NODE_RANK": "0", "NNODES": "2"}


def test_variables_that_the_shell_has_not_expanded_are_left_out() -> None:
    assert (
        find(environment.PARSER, "export MASTER_ADDR=$(hostname) NNODES=${SLURM_NNODES:-1} NODE_RANK=$SLURM_NODEID")
        == {}
    )


@pytest.mark.parametrize(
    ("line", "size"), [("shm  64M 63M 1.0M 99% /dev/shm", 64 << 20), ("tmpfs 1024 0 1024 0% /dev/shm", 1 << 20)]
)
def test_shared_memory_in_bytes(line: str, size: int) -> None:
    assert find(environment.PARSER, line)["size_bytes"] == size


# --- tools -----------------------------------------------------------------------------------------------------------


def test_a_healthy_device_is_an_identity_and_counters_and_no_complaint() -> None:
    pattern = next(p for p in gpu_tools.PARSER.patterns if p.event == "gpu.query")
    assert pattern.block is not None
    text = (
        (Path(__file__).parents[1] / "fixtures/parsers" / "gpu_tools--query.log")
        .read_text(encoding="utf-8")
        .split("\n")
    )
    start = next(i for i, line in enumerate(text) if line.startswith("GPU 00000000:1B"))
    assert [found.event for found in pattern.block(text[start:])] == ["gpu.identity", "gpu.counters"]


def test_an_object_store_error_that_ends_a_traceback_is_left_to_the_traceback() -> None:
    error = "An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate."
    assert find(storage.PARSER, f"botocore.exceptions.ClientError: {error}") == {}
    assert find(storage.PARSER, f"upload failed: {error}")["code"] == "SlowDown"


def test_a_pod_that_runs_is_only_listed() -> None:
    running = find(kubernetes.PARSER, "llm-worker-0   1/1     Running     0             2h")
    assert running == {"event": "k8s.pod_listed", "pod": "llm-worker-0", "restarts": "0"}
    assert find(kubernetes.PARSER, "llm-worker-1   0/1     OOMKilled   1 (5m ago)    2h")["pod"] == "llm-worker-1"


def test_a_diagnostic_that_failed_for_its_software_accuses_no_gpu() -> None:
    """DCGM's categories tell: a missing library or a denylisted driver is not the card's fault."""

    def report(category: int) -> str:
        warning = {"warning": "text", "error_id": 23, "error_category": category, "error_severity": 5}
        result = {"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [warning]}
        tests = [{"name": "software", "results": [result]}]
        return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}})

    assert [event for event, _ in parsing.find(dcgm.PARSER, report(3))] == ["gpu.diag_summary", "gpu.diag_result"]
    assert [event for event, _ in parsing.find(dcgm.PARSER, report(10))] == ["gpu.diag_summary", "gpu.diag_failed"]


def test_a_hostile_device_element_is_no_device() -> None:
    """Entities, elements that do not end, and a report nested too deep give nothing, and take no time."""
    bomb = '<gpu id="00000000:3D:00.0">\n<uuid>&lol9;</uuid>\n</gpu>'
    assert parsing.find(gpu_tools.PARSER, bomb) == []
    assert parsing.find(gpu_tools.PARSER, '<gpu id="00000000:3D:00.0">\n<uuid>GPU-0c5e9a17</uuid>') == []
    assert parsing.find(dcgm.PARSER, '"DCGM Diagnostic": ' + "[" * 100_000) == []
    assert parsing.find(board_controller.PARSER, '"@odata.id": ' + "[" * 100_000) == []


def test_a_controller_s_clock_is_trusted_within_minutes_only() -> None:
    (row,) = parsing.find(
        board_controller.PARSER, " 1a2 | 05/01/2024 | 05:40:18 | Memory DIMM_A3 | Uncorrectable ECC | Asserted"
    )
    assert row[1]["timestamp_resolution_ns"] == 300 * 10**9
    assert row[1]["timestamp"] == 1714542018 * 10**9
