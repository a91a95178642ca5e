"""Tracebacks and stack dumps in every shape that training jobs print them."""

from __future__ import annotations

import random

import pytest

from correlator.events import BODY_LIMIT, Found
from parsers._exception_text import read_final
from parsers._frames import Frame, call, describe, in_launcher, site
from parsers.agent_error_file import PARSER as ERROR_FILE
from parsers.python_tracebacks import EXCEPTION, FATAL, STACK_DUMP

TORCH = "/opt/env/lib/python3.11/site-packages/torch"


def exceptions(text: str) -> list[Found]:
    assert EXCEPTION.block is not None
    return list(EXCEPTION.block(text.strip("\n").split("\n")))


def only(text: str) -> Found:
    (found,) = exceptions(text)
    return found


PLAIN = """
Traceback (most recent call last):
  File "/opt/job/train.py", line 88, in <module>
    main()
    ~~~~^^
  File "/opt/job/data.py", line 12, in load
    return self.shards[index]
           ~~~~~~~~~~~^^^^^^^
  [Previous line repeated 996 more times]
  File "/opt/env/lib/python3.11/site-packages/numpy/core/fromnumeric.py", line 59, in _wrapfunc
    return bound(*args, **kwds)
IndexError: list index out of range
"""


def test_plain() -> None:
    found = only(PLAIN)
    assert found.fields["type"] == "IndexError"
    assert found.fields["message"] == "list index out of range"
    assert found.fields["site"] == "load@/opt/job/data.py:12"
    assert found.fields["call_text"] == "return self.shards[index]"
    assert str(found.fields["frames"]).endswith(
        "_wrapfunc@/opt/env/lib/python3.11/site-packages/numpy/core/fromnumeric.py:59"
    )
    assert "call" not in found.fields and "launcher" not in found.fields and "outer_type" not in found.fields
    assert (found.first, found.at, found.last) == (0, 10, 10)
    assert found.body == "IndexError: list index out of range"


@pytest.mark.parametrize(
    ("final", "kind", "message"),
    [
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("AssertionError", "AssertionError", ""),
        ("queue.Empty", "queue.Empty", ""),
        ("socket.timeout: timed out", "socket.timeout", "timed out"),
        ("__main__.run.<locals>.BadShard: 7", "__main__.run.<locals>.BadShard", "7"),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", None, ""),
        ("OLMoThreadError: generator thread failed", "OLMoThreadError", "generator thread failed"),
        (
            "Unfit: weak name, but it stands where the final line must",
            "Unfit",
            "weak name, but it stands where the final line must",
        ),
    ],
)
def test_final_lines(final: str, kind: str | None, message: str) -> None:
    text = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n' + final
    found = only(text)
    assert found.fields["type"] == (kind or final.rstrip(": "))
    assert found.fields["message"] == message


@pytest.mark.parametrize(
    "line",
    [
        "loss: 2.31", "step: 12", "Epoch: 3", "INFO: loading", "WARNING: could not find the metadata file", "error: bad flag",
        "saved checkpoint", "gpu-a017:4711:4720 [0] NCCL INFO ring", "Rank 3: ready", "Process group destroyed", "",
    ],
)  # fmt: skip
def test_ordinary_lines_are_no_final_lines(line: str) -> None:
    final = read_final(line)
    assert final is None or not final.certain


def test_message_of_several_lines() -> None:
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/train.py", line 9, in main\n    model.load_state_dict(state)\n'
        "RuntimeError: Error(s) in loading state_dict for GPT:\n"
        '\tMissing key(s) in state_dict: "layers.3.weight".\n'
        "\tsize mismatch for embed.weight: copying a param with shape torch.Size([8, 4])\n"
        "training finished"
    )
    assert found.body is not None and found.body.count("\n") == 2 and "size mismatch for embed.weight" in found.body
    assert found.last == 5


def test_nccl_message_keeps_the_line_after_last_error() -> None:
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/train.py", line 9, in main\n    dist.barrier()\n'
        f'  File "{TORCH}/distributed/distributed_c10d.py", line 4159, in barrier\n    work = group.barrier(opts=opts)\n'
        "torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:317, unhandled cuda error, NCCL version 2.21.5\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\n"
        "Last error:\n"
        "Cuda failure 802 'system not yet initialized'\n"
        "some other line"
    )
    assert found.body is not None and found.body.endswith("Cuda failure 802 'system not yet initialized'")
    assert found.fields["call"] == "barrier"


