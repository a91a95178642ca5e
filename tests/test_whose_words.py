"""Whose words a line is, where the line itself does not say: labels of platforms, launchers that number, last words."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator import diagnose

SPAWNED = """\
Traceback (most recent call last):
  File "main.py", line 210, in <module>
    mp.spawn(worker, nprocs=8, args=(args,))
  File "/opt/env/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 163, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 5 terminated with the following error:
Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 74, in _wrap
    fn(i, *args)
  File "/opt/job/main.py", line 133, in worker
    batch = batch["label"]
KeyError: 'label'
"""
SPAWNED_AND_KILLED = """\
Traceback (most recent call last):
  File "main.py", line 210, in <module>
    mp.spawn(worker, nprocs=8, args=(args,))
torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL
"""
DETERMINED = """\
[2024-02-01T10:11:12.332Z] 8f3a2b1c [rank=1] || INFO: training batch 100
[2024-02-01T10:12:20.001Z] 8f3a2b1c [rank=2] || Traceback (most recent call last):
[2024-02-01T10:12:20.001Z] 8f3a2b1c [rank=2] ||   File "/run/determined/workdir/model_def.py", line 71, in train_batch
[2024-02-01T10:12:20.001Z] 8f3a2b1c [rank=2] ||     loss = self.fn(batch["label"])
[2024-02-01T10:12:20.001Z] 8f3a2b1c [rank=2] || KeyError: 'label'
[2024-02-01T10:12:25.001Z] 8f3a2b1c || ERROR: container failed with non-zero exit code: 1
"""
SAGEMAKER = """\
[1,mpirank:0,algo-1]<stdout>:step 10 loss 2.1
[1,mpirank:11,algo-2]<stderr>:Traceback (most recent call last):
[1,mpirank:11,algo-2]<stderr>:  File "/opt/ml/code/train.py", line 88, in <module>
[1,mpirank:11,algo-2]<stderr>:    main()
[1,mpirank:11,algo-2]<stderr>:KeyError: 'label'
"""
RAY_TRAIN = """\
(TorchTrainer pid=4000) Started distributed worker processes:
(TorchTrainer pid=4000) - (ip=10.0.0.7, pid=4711) world_rank=0, local_rank=0, node_rank=0
(TorchTrainer pid=4000) - (ip=10.0.0.8, pid=4811) world_rank=1, local_rank=0, node_rank=1
Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/ray/air/execution/_internal/event_manager.py", line 110, in resolve_future
    result = ray.get(future)
ray.exceptions.RayTaskError(AssertionError): ray::_Inner.train() (pid=4000, ip=10.0.0.7, actor_id=12, repr=TorchTrainer)
  File "/opt/env/lib/python3.11/site-packages/ray/tune/trainable/trainable.py", line 331, in train
    raise skipped from exception_cause(skipped)
ray.exceptions.RayTaskError(AssertionError): ray::_RayTrainWorker__execute.get_next() (pid=4811, ip=10.0.0.8, repr=<a>)
  File "/opt/job/train.py", line 40, in loop
    assert batch.shape[1] == cfg.seq_len
AssertionError
"""
ABORTED = """\
free(): invalid pointer
E0501 07:40:18.123000 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 1 (pid: 5002) of binary: /opt/env/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-05-01_07:40:18
  host      : node-1
  rank      : 9 (local_rank: 1)
  exitcode  : -6 (pid: 5002)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 5002
============================================================
"""
JSRUN = "ERROR:  One or more process (first noticed rank 7) terminated with signal 11 (core dumped)\n"


@pytest.mark.parametrize(
    ("log", "rank", "title"),
    [
        (SPAWNED, 5, "A key is missing"),
        (SPAWNED_AND_KILLED, 3, "SIGKILL"),
        (DETERMINED, 2, "A key is missing"),
        (SAGEMAKER, 11, "A key is missing"),
        (RAY_TRAIN, 1, "An assertion failed"),
        (ABORTED, 9, "The memory allocator found its heap broken"),
        (JSRUN, 7, "crash in native code"),
    ],
)
def test_the_rank_is_named(log: str, rank: int, title: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(log)
    found = diagnose(tmp_path)
    assert list(found.initiator.ranks) == [rank]
    assert title in found.verdict.title


def test_of_two_ranks_that_aborted_neither_is_said_to_have_spoken(tmp_path: Path) -> None:
    other = ABORTED[ABORTED.index("E0501") :].replace("rank      : 9 (local_rank: 1)", "rank      : 8 (local_rank: 0)")
    (tmp_path / "job.log").write_text(ABORTED + other.replace("local_rank: 1 (pid: 5002)", "local_rank: 0 (pid: 5001)"))
    (spoken,) = [row for row in diagnose(tmp_path).facts.rows if row.event == "cpp.heap_corruption"]
    assert spoken.rank is None


ITERATION = (
    "[default1]: [2024-05-01 07:40:1{i}.123456] iteration        {i}/      24 | consumed samples:            4 | "
    "elapsed time per iteration (ms): 217.4 | learning rate: 1.000000E-03 | global batch size:     4 | "
    "lm loss: 4.520969E+00 | loss scale: 1.0 | grad norm: 0.501 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
)
STOPPED = (
    "W0501 07:40:19.854000 20641 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, "
    "shutting down workers\n"
)


def test_the_node_on_which_megatrons_last_rank_prints_has_the_last_ranks(tmp_path: Path) -> None:
    """``print_rank_last``: step lines come from the last rank alone."""
    (tmp_path / "node-b.log").write_text("".join(ITERATION.format(i=i) for i in range(1, 9)) + STOPPED)
    other = tmp_path / "node-a.log"
    sizes = "data-parallel size: 6, context-parallel size: 1, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
    other.write_text(f"[default0]:using world size: 6, {sizes}\n[default1]:starting\n")
    found = diagnose(tmp_path)
    assert list(found.initiator.ranks) == [4, 5]  # the log of a third node is missing
    assert list(found.initiator.nodes) == ["node-b"]
    other.write_text("[default0]:starting\n[default1]:starting\n")
    found = diagnose(tmp_path)
    assert list(found.initiator.ranks) == []  # nothing tells how many nodes there were
    assert list(found.initiator.nodes) == ["node-b"]


def test_two_processes_that_print_the_steps_say_nothing_of_their_place(tmp_path: Path) -> None:
    for name in ("node-a", "node-b"):
        (tmp_path / f"{name}.log").write_text(
            "".join(ITERATION.format(i=i) for i in range(1, 9)) + STOPPED * (name > "node-a")
        )
    assert list(diagnose(tmp_path).initiator.ranks) == []


def test_zero_padded_names_of_gpu_nodes_are_hosts_and_numbers_of_devices_are_not(tmp_path: Path) -> None:
    lines = "".join(f"gpu0{n}: [2024-01-05 10:00:0{n},118] [INFO] step {n}\n" for n in (1, 2) for _ in range(6))
    (tmp_path / "pdsh.log").write_text(lines + "gpu02: Traceback (most recent call last):\ngpu02: KeyError: 'label'\n")
    assert list(diagnose(tmp_path).initiator.nodes) == ["gpu02"]
    (tmp_path / "pdsh.log").write_text(lines.replace("gpu0", "gpu") + "gpu2: KeyError: 'label'\n")
    assert list(diagnose(tmp_path).initiator.nodes) == []
