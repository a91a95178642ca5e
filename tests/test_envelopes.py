"""Prefix layers: what stays of a line, and what its envelopes claim; and how a file decides what a prefix means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.envelopes import FileContext, Peeled, peel
from correlator.envelopes.file_context import (
    JobContext,
    RankTags,
    collect_rank_tags,
    decide_rank_tags,
    detect_layers,
    file_context,
)
from correlator.envelopes.heads import severity_of
from correlator.timestamps import SECOND, Clock

YEAR = Clock(reference_ns=int(datetime(2024, 5, 2, tzinfo=UTC).timestamp()) * SECOND)
PLAIN = FileContext(clock=YEAR)
NODES = FileContext(clock=YEAR, hosts=frozenset({"gpu-a017", "gpu-a018"}))
TASKS = FileContext(clock=YEAR, task_label=True)


def stamp(*when: int) -> int:
    return int(datetime(2024, 5, *when, tzinfo=UTC).timestamp()) * SECOND  # type: ignore[misc]


AT = stamp(1, 7, 40, 18)
COLLECTED = stamp(1, 5, 40, 18) + 123_456_789

CASES: list[tuple[str, FileContext, str, dict[str, Any]]] = [
    # transports
    ("2024-05-01T05:40:18.123456789Z stderr F [rank9]: Traceback (most recent call last):", PLAIN,
     "Traceback (most recent call last):",
     {"timestamp_ns": COLLECTED, "timestamp_basis": "transport", "stream": "stderr", "rank": 9, "key": "rank9"}),
    ('{"log":"[rank9]: ValueError: bad\\n","stream":"stderr","time":"2024-05-01T05:40:18.123456789Z"}', PLAIN,
     "ValueError: bad", {"timestamp_ns": COLLECTED, "stream": "stderr", "rank": 9, "partial": False}),
    ('{"log":"half a li","stream":"stdout","time":"2024-05-01T05:40:18.123456789Z"}', PLAIN, "half a li", {"partial": True}),
    ("2024-05-01T05:40:18.123456789Z stdout P half a li", PLAIN, "half a li", {"partial": True}),
    ('{"__REALTIME_TIMESTAMP":"1714542018123456","_HOSTNAME":"node012","_PID":"1","SYSLOG_IDENTIFIER":"kernel",'
     '"MESSAGE":"mlx5_core 0000:5e:00.0 ens1f0: Link down"}', PLAIN, "mlx5_core 0000:5e:00.0 ens1f0: Link down",
     {"timestamp_ns": COLLECTED // 1000 * 1000, "timestamp_basis": "printed", "node": "node012", "logger": "kernel"}),
    ('{"stream":{"pod":"llm-worker-3"},"values":[["1714542018123456789","step 4"]]}', PLAIN, "step 4",
     {"timestamp_ns": COLLECTED, "pod": "llm-worker-3", "key": "llm-worker-3"}),
    ('{"@timestamp":"2024-05-01T05:40:18.123456789Z","log":"x","kubernetes":{"pod_name":"w-1","host":"node7"}}', PLAIN, "x",
     {"timestamp_ns": COLLECTED, "pod": "w-1", "node": "node7"}),
    ('[1714542018.123456, {"log":"x","kubernetes":{"pod_name":"w-1","host":"node7"}}]', PLAIN, "x",
     {"timestamp_ns": COLLECTED // 1000 * 1000, "timestamp_basis": "transport", "pod": "w-1", "node": "node7"}),
    ('[[1714542018.123456, {}], {"log":"x"}]', PLAIN, "x", {"timestamp_ns": COLLECTED // 1000 * 1000}),
    ('[1714542018, {"loss": 1.5}]', PLAIN, '[1714542018, {"loss": 1.5}]', {"timestamp_ns": None}),
    ('{"message":"x","nodeName":"node7","namespace":"ml","podName":"w-1","containerName":"pytorch"}', PLAIN, "x",
     {"pod": "w-1", "node": "node7", "container": "pytorch"}),
    ('{"__REALTIME_TIMESTAMP":"1714542018123456","_HOSTNAME":"node012","MESSAGE":[78,86,82,77,58,32,255]}', PLAIN,
     "NVRM: \ufffd", {"node": "node012", "timestamp_basis": "printed"}),
    ('{"timestamp":"2024-05-01 07:40:18","level":"ERROR","message":"boom","rank":3}', PLAIN, "boom",
     {"timestamp_ns": AT, "timestamp_basis": "printed", "severity": "error", "rank": 3}),
    ('{"message": {"message": "ValueError: bad shard", "extraInfo": {}}}', PLAIN,
     '{"message": {"message": "ValueError: bad shard", "extraInfo": {}}}', {"timestamp_ns": None}),
    ("{'loss': 1.2, 'epoch': 0.1}", PLAIN, "{'loss': 1.2, 'epoch': 0.1}", {"key": ""}),
    ('{"@timestamp":"2024-05-01T05:40:18.123456789Z","message":"x","host":{"name":"node7"}}', PLAIN, "x",
     {"timestamp_ns": COLLECTED, "node": "node7"}),
    ('{"labels":{"pod":"w-1","node_name":"node7"},"line":"x","timestamp":"2024-05-01T05:40:18.123456789Z"}', PLAIN, "x",
     {"timestamp_ns": COLLECTED, "pod": "w-1", "node": "node7"}),
    ('2024-05-01T05:40:18.123456789Z {pod="w-1", node_name="node7"} x', PLAIN, "x",
     {"timestamp_ns": COLLECTED, "pod": "w-1", "node": "node7"}),
    ('2024-05-01T05:40:18.123456789Z {"w": 1} x', PLAIN, '{"w": 1} x', {"pod": None}),
    # numbers of seconds, milliseconds, microseconds and nanoseconds
    ('{"ts":1714549218,"msg":"x"}', PLAIN, "x", {"timestamp_ns": AT, "resolution_ns": SECOND}),
    ('{"ts":1714549218.5,"msg":"x"}', PLAIN, "x", {"timestamp_ns": AT + SECOND // 2}),
    ('{"ts":1714549218500,"msg":"x"}', PLAIN, "x", {"timestamp_ns": AT + SECOND // 2, "resolution_ns": 1_000_000}),
    ('{"ts":1714549218500000,"msg":"x"}', PLAIN, "x", {"timestamp_ns": AT + SECOND // 2, "resolution_ns": 1000}),
    ('{"ts":1714549218500000001,"msg":"x"}', PLAIN, "x", {"timestamp_ns": AT + SECOND // 2 + 1, "resolution_ns": 1}),
    ('{"ts":"1714549218500","msg":"x"}', PLAIN, "x", {"timestamp_ns": AT + SECOND // 2}),
    ('{"ts":true,"msg":"x"}', PLAIN, "x", {"timestamp_ns": None}),
    ('{"ts":1' + "0" * 400 + ',"msg":"x"}', PLAIN, "x", {"timestamp_ns": None}),
    ("1714549218.500 INFO x", PLAIN, "x", {"timestamp_ns": AT + SECOND // 2, "severity": "info"}),
    ("1714549218500 INFO x", PLAIN, "x", {"timestamp_ns": AT + SECOND // 2}),
    ("1714549218.500 loss", PLAIN, "1714549218.500 loss", {"timestamp_ns": None}),
    # the kernel's ring buffer, and kernels that print the caller
    ("3,2212,4053155111,-;NVRM: x", PLAIN, "NVRM: x", {"boot_ns": 4_053_155_111_000, "timestamp_basis": "boot-relative"}),
    ("4,2213,4053155222,c,caller=T1946;NVRM: x", PLAIN, "NVRM: x", {"boot_ns": 4_053_155_222_000}),
    ("[Wed May  1 07:40:18 2024 <    0.000123>] NVRM: x", PLAIN, "NVRM: x", {"timestamp_ns": AT}),
    ("kern  :err   : 2024-05-01T09:40:18,000000+02:00 NVRM: x", PLAIN, "NVRM: x", {"timestamp_ns": AT}),
    ("[ 1234.567890 <    0.000123*>] node012 kernel: NVRM: x", PLAIN, "NVRM: x",
     {"boot_ns": 1_234_567_890_000, "node": "node012"}),
    ("1,2,3,4;5", PLAIN, "1,2,3,4;5", {"boot_ns": None}),
    ("[  130.456250] [ T1946] NVRM: x", PLAIN, "NVRM: x", {"boot_ns": 130_456_250_000}),
    ("[9999999999.907318] amdgpu: x", PLAIN, "[9999999999.907318] amdgpu: x", {"boot_ns": None}),
    # syslog on the wire, with parts that say nothing, and as switches and templates print it
    ('<3>1 2024-05-01T09:40:18+02:00 node012 kernel - - [a@1 b="c \\] d" e="f"][g@2 h="i ] j"] x', PLAIN, "x",
     {"timestamp_ns": AT, "node": "node012", "logger": "kernel"}),
    ("<3>1 2024-05-01T07:40:18Z node012 sshd 4711 - - \ufeffx", PLAIN, "x", {"timestamp_ns": AT, "pid": 4711}),
    ("<3>1 - - kernel - - - x", PLAIN, "x", {"timestamp_ns": None, "node": None, "logger": "kernel"}),
    ("61 <3>1 2024-05-01T07:40:18Z node012 kernel - - - x", PLAIN, "x", {"timestamp_ns": AT, "node": "node012"}),
    ("1 2024-05-01T07:40:18Z node012 kernel - - - x", PLAIN, "x", {"timestamp_ns": AT, "node": "node012"}),
    ("1 2024-05-01 07:40:18 are the numbers - - - x", PLAIN, "1 2024-05-01 07:40:18 are the numbers - - - x", {"node": None}),
    ("<3>2024-05-01T09:40:18.000000+02:00 node012 kernel: x", PLAIN, "x", {"timestamp_ns": AT, "node": "node012"}),
    ("2024-05-01T09:40:18+02:00 node012 kern.err kernel: x", PLAIN, "x", {"timestamp_ns": AT, "node": "node012", "logger": "kernel"}),
    ("May  1 07:40:18 node012 local7.notice mgmtd: x", PLAIN, "x", {"timestamp_ns": AT, "node": "node012", "logger": "mgmtd"}),
    ("May  1 2023 07:40:18 leaf03 kernel: x", PLAIN, "x",
     {"timestamp_ns": AT - 366 * 86_400 * SECOND, "dated": True, "node": "leaf03"}),
    # daemons with heads of their own
    ("2024-05-01_09:40:18.123+0200: [E] Lost membership", PLAIN, "[E] Lost membership", {"timestamp_ns": AT + 123_000_000}),
    ("(3) May01 07:40:18 Main [App] >> Connect failed", PLAIN, "Connect failed", {"timestamp_ns": AT}),
    ("(3) out of 4 workers are [ready] >> go", PLAIN, "(3) out of 4 workers are [ready] >> go", {"timestamp_ns": None}),
    ("05/01/2024 07:40:18;0004;Server@pbs01;Node;node012;node down", PLAIN, "node down",
     {"timestamp_ns": AT, "node": "node012", "logger": "Server"}),
    ("[ERROR] HCCL(4711,python3):2024-05-01-07:40:18.000.001 [a.cc:6] [48][TaskExecStage]x", PLAIN, "[TaskExecStage]x",
     {"timestamp_ns": AT + 1000, "pid": 4711, "severity": "error"}),
    ("[ERROR] 2024-05-01-07:40:18 (PID:4711, Device:2, RankID:10) ERR02200 DIST", PLAIN, "ERR02200 DIST",
     {"timestamp_ns": AT, "pid": 4711, "rank": 10}),
    ("[ERROR] 2024-05-01-07:40:18 (PID:4711, Device:2, RankID:-1) ERR02200 DIST", PLAIN, "ERR02200 DIST", {"rank": None}),
    ("Terminated at Wed May  1 07:40:18 2024", PLAIN, "Terminated at Wed May  1 07:40:18 2024", {"timestamp_ns": AT}),
    # fan-in
    ("[pod/llm-worker-3/pytorch] 2024-05-01T05:40:18.123456789Z [default1]:x", PLAIN, "x",
     {"pod": "llm-worker-3", "container": "pytorch", "local_rank": 1, "timestamp_ns": COLLECTED,
      "key": "llm-worker-3/default1"}),
    ("llm-worker-3 pytorch 2024-05-01T05:40:18.123456789Z [rank9]: x", FileContext(clock=YEAR, stern=True), "x",
     {"pod": "llm-worker-3", "container": "pytorch", "rank": 9}),
    ("train llm-worker-3 pytorch 2024-05-01T05:40:18.123456789Z [rank9]: x",
     FileContext(clock=YEAR, stern=True, namespaces=True), "x", {"pod": "llm-worker-3", "container": "pytorch", "rank": 9}),
    ("gpu-a017: [default0]:  File \"train.py\", line 3, in f", NODES, '  File "train.py", line 3, in f',
     {"node": "gpu-a017", "local_rank": 0, "key": "gpu-a017/default0"}),
    ("gpu-a017: ", NODES, "", {"node": "gpu-a017"}),
    ("ValueError: x", NODES, "ValueError: x", {"node": None}),
    (" 7:     main()", TASKS, "    main()", {"task": 7, "rank": None, "key": "7"}),
    ("7: 1: deep", TASKS, "1: deep", {"task": 7}),
    ("P1 3: x", TASKS, "x", {"task": 3, "key": "1.3"}),
    ("18:11:06.680 [rank4]:[E501 18:11:06.123456789 a.cpp:12] x", TASKS, "x", {"task": None, "rank": 4}),
    ("7: x", PLAIN, "7: x", {"task": None}),
    ("[1,37]<stderr>:  File \"a.py\"", PLAIN, '  File "a.py"', {"task": 37, "rank": 37, "stream": "stderr", "key": "37"}),
    ("[prterun-n1-77@1,37][node1:4711]<stdout>: x", PLAIN, "x", {"rank": 37, "node": "node1", "pid": 4711}),
    ("Wed May  1 07:40:18 2024[1,37]<stderr>:x", PLAIN, "x", {"timestamp_ns": AT, "timestamp_basis": "transport", "rank": 37}),
    ("Wed May  1 07:40:18 2024<stdout>:x", PLAIN, "x", {"timestamp_ns": AT, "timestamp_basis": "transport"}),
    ('<stdout rank="3">hello</stdout>', PLAIN, "hello", {"rank": 3, "stream": "stdout"}),
    ("[37] x", FileContext(rank_label=True), "x", {"task": 37, "key": "37"}),
    ("[37] x", PLAIN, "[37] x", {"task": None}),
    ("nid003871:2 out: 2024-05-01 07:40:18.000\tnid003871:2\tolmo.train:101\tINFO\tready", PLAIN, "ready",
     {"node": "nid003871", "local_rank": 2, "stream": "stdout", "timestamp_ns": AT, "key": "nid003871/2"}),
    ("i.pretrain/0 [default3]:x", PLAIN, "x", {"local_rank": 3, "key": "i.pretrain/0/default3"}),
    ("Wed May  1 07:40:18 2024[3]<stderr>:x", PLAIN, "x", {"rank": 3}),
    ("[3]<x>:x", PLAIN, "[3]<x>:x", {}),
    ("bench-nodes.node012 [stderr] [rank3]:[E501 07:40:18.404512345 a.cpp:1] x", PLAIN, "x", {"node": "node012", "rank": 3}),
    ("bench.D0 [stdout] x", PLAIN, "bench.D0 [stdout] x", {}),
    ("run1.node012.nolog [stderr] [rank3]:[E501 07:40:18.404512345 a.cpp:1] x", PLAIN, "x", {"node": "node012", "rank": 3}),
    # tags, actors, ranks
    ("3: [default0]:[rank4]: ValueError: bad", TASKS, "ValueError: bad", {"task": 3, "local_rank": 0, "rank": 4}),
    ("[trainer7]:x", PLAIN, "x", {"local_rank": 7, "rank": None, "key": "trainer7"}),
    ("[rank2]:  File \"a.py\"", FileContext(tee_rank="local", split_ranks=False), '  File "a.py"',
     {"local_rank": 2, "rank": None, "key": "tee2"}),
    ("[rank2]:[rank10]:   File \"a.py\"", FileContext(tee_rank="local"), '  File "a.py"', {"local_rank": 2, "rank": 10}),
    ("[rank6]: [rank6]: x", FileContext(tee_rank="global", tee_space=True, split_ranks=False), "x",
     {"rank": 6, "local_rank": None, "key": "tee6"}),
    ("(RayTrainWorker pid=4711, ip=10.0.0.18) x [repeated 7x across cluster]", PLAIN, "x",
     {"pid": 4711, "node": "10.0.0.18", "repeats": 7}),
    ("(Worker_TP2 pid=907) ERROR 05-01 07:40:18 [executor.py:588]   File \"a.py\"", PLAIN, '  File "a.py"',
     {"pid": 907, "rank": 2, "timestamp_ns": AT, "severity": "error", "logger": "executor.py:588"}),
    ("(Worker_PP1_TP2 pid=907) x", PLAIN, "x", {"pid": 907, "rank": None}),
    ("(worker1, rank=5, pid=44, ip=10.0.0.7) x", PLAIN, "x", {"rank": 5, "pid": 44, "node": "10.0.0.7"}),
    ("(raylet) x", PLAIN, "x", {"key": "raylet"}),
    ("(most recent call first):", PLAIN, "(most recent call first):", {}),
    ("[rank: 1] Received SIGTERM: 15", PLAIN, "[rank: 1] Received SIGTERM: 15", {"local_rank": 1, "rank": None}),
    ("[rank: 9] Global seed set to 42", PLAIN, "Global seed set to 42", {"rank": 9}),
    ("[2024-05-01 07:40:18] rank 3: iteration: 1300/2000", PLAIN, "rank 3: iteration: 1300/2000", {"rank": 3}),
    # c10, glog, torch's Python loggers
    ("[rank9]:[E501 07:40:18.904512345 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog", PLAIN, "[Rank 1] Watchdog",
     {"rank": 9, "timestamp_ns": AT, "resolution_ns": SECOND, "severity": "error", "logger": "ProcessGroupNCCL.cpp"}),
    ("[W501 07:40:18.904512345 socket.cpp:207] [c10d] x", PLAIN, "[c10d] x", {"timestamp_ns": AT, "severity": "warning"}),
    ("[E ProcessGroupNCCL.cpp:475] [Rank 3] x", PLAIN, "[Rank 3] x", {"timestamp_ns": None, "severity": "error"}),
    ("[rank3]:[F ProcessGroupNCCL.cpp:1557] x", PLAIN, "x", {"rank": 3, "severity": "fatal"}),
    ("E0501 07:40:18.123456 4711 ProcessGroupNCCL.cpp:474] x", PLAIN, "x",
     {"timestamp_ns": AT + 123_456_000, "resolution_ns": 1000, "pid": None}),
    ("E20240501 07:40:18.123456    11 a.cc:1] x", FileContext(), "x", {"timestamp_ns": AT + 123_456_000}),
    ("W0501 07:40:18.009000 4700 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4711", PLAIN,
     "Sending process 4711", {"timestamp_ns": AT + 9_000_000, "resolution_ns": 1_000_000, "pid": 4700}),
    ("W0501 07:40:18.009000 139700012345 torch/distributed/run.py:779] x", PLAIN, "x", {"pid": None}),
    ("[rank3]:W0501 07:40:18.009000 4711 torch/_inductor/x.py:9] x", PLAIN, "x", {"rank": 3, "severity": "warning"}),
    ("[2024-05-01 07:40:18,123] torch.distributed.run: [WARNING] x", PLAIN, "x",
     {"timestamp_ns": AT + 123_000_000, "severity": "warning", "logger": "torch.distributed.run"}),
    ("WARNING:torch.distributed.run:", PLAIN, "", {"severity": "warning", "logger": "torch.distributed.run"}),
    # Python loggers
    ("[2024-05-01 07:40:18,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711", PLAIN,
     "Killing subprocess 4711", {"severity": "info", "logger": "launch.py:319:sigkill_handler"}),
    ("[2024-05-01 07:40:18,123] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] ready", PLAIN, "[Rank 0] [Torch] ready",
     {"rank": 0}),
    ("[2024-05-01 07:40:18,123] [INFO] [lib.load] [PID:90010] [RANK:5] x", PLAIN, "x", {"pid": 90010, "rank": 5}),
    ("[2024-05-01 07:40:18] [decorator.py (306)] [ERROR] [actor-1 3 / 8][PID 18175] x", PLAIN, "x",
     {"rank": 3, "pid": 18175, "severity": "error"}),
    ("2024-05-01 07:40:18,123 - root - INFO - step: 3", PLAIN, "step: 3", {"logger": "root", "severity": "info"}),
    ("[titan] 2024-05-01 07:40:18,123 - root - INFO - step: 3", PLAIN, "step: 3", {"timestamp_ns": AT + 123_000_000}),
    ("05/01/2024 07:40:18 - WARNING - lib.parser - x", PLAIN, "x", {"logger": "lib.parser", "severity": "warning"}),
    ("2024-05-01 07:40:18.123 | ERROR    | mod:run:12 - x", PLAIN, "x", {"severity": "error", "logger": "mod:run:12"}),
    ("2024-05-01 07:40:18,123: rank3[4711][MainThread]: INFO: composer.trainer: x", PLAIN, "x",
     {"rank": 3, "pid": 4711, "logger": "composer.trainer"}),
    ("2024-05-01 07:40:18,123 [WARNING] [node7] [workload:6(2) infra:1(0)] monitor.py:190 x", PLAIN, "x",
     {"rank": 6, "local_rank": 2, "node": "node7", "severity": "warning"}),
    ("2024-05-01 07:40:18,123\tINFO worker.py:1603 -- x", PLAIN, "x", {"logger": "worker.py:1603"}),
    ("2024-05-01 07:40:18.123456: E external/xla/a.cc:123] x", PLAIN, "x", {"severity": "error"}),
    ("2024-05-01 07:40:18 INFO step 4", PLAIN, "step 4", {"severity": "info", "timestamp_ns": AT}),
    ("[INFO|trainer.py:2519] 2024-05-01 07:40:18,123 >> ***** Running training *****", PLAIN, "***** Running training *****",
     {"logger": "trainer.py:2519", "timestamp_ns": AT + 123_000_000}),
    ("[WARNING|2024-05-01 07:40:18] lib.cli:143 >> x", PLAIN, "x", {"severity": "warning", "logger": "lib.cli:143"}),
    ("[NeMo W 2024-05-01 07:40:18 nemo_logging:349 rank:9] x", PLAIN, "x", {"rank": 9, "severity": "warning"}),
    ("INFO 05-01 07:40:18 api_server.py:219] x", PLAIN, "x", {"timestamp_ns": AT, "logger": "api_server.py:219"}),
    ("(ActorWorker(train-1) pid=7, ip=10.0.0.18) x", PLAIN, "x", {"pid": 7, "node": "10.0.0.18"}),
    ("[2024-05-01 07:40:18 DP0 TP5] Scheduler hit", PLAIN, "Scheduler hit", {"key": "DP0 TP5", "timestamp_ns": AT}),
    (" [2024-05-01 07:40:18] iteration     1200/  500000 |", PLAIN, "iteration     1200/  500000 |", {"timestamp_ns": AT}),
    ("[after megatron is initialized] datetime: 2024-05-01 07:40:18 ", PLAIN,
     "[after megatron is initialized] datetime: 2024-05-01 07:40:18 ", {"timestamp_ns": AT}),
    # kernel and syslog
    ("May  1 07:40:18 node012 kernel: [123456.789012] NVRM: Xid", PLAIN, "NVRM: Xid",
     {"node": "node012", "timestamp_ns": AT, "timestamp_basis": "printed", "boot_ns": 123_456_789_012_000}),
    ("2024-05-01T07:40:18.123456+02:00 node012 kernel: x", PLAIN, "x", {"node": "node012", "timestamp_basis": "printed"}),
    ("<34>1 2024-05-01T07:40:18.123456+02:00 node012 app 4711 - - x", PLAIN, "x", {"node": "node012", "pid": 4711}),
    ("<6>[123456.789012] x", PLAIN, "x", {"timestamp_basis": "boot-relative", "timestamp_ns": None}),
    ("kern  :err   : [123456.789012] x", PLAIN, "x", {"boot_ns": 123_456_789_012_000}),
    ("[Wed May  1 07:40:18 2024] x", PLAIN, "x", {"timestamp_ns": AT}),
    ("2024-05-01T07:40:18,123456+02:00 nvidia-nvswitch0: x", PLAIN, "nvidia-nvswitch0: x", {"node": None}),
    ("Wed 2024-05-01 07:40:18 CEST node012 systemd[1]: x", PLAIN, "x", {"node": "node012", "pid": 1}),
    ("1714542018.123456 node012 kernel: x", PLAIN, "x", {"node": "node012", "timestamp_ns": COLLECTED // 1000 * 1000}),
    ("May  1 07:40:18 node012 app[3]: message repeated 3 times: [ disk full]", PLAIN, "disk full", {"repeats": 3}),
    # heads in the middle, escapes, debris
    (" 45%|##  | 45/500 [00:11<01:59,  3.80it/s][rank0]:[E501 07:40:18.404512345 a.cpp:607] x", PLAIN, "x",
     {"rank": 0, "timestamp_ns": AT}),
    ("Xid errors on node: May  1 07:40:18 node012 kernel: [1.000002] NVRM: Xid", PLAIN, "NVRM: Xid", {"node": "node012"}),
    ("\x1b[36m(Actor pid=7)\x1b[0m \x1b[31mERROR\x1b[0m x", PLAIN, "ERROR x", {"pid": 7}),
    ("\x00\x00[rank3]: x\x00", PLAIN, "x", {"rank": 3}),
    ("\ufeff[rank3]: x", PLAIN, "x", {"rank": 3}),
    # kept for the emitter's parser
    ("[2024-05-01 07:40:18] gpu-a017:4711:5012 [1] net.cc:9 NCCL WARN x", PLAIN, "gpu-a017:4711:5012 [1] net.cc:9 NCCL WARN x",
     {"node": "gpu-a017", "pid": 4711, "timestamp_ns": AT, "key": ""}),
    ("[lynx1:13207] mca: base: x", PLAIN, "[lynx1:13207] mca: base: x", {"node": "lynx1", "pid": 13207}),
    ("srun: error: node012: task 37: Killed", PLAIN, "srun: error: node012: task 37: Killed", {"node": None}),
    ("[PG ID 2 PG GUID 14 Rank 1] x", PLAIN, "[PG ID 2 PG GUID 14 Rank 1] x", {"rank": None}),
    ("    [2024] = x", PLAIN, "    [2024] = x", {"timestamp_ns": None}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "context", "text", "claims"), CASES, ids=[case[0][:60] for case in CASES])
def test_peel(line: str, context: FileContext, text: str, claims: dict[str, Any]) -> None:
    p = peel(line, context)
    assert p.text == text
    assert {name: getattr(p, name) for name in claims} == claims


def test_an_inner_stamp_outranks_the_collectors_and_a_coarse_one_not_a_finer() -> None:
    inner = peel("2024-05-01T05:40:59Z stderr F [2024-05-01 05:40:18,500] [INFO] x", PLAIN)
    assert (inner.timestamp_basis, inner.timestamp_ns) == ("printed", stamp(1, 5, 40, 18) + 500_000_000)
    outer = peel("2024-05-01 07:40:18.250 [E501 07:40:18.999999999 a.cpp:1] x", PLAIN)
    assert outer.timestamp_ns == AT + 250_000_000


@given(st.text(max_size=200))
def test_any_text_is_peeled_and_never_grows(line: str) -> None:
    p = peel(line, TASKS)
    assert isinstance(p, Peeled)
    assert len(p.text) <= len(line)


@given(st.lists(st.sampled_from([c[0] for c in CASES]), min_size=1, max_size=4))
def test_stacked_layers_end(lines: list[str]) -> None:
    assert isinstance(peel(" ".join(lines), NODES).text, str)


def test_severities_of_level_words() -> None:
    words = ("debug", "WARN", "Error", "critical", "note")
    assert [severity_of(word) for word in words] == ["info", "warning", "error", "fatal", None]


# --- what prefixes mean in one file --------------------------------------------------------------------------------------


def layers(text: str) -> FileContext:
    return detect_layers(text.strip("\n").split("\n"), [], YEAR)


def test_srun_labels_recur_with_several_numbers() -> None:
    assert layers("0: a\n1: b\n0: c\n1: d\nsrun: error: x").task_label
    assert not layers("0: Tesla\n1: Tesla\n2: Tesla\nall fine").task_label
    assert not layers("step 1\nstep 2\n1: x\nstep 3\nstep 4").task_label


def test_a_host_that_pdsh_says_failed_is_a_host_however_few_its_lines() -> None:
    text = "a\nb\nc\nd\nn07: bash: x\npdsh@login1: n07: ssh exited with exit code 127"
    assert layers(text).hosts == {"n07"}


def test_hosts_in_front_of_nearly_all_lines_are_hosts() -> None:
    assert layers("gpu-a017: a\ngpu-a018: b\ngpu-a017: c\ngpu-a018: d\ngpu-a017: e\ngpu-a018: f").hosts == {
        "gpu-a017",
        "gpu-a018",
    }
    text = "INFO: a\nINFO: b\nINFO: c\nloss: 2\nloss: 1\nloss: 0\nepoch1: x\nepoch1: y\nepoch1: z\nValueError: q"
    assert layers(text).hosts == frozenset()


def test_a_rare_host_is_told_by_its_likeness() -> None:
    text = "\n".join(["n01: a"] * 6 + ["n02: b"] * 6 + ["n03: the only line"])
    assert layers(text).hosts == {"n01", "n02", "n03"}


def test_hydra_and_stern_labels() -> None:
    assert layers("\n".join(f"[{i % 3}] line {i}" for i in range(12))).rank_label
    assert not layers("\n".join(f"[{80746 + i}] viewer {i}" for i in range(12))).rank_label
    assert layers("\n".join(f"llm-worker-{i % 2} pytorch line {i}" for i in range(12))).stern
    assert not layers("\n".join(f"grad-norm{i} was {i}" for i in range(12))).stern
    assert not layers("\n".join(f"llm-worker-{i % 2} pytorch line {i}" for i in range(12))).namespaces
    assert layers("\n".join(f"train llm-worker-{i % 2} pytorch line {i}" for i in range(12))).namespaces


def tags_of(files: dict[str, str]) -> tuple[str, bool]:
    tags = RankTags()
    for name, text in files.items():
        lines = text.strip("\n").split("\n")
        collect_rank_tags(lines, detect_layers(lines, [], YEAR), name, tags)
    return decide_rank_tags(tags)


def test_torchs_own_rank_prefix_stands_on_tracebacks_and_c10_lines_only() -> None:
    text = "[rank5]: Traceback (most recent call last):\n[rank5]:   File\n[rank5]: Last error:\n[rank5]:[E501 07:40:18.1 a.cpp:1] x"
    assert tags_of({"a.log": text}) == ("torch", False)


def test_a_tag_of_role_rank_repeats_on_every_node() -> None:
    a = "[rank0]:step: 1\n[rank1]:step: 1\n[rank0]:step: 2\n[rank1]:step: 2"
    assert tags_of({"n1.log": a, "n2.log": a}) == ("local", False)
    assert tags_of({"n1.log": a + "\n[rank1]:[rank9]: Traceback (most recent call last):"}) == ("local", False)


def test_a_template_may_make_the_tag_a_global_rank() -> None:
    text = "n1: [rank0]: [rank0]: x\nn2: [rank2]: [rank2]: y\nn1: [rank1]: [rank1]: x\nn2: [rank3]: [rank3]: y\n" * 2
    assert tags_of({"a.log": text}) == ("global", True)


def context_of(text: str, *, single: bool = False, complete: bool = True) -> FileContext:
    return file_context(JobContext(), text.encode(), b"", 0, single_process=single, complete=complete)


def test_rank_prefixes_split_an_unlabelled_file_only_when_there_are_several() -> None:
    shared = "start\n[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n"
    own = "start\n[rank1]: Traceback (most recent call last):\n"
    assert (context_of(shared).split_ranks, context_of(shared).several) == (True, True)
    assert (context_of(own).split_ranks, context_of(own).several) == (False, False)
    assert context_of(own, complete=False).unsure


def test_a_label_that_owns_one_rank_names_the_process() -> None:
    text = "0: a\n1: b\n0: [rank0]: Traceback (most recent call last):\n1: [rank1]: Traceback (most recent call last):\n0: c\n"
    assert not context_of(text).split_ranks
    per_node = text.replace("1: [rank1]", "0: [rank1]")
    assert context_of(per_node).split_ranks


def test_a_file_name_that_says_one_process_is_not_believed_against_its_content() -> None:
    assert not context_of("x\n[rank3]: y\n", single=True).several
    assert context_of("[default0]:x\n[default1]:y\n[default0]:z\n", single=True).several


def test_the_year_comes_from_dated_neighbours() -> None:
    text = "[rank3]:[E501 07:40:18.404512345 a.cpp:1] x\n  time      : 2024-05-01_07:40:19\n"
    clock = context_of(text).clock
    assert (clock.reference_ns, clock.reference_is_latest) == (AT + SECOND, False)
    other = file_context(JobContext(reference_ns=AT), b"x\n", b"", 5, single_process=False, complete=True)
    assert other.clock.reference_ns == AT


def test_an_unlisted_layout_is_found_and_used() -> None:
    lines = [f"01-May-2024 07:{40 + i}:18 INFO step {i}" for i in range(8)]
    context = context_of("\n".join(lines) + "\n")
    p = peel(lines[0], context)
    assert (p.text, p.timestamp_ns, p.severity) == ("step 0", AT, "info")