def test_long_message_is_cut_for_the_body() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: ' + "x" * 9000
    found = only(text)
    assert found.body is not None and len(found.body) == BODY_LIMIT and len(str(found.fields["message"])) == 1000


def test_chain_tells_root_and_outer() -> None:
    found = only(
        "Traceback (most recent call last):\n"
        f'  File "{TORCH}/serialization.py", line 1003, in save\n    _save(obj)\n'
        "RuntimeError: basic_ios::clear: iostream error\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/job/train.py", line 88, in <module>\n    save_checkpoint()\n'
        '  File "/opt/job/checkpointing.py", line 45, in save_checkpoint\n    torch.save(state, path)\n'
        "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 11648 vs 11536\n"
    )
    assert found.fields["message"] == "basic_ios::clear: iostream error"
    assert str(found.fields["outer_message"]).startswith("[enforce fail at inline_container.cc")
    assert found.fields["site"] == "save_checkpoint@/opt/job/checkpointing.py:45"
    assert found.at == 3 and found.last == 12
    assert found.body is not None and "unexpected pos" in found.body


DATALOADER = f'''
Traceback (most recent call last):
  File "/opt/job/train.py", line 88, in <module>
    for batch in loader:
  File "{TORCH}/_utils.py", line 705, in reraise
    raise exception
ValueError: Caught ValueError in DataLoader worker process 2.
Original Traceback (most recent call last):
  File "{TORCH}/utils/data/_utils/worker.py", line 308, in _worker_loop
    data = fetcher.fetch(index)
  File "/opt/job/data.py", line 31, in __getitem__
    return np.frombuffer(raw)
ValueError: buffer size must be a multiple of element size

'''


def test_dataloader_worker_gives_the_inner_exception() -> None:
    found = only(DATALOADER)
    assert found.fields["message"] == "buffer size must be a multiple of element size"
    assert found.fields["worker"] == "2"
    assert found.fields["site"] == "__getitem__@/opt/job/data.py:31"
    assert str(found.fields["outer_message"]).startswith("Caught ValueError in DataLoader")
    assert found.at == 11


def test_spawned_process() -> None:
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/run.py", line 5, in <module>\n    mp.spawn(main)\n'
        "torch.multiprocessing.spawn.ProcessRaisedException: \n"
        "\n"
        "-- Process 1 terminated with the following error:\n"
        "Traceback (most recent call last):\n"
        f'  File "{TORCH}/multiprocessing/spawn.py", line 90, in _wrap\n    fn(i, *args)\n'
        '  File "/opt/job/run.py", line 3, in main\n    raise KeyError(name)\n'
        "KeyError: 'tokens'\n"
    )
    assert (found.fields["type"], found.fields["message"]) == ("KeyError", "'tokens'")
    assert found.fields["outer_type"] == "torch.multiprocessing.spawn.ProcessRaisedException"


def test_two_spawned_processes_are_two_events() -> None:
    part = 'Traceback (most recent call last):\n  File "/opt/job/run.py", line 3, in main\n    load()\nEOFError: short read\n'
    text = part + "-- Process 1 terminated with the following error:\n" + part
    assert [f.fields["type"] for f in exceptions(text)] == ["EOFError"]
    assert only(text).last == 3


def test_process_pool() -> None:
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/prep.py", line 3, in work\n    parse(row)\n'
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
        '"""\n'
        "\n"
        "The above exception was the direct cause of the following exception:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/job/prep.py", line 20, in main\n    pool.map(work, rows)\n'
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
    )
    assert (
        found.fields["site"] == "work@/opt/job/prep.py:3"
        and found.fields["outer_type"] == "json.decoder.JSONDecodeError"
    )


def test_ray_task_error_without_a_second_header() -> None:
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/driver.py", line 5, in <module>\n    ray.get(handles)\n'
        "ray.exceptions.RayTaskError(ValueError): ray::train() (pid=4711, ip=10.0.0.18)\n"
        '  File "/opt/job/worker.py", line 31, in train\n    step(batch)\n'
        "ValueError: bad shard\n"
    )
    assert (found.fields["type"], found.fields["site"]) == ("ValueError", "train@/opt/job/worker.py:31")
    assert found.fields["outer_type"] == "ray.exceptions.RayTaskError(ValueError)"


def test_distributed_checkpoint_names_the_ranks() -> None:
    part = (
        "Traceback (most recent call last): (RANK {rank})\n"
        f'  File "{TORCH}/distributed/checkpoint/utils.py", line 176, in reduce_scatter\n    local_data = map_fun()\n'
        '  File "/opt/job/storage.py", line 7, in write\n    os.write(fd, data)\n'
        "OSError: [Errno 28] No space left on device\n\n"
    )
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/train.py", line 88, in <module>\n    save()\n'
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([4, 5])\n"
        + part.format(rank=4)
        + part.format(rank=5)
    )
    assert found.fields["remote_ranks"] == "4,5"
    assert found.fields["message"] == "[Errno 28] No space left on device"
    assert found.last == 16 and found.at == 9


def test_exception_group() -> None:
    found = only(
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/opt/job/serve.py", line 4, in <module>\n'
        "  |     run()\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/opt/job/serve.py", line 9, in feed\n'
        "    |     raise ValueError(1)\n"
        "    | ValueError: 1\n"
        "    +---------------- 2 ----------------\n"
        "    | TypeError: never raised\n"
        "    +------------------------------------\n"
        "server closed"
    )
    assert (found.fields["type"], found.fields["site"]) == ("ValueError", "feed@/opt/job/serve.py:9")
    assert found.fields["outer_type"] == "ExceptionGroup" and found.last == 10


def test_syntax_error() -> None:
    found = only(
        'Traceback (most recent call last):\n  File "/opt/job/train.py", line 2, in <module>\n    import model\n'
        '  File "/opt/job/model.py", line 7\n    def forward(self\n               ^\n'
        "SyntaxError: '(' was never closed\n"
    )
    assert found.fields["type"] == "SyntaxError" and found.fields["site"] == "<source>@/opt/job/model.py:7"


def test_rich_box_with_a_broken_path_and_locals() -> None:
    found = only(
        "╭──────────────── Traceback (most recent call last) ────────────────╮\n"
        "│ /opt/job/scripts/train.py:300 in <module>                          │\n"
        "│                                                                    │\n"
        "│   297 │   args = sys.argv[2:]                                      │\n"
        "│ ❱ 300 │   main(cfg)                                                │\n"
        "│                                                                    │\n"
        "│ ╭──────────── locals ────────────╮                                 │\n"
        "│ │ cfg = '/opt/job/run.yaml:3 in x' │                               │\n"
        "│ ╰────────────────────────────────╯                                 │\n"
        "│ /opt/env/lib/python3.11/site-packages/torch/nn/modules/mod         │\n"
        "│ ule.py:1501 in _call_impl                                          │\n"
        "╰────────────────────────────────────────────────────────────────────╯\n"
        "ValueError: bad shard\n"
    )
    assert found.fields["type"] == "ValueError"
    assert found.fields["frames"] == (
        f"<module>@/opt/job/scripts/train.py:300;_call_impl@{TORCH}/nn/modules/module.py:1501"
    )
    assert found.fields["call_text"] == "main(cfg)" and found.at == 12


def test_prefix_on_every_line_and_foreign_lines_between() -> None:
    lines = PLAIN.strip("\n").split("\n")
    mixed: list[str] = []
    for number, line in enumerate(lines):
        mixed += [f"(Worker_{number} pid=4711) ERROR 05-01 07:40:1{number % 10} " + line, "loss 2.31"]
    found = only("\n".join(mixed))
    assert found.fields["site"] == "load@/opt/job/data.py:12" and found.at == 20


def test_constant_indentation_ends_where_the_indentation_does() -> None:
    text = "\n".join("      " + line for line in PLAIN.strip("\n").split("\n"))
    found = only(text + "\nAssertionError: of something else")
    assert found.fields["type"] == "IndexError"


def test_text_before_the_header_of_the_first_line_only() -> None:
    assert only("Scheduler hit an exception: " + PLAIN.strip("\n")).fields["type"] == "IndexError"


@pytest.mark.parametrize(
    "line",
    [
        "  traceback : Traceback (most recent call last):",
        'print("Traceback (most recent call last):")',
        '{"message": "Traceback (most recent call last):"}',
    ],
)
def test_talk_about_a_traceback_is_none(line: str) -> None:
    assert exceptions(line + '\n  File "a.py", line 1, in f\nValueError: no') == []


def test_cut_off_at_the_end_of_the_log() -> None:
    head = 'Traceback (most recent call last):\n  File "/opt/job/train.py", line 88, in <module>\n    main()'
    found = only(head)
    assert found.fields["type"] == "unknown" and found.fields["site"] == "<module>@/opt/job/train.py:88"
    assert exceptions(head + "\nok" * 400) == []


def test_ignored_exception_and_thread() -> None:
    ignored = only("Exception ignored in: <function Pool.__del__ at 0x7f21>\n" + PLAIN.strip("\n"))
    assert ignored.fields["ignored"] == "true" and ignored.fields["severity"] == "warning" and ignored.last == 11
    thread = only("Exception in thread Thread-5 (pin_memory_loop):\n" + PLAIN.strip("\n"))
    assert thread.fields["thread"] == "Thread-5" and thread.at == 11


# -- several ranks in one stream ---------------------------------------------------------------------------------------


def _stack(final: str, frames: list[tuple[str, str, int, str]]) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for func, file, line, code in frames:
        lines += [f'  File "{file}", line {line}, in {func}', f"    {code}"]
    return [*lines, final]


COMMON = [("<module>", "/opt/job/train.py", 88, "main()"), ("main", "/opt/job/train.py", 61, "train(model, batches)")]
WAITER = [
    *COMMON,
    ("train", "/opt/job/train.py", 44, "sum_gradients(model)"),
    ("sum_gradients", "/opt/job/train.py", 30, "dist.all_reduce(bucket, group=dp)"),
    ("wrapper", f"{TORCH}/distributed/c10d_logger.py", 83, "return func(*args, **kwargs)"),
    ("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 3252, "work.wait()"),
]
LOADER = [
    *COMMON,
    ("train", "/opt/job/train.py", 41, "batch = get_batch(batches)"),
    ("get_batch", "/opt/job/data.py", 12, "return decode(raw)"),
    ("decode", "/opt/job/data.py", 31, "raise ValueError(shard)"),
]


def _weave(stacks: list[list[str]], seed: int) -> list[str]:
    """The stacks' lines in a random order that keeps the order within each."""
    rng = random.Random(seed)
    left = [list(stack) for stack in stacks]
    woven: list[str] = []
    while any(left):
        chosen = rng.choice([stack for stack in left if stack])
        woven.append(chosen.pop(0))
    return woven


@pytest.mark.parametrize("seed", range(20))
def test_woven_equal_stacks_give_one_event_each(seed: int) -> None:
    stacks = [_stack("ValueError: bad shard", LOADER) for _ in range(4)]
    woven = _weave(stacks, seed)
    events: list[int] = []
    position = 0
    while position < len(woven):
        if "Traceback" not in woven[position]:
            position += 1
            continue
        found = exceptions("\n".join(woven[position:]))
        events += [position + (f.at or 0) for f in found]
        assert all(f.fields["site"] == "decode@/opt/job/data.py:31" for f in found)
        position += max(f.last for f in found) + 1
    assert events == [i for i, line in enumerate(woven) if line.startswith("ValueError")]


def test_woven_stacks_line_by_line() -> None:
    stacks = [_stack("ValueError: bad shard", LOADER) for _ in range(4)]
    found = exceptions("\n".join(line for parts in zip(*stacks, strict=True) for line in parts))
    assert len(found) == 4 and {f.fields["site"] for f in found} == {"decode@/opt/job/data.py:31"}
    assert [f.at for f in found] == [44, 45, 46, 47]


@pytest.mark.parametrize("seed", range(30))
def test_woven_stacks_with_one_that_differs(seed: int) -> None:
    """The stray exception keeps its own site and call; the waiters keep theirs."""
    final = "RuntimeError: Timed out waiting 600000ms for recv operation to complete"
    stacks = [*(_stack(final, WAITER) for _ in range(3)), _stack("ValueError: bad shard", LOADER)]
    headers = [stack.pop(0) for stack in stacks]
    found = exceptions("\n".join([*headers, *_weave(stacks, seed)]))
    by_type = {str(f.fields["type"]): f for f in found}
    assert sorted(str(f.fields["type"]) for f in found) == ["RuntimeError"] * 3 + ["ValueError"]
    assert by_type["ValueError"].fields["site"] == "decode@/opt/job/data.py:31"
    assert "call" not in by_type["ValueError"].fields
    assert {f.fields.get("call") for f in found if f.fields["type"] == "RuntimeError"} == {"all_reduce"}


def test_torn_headers_and_final_lines() -> None:
    lines = (
        "Traceback (most recent call last):Traceback (most recent call last):\n"
        '  File "/opt/job/train.py", line 88, in <module>\n'
        '    main()  File "/opt/job/train.py", line 88, in <module>\n'
        "    main()\n"
        "ValueError: bad shardValueError: bad shard\n"
    )
    found = exceptions(lines)
    assert [f.fields["message"] for f in found] == ["bad shard", "bad shard"]


def test_ray_repetition_suffix() -> None:
    suffix = " [repeated 7x across cluster]"
    found = only("\n".join(line + suffix for line in PLAIN.strip("\n").split("\n")))
    assert found.fields["message"] == "list index out of range" and found.fields["site"] == "load@/opt/job/data.py:12"


# -- frames ------------------------------------------------------------------------------------------------------------


def _c10d(*functions: str) -> list[Frame]:
    return [
        Frame("step", "/opt/job/train.py", 9),
        *(Frame(f, f"{TORCH}/distributed/distributed_c10d.py", 3) for f in functions),
    ]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (_c10d("all_reduce"), "all_reduce"),
        (_c10d("all_gather_object", "all_gather"), "all_gather"),
        (_c10d("init_process_group", "_new_process_group_helper"), "init_process_group"),
        ([*_c10d("recv"), Frame("wrapper", f"{TORCH}/distributed/c10d_logger.py", 83)], "recv"),
        (
            [
                Frame("f", "/opt/job/train.py", 1),
                Frame("wait_tensor", f"{TORCH}/distributed/_functional_collectives.py", 147),
                Frame("__call__", f"{TORCH}/_ops.py", 1061),
            ],
            "wait_tensor",
        ),
        ([Frame("f", "/opt/job/train.py", 1), Frame("_alloc", f"{TORCH}/distributed/fsdp/_flat_param.py", 9)], None),
        ([*_c10d("broadcast"), Frame("load", "/opt/job/data.py", 4)], None),
        (
            [Frame("sync", f"{TORCH}/nn/parallel/distributed.py", 9, "dist._broadcast_coalesced(group, t)")],
            "broadcast_coalesced",
        ),
        ([Frame("f", "/opt/job/train.py", 1, "dist.broadcast(table[99])")], None),
    ],
)
def test_call(frames: list[Frame], expected: str | None) -> None:
    assert call(frames) == expected


def test_site_skips_libraries_but_not_a_job_that_is_a_package() -> None:
    package = Frame("step", "/opt/env/lib/python3.11/site-packages/megatron/core/step.py", 4)
    library = Frame("run", f"{TORCH}/nn/modules/module.py", 9)
    standard = Frame("wait", "/usr/lib/python3.10/threading.py", 320)
    own = Frame("main", "pretrain.py", 88)
    assert site([own, package, library, standard]) == own
    assert site([package, library, standard]) == package
    assert site([library, standard, Frame("f", "<string>", 1), Frame("m", "/opt/env/bin/torchrun", 8)]) is None


def test_a_script_in_a_bin_folder_is_the_jobs_own() -> None:
    assert site([Frame("main", "/opt/job/bin/train.py", 3)]) is not None


def test_waiting_for_the_device_is_told() -> None:
    frames = [Frame("main", "train.py", 3), Frame("synchronize", f"{TORCH}/cuda/__init__.py", 954)]
    assert describe(frames)["device_wait"] == "true"
    assert "device_wait" not in describe(frames[:1])


def test_launcher_is_told_from_a_rank() -> None:
    agent = [
        Frame("main", f"{TORCH}/distributed/run.py", 901),
        Frame("launch_agent", f"{TORCH}/distributed/launcher/api.py", 264),
    ]
    assert in_launcher(agent)
    recorded = [Frame("wrapper", f"{TORCH}/distributed/elastic/multiprocessing/errors/__init__.py", 367)]
    assert not in_launcher([*recorded, Frame("main", "/opt/job/train.py", 9)])
    assert not in_launcher([Frame("_wrap", f"{TORCH}/distributed/elastic/multiprocessing/api.py", 700)])
    command = "subprocess.CalledProcessError: Command '['/usr/bin/python3', '-u', 'train.py', '--local_rank=7']' died with <Signals.SIGABRT: 6>."
    compiler = "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1."
    head = 'Traceback (most recent call last):\n  File "/opt/job/x.py", line 1, in f\n    g()\n'
    assert only(head + command).fields["launcher"] == "true"
    assert "launcher" not in only(head + compiler).fields


# -- stack dumps -------------------------------------------------------------------------------------------------------


def test_stack_dump_takes_the_main_thread_and_turns_it_round() -> None:
    assert STACK_DUMP.block is not None
    (found,) = STACK_DUMP.block(
        "Thread 0x00007f0a (most recent call first):\n"
        '  File "/usr/lib/python3.10/threading.py", line 320 in wait\n'
        '  File "/usr/lib/python3.10/threading.py", line 973 in _bootstrap\n'
        "\n"
        "Thread 0x00007f0b [python3] (most recent call first):\n"
        f'  File "{TORCH}/distributed/distributed_c10d.py", line 2799 in recv\n'
        '  File "/opt/job/pipeline.py", line 69 in forward\n'
        '  File "/opt/job/train.py", line 88 in <module>\n'
        "[W501 07:40:18.1 x.cpp:1] something else".split("\n")
    )
    assert found.fields["call"] == "recv" and found.fields["site"] == "forward@/opt/job/pipeline.py:69"
    assert str(found.fields["frames"]).startswith("<module>@/opt/job/train.py:88;") and found.fields["threads"] == "2"
    assert found.last == 7


def test_py_spy() -> None:
    assert STACK_DUMP.block is not None
    text = (
        'Thread 4711 (idle): "MainThread"\n'
        "    wait (threading.py:320)\n"
        "    barrier (torch/distributed/distributed_c10d.py:4159)\n"
        "    train (train.py:88)\n"
        "    <module> (train.py:120)\n"
        'Thread 4730 (idle): "Thread-1"\n'
        "    wait (threading.py:324)"
    )
    (found,) = STACK_DUMP.block(text.split("\n"))
    assert found.fields["pid"] == "4711" and found.fields["site"] == "train@train.py:88" and found.last == 4
    assert list(STACK_DUMP.block(text.split("\n")[5:])) == []


def test_fatal_error_without_python_frames_uses_the_main_thread() -> None:
    assert FATAL.block is not None
    (found,) = FATAL.block(
        "Fatal Python error: Aborted\n\nThread 0x00007f0b (most recent call first):\n"
        f'  File "{TORCH}/distributed/distributed_c10d.py", line 2799 in all_reduce\n'
        '  File "/opt/job/train.py", line 88 in <module>\n\n'
        "Current thread 0x00007f0c (most recent call first):\n"
        "<no Python frame>\n\nExtension modules: numpy.core (total: 1)\nAborted".split("\n")
    )
    assert (found.fields["what"], found.fields["thread"], found.fields["call"]) == ("Aborted", "main", "all_reduce")
    assert found.last == 9


def test_error_file_with_a_chain_and_a_torn_one() -> None:
    (pattern,) = ERROR_FILE.patterns
    assert pattern.block is not None
    assert list(pattern.block([pattern.sample[: len(pattern.sample) // 2]])) == []
    (found,) = pattern.block([pattern.sample])
    assert found.fields["timestamp"] == 1714549218 * 10**9 and found.fields["site"] == "main@/opt/job/train.py:88"
