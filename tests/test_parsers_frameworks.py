"""The framework parsers: the spots where one regular expression is not enough."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from parsing import find

from correlator.events import Parser
from parsers import (
    accelerate,
    checkpoints,
    composer,
    configs,
    deepspeed,
    horovod,
    jax,
    lightning,
    megatron,
    numerics,
    nvrx,
    ray_serving,
    trainers,
)
from parsers._dumps import PATIENCE, read_dotted, read_yaml

PARSERS: dict[str, Parser] = {
    module.PARSER.name: module.PARSER
    for module in (
        accelerate, checkpoints, composer, configs, deepspeed, horovod, jax, lightning, megatron, numerics, nvrx, ray_serving, trainers
    )
}  # fmt: skip


def event_of(parser: Parser, text: str) -> str | None:
    found = find(parser, text)
    return found[0][0] if found else None


def test_a_kernel_line_is_none_of_theirs() -> None:
    foreign = "May  1 07:40:18 node012 kernel: NVRM: Xid (PCI:0000:2c:00): 79, pid=4711, GPU has fallen off the bus."
    assert [event_of(parser, foreign) for parser in PARSERS.values()] == [None] * len(PARSERS)


# --- argument dumps --------------------------------------------------------------------------------------------------


def _dump(*lines: str) -> dict[str, str]:
    head = "------------------------ arguments ------------------------"
    return read_dotted(
        [head, *lines, "-------------------- end of arguments ---------------------"], "end of arguments"
    )[0]


def _setting(name: str, value: object, width: int = 48) -> str:
    return f"  {name} {'.' * (width - len(name))} {value}"


def test_lines_of_other_ranks_inside_a_dump_are_stepped_over() -> None:
    assert _dump(
        _setting("num_layers", 48),
        "[rank3] warming up the cache",
        "",
        "loss ........ 1.0",
        _setting("seq_length", 4096),
    ) == {"num_layers": "48", "seq_length": "4096"}


def test_a_foreign_line_in_front_of_a_setting_does_not_hide_it() -> None:
    assert _dump("UserWarning: slow path" + _setting("num_layers", 48)) == {"num_layers": "48"}


@pytest.mark.parametrize(
    "foreign", ["> setting random seeds to 1234 ...", " > building model", "[rank3] ready", "WARNING: x"]
)
def test_a_foreign_line_glued_to_a_number_is_cut_off(foreign: str) -> None:
    assert _dump(_setting("tensor_model_parallel_size", f"4{foreign}")) == {"tensor_model_parallel_size": "4"}


@pytest.mark.parametrize(
    "value", ["99,1,0", "1e-08", "[1, 2, 3]", "10.0.0.17", "GPT2BPETokenizer", "torch.bfloat16", "8x22B"]
)
def test_whole_values_stay_whole(value: str) -> None:
    assert _dump(_setting("anything", value)) == {"anything": value}


def test_a_line_torn_inside_its_dots_is_joined() -> None:
    whole = _setting("num_layers", 48)
    assert _dump(whole[:30], "another rank speaks", whole[30:]) == {"num_layers": "48"}


def test_names_longer_than_the_column_have_no_dots() -> None:
    name = "a_very_long_name_that_fills_more_than_the_whole_column"
    assert _dump(f"  {name}  True") == {name: "True"}


def test_older_columns_and_the_origin_that_neox_prints() -> None:
    assert _dump(
        _setting("batch_size", "4...........................updated", 32), _setting("lr", "0.1.......default", 32)
    ) == {"batch_size": "4", "lr": "0.1"}


def test_a_dump_without_end_is_given_up() -> None:
    lines = ["-- arguments --", _setting("num_layers", 48), *["noise"] * (2 * PATIENCE), _setting("late", 1)]
    assert read_dotted(lines, "end of arguments") == ({"num_layers": "48"}, 1)


def test_a_setting_named_as_a_column_does_not_become_one() -> None:
    body = "\n".join([_setting("rank", 0), _setting("step", "none"), _setting("task", "RACE"), _setting("lr", 0.1)])
    ((_, fields),) = find(megatron.PARSER, f"---- arguments ----\n{body}\n---- end of arguments ----")
    assert fields == {"rank": "0", "arg_step": "none", "arg_task": "RACE", "lr": "0.1"}


def test_yaml_keeps_the_first_of_equal_names_and_gives_the_others_their_path() -> None:
    lines = [
        "",
        "name: gpt",
        "model:",
        "  optim:",
        "    name: adam",
        "  seq_length: 4096",
        "  layers:",
        "  - 1",
        "end of it",
    ]
    assert read_yaml(lines)[0] == {"name": "gpt", "model.optim.name": "adam", "seq_length": "4096"}


def test_torn_configuration_of_titan_is_no_event() -> None:
    assert find(configs.PARSER, 'Running with configs: {\n  "training": {\n    "steps": 12') == []


# --- iterations ------------------------------------------------------------------------------------------------------

_ITERATION = "iteration       12/     100 | consumed samples:           48 | elapsed time per iteration (ms): 170.8 | "


@pytest.mark.parametrize("head", ["", " ", " [2024-05-01 07:40:18] ", "[2024-05-01 07:40:18.123456] "])
def test_iteration_with_and_without_its_time(head: str) -> None:
    ((event, fields),) = find(megatron.PARSER, f"{head}{_ITERATION}lm loss: 2.3E+00 | loss scale: 1.0 |")
    assert (event, fields["step"], fields["elapsed_ms"], fields["loss"]) == (
        "megatron.iteration",
        "12",
        "170",
        "2.3E+00",
    )


def test_iteration_of_version_one_and_of_forks() -> None:
    ((_, first),) = find(
        megatron.PARSER,
        " iteration       12/     100 | elapsed time per iteration (ms): 170.8 | learning rate: 1.5E-04 |",
    )
    ((_, fork),) = find(
        megatron.PARSER,
        " iteration       12/     100 | consumed samples:           48 | elapsed time per iteration (s): 66.59 | lm loss: 2.3E+00 |",
    )
    assert first["step"] == "12" and "elapsed_ms" not in fork and fork["elapsed_s"] == "66.59"


def test_the_plain_forms_leave_megatrons_line_alone() -> None:
    assert find(trainers.PARSER, _ITERATION) == []


@pytest.mark.parametrize("count", [1, 9, 10, 250])
def test_any_count_of_nan_iterations_is_a_warning_that_is_kept(count: int) -> None:
    line = f"{_ITERATION}number of skipped iterations:   0 | number of nan iterations: {count:3d} |"
    taken = next(p for p in megatron.PARSER.patterns if any(x in line for x in p.literals) and re.search(p.regex, line))
    assert (taken.event, taken.severity, taken.sparse) == ("megatron.iteration", "warning", False)


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "Waiting until training is done.",
        "If training is complete, delete the scratch files",
        "training done: False",
        "Training epoch complete",
        "Finished training epoch 3, starting epoch 4",
        "`Trainer.fit` stopped: No training batches.",
        "Epoch complete",
        "  exit_signal_handler ............................. False",
        "  kill_switch_path ................................ None",
        "[rank: 1] Received SIGTERM: 15",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15",
        "Received 15 death signal, shutting down workers",
        "Received SIGTERM",
    ],
)
def test_what_is_no_clean_end(line: str) -> None:
    ends = ("trainer.completed", "trainer.stopped", "megatron.exit")
    assert not {event_of(parser, line) for parser in PARSERS.values()} & set(ends)


@pytest.mark.parametrize(
    "line", ["Training completed", "training finished successfully", "Finished Training", "done training in 3 s"]
)
def test_private_loops_that_say_they_are_done(line: str) -> None:
    assert event_of(trainers.PARSER, line) == "trainer.completed"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Detected kill switch at /mnt/stop. Exiting", "kill switch"),
        ("Received SIGUSR1, checkpointing and requeueing", "SIGUSR1"),
        ("Caught signal 15: saving a last checkpoint", "15"),
        ("Requeued SLURM job: 123_4", "requeue"),
    ],
)
def test_operator_made_stops(line: str, reason: str) -> None:
    ((event, fields),) = find(trainers.PARSER, line)
    assert (event, fields["reason"]) == ("trainer.stopped", reason)


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "event", "step", "path"),
    [
        (
            "Saving model checkpoint to /mnt/step3-model/checkpoint-1200",
            "save_started",
            "1200",
            "/mnt/step3-model/checkpoint-1200",
        ),
        ("Saving model checkpoint to /mnt/out", "save_started", None, "/mnt/out"),
        ("Saving current state to runs/last.", "save_started", None, "runs/last"),
        ("Loading the checkpoint from outputs/step-1200.", "load_started", "1200", "outputs/step-1200"),
        ("Saving checkpoint at /mnt/run/checkpoints/1200", "save_started", "1200", "/mnt/run/checkpoints/1200"),
        ("Saved checkpoint at step 1200", "save_finished", "1200", None),
        ("INFO: Saved the model checkpoint to runs/last.pt (step 1200)", "save_finished", "1200", "runs/last.pt"),
        ("  successfully saved checkpoint at iteration    1200 to /mnt/ckpt", "save_finished", "1200", "/mnt/ckpt"),
    ],
)
def test_step_and_path(line: str, event: str, step: str | None, path: str | None) -> None:
    ((found, fields),) = find(checkpoints.PARSER, line)
    assert (found, fields.get("step"), fields.get("path")) == (f"checkpoint.{event}", step, path)


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards: 100%|##########| 15/15 [07:28<00:00, 29.9s/it]",
        "loading weights file /mnt/model/model.safetensors.index.json",
        "activation checkpointing saves memory",
        "No checkpoint was saved to /mnt/out",
        "  save ............................................ /mnt/ckpt",
        "saved 12 images",
    ],
)
def test_what_is_no_checkpoint(line: str) -> None:
    assert find(checkpoints.PARSER, line) == []


# --- blocks ----------------------------------------------------------------------------------------------------------


def _one(parser: Parser, lines: Sequence[str]) -> dict[str, object]:
    ((_, fields),) = find(parser, "\n".join(lines))
    return fields


def test_horovod_names_the_missing_ranks_in_both_forms() -> None:
    head = "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    new = _one(
        horovod.PARSER,
        [f"{head}remainder of ranks for more than 60 seconds.", "Missing ranks:", "3: [a, b ...]", "5: [a]"],
    )
    old = _one(
        horovod.PARSER,
        [f"{head}remainder of ranks for more than 60 seconds.", "Stalled ops:", "grad_0 [missing ranks: 1, 2]"],
    )
    assert (new["missing_ranks"], new["timeout_ms"], old["missing_ranks"]) == ("3,5", 60000, "1,2")


def test_jax_lists_end_where_another_line_begins() -> None:
    fields = _one(
        jax.PARSER,
        [
            "The following tasks are unhealthy (stopped sending heartbeats):",
            "/job:jax_worker/replica:0/task:5",
            "The tasks have crashed.",
            "/job:jax_worker/replica:0/task:6",
        ],
    )
    assert fields["tasks"] == "5"


def test_accelerate_marks_the_odd_one() -> None:
    fields = _one(
        accelerate.PARSER,
        [
            "Cannot apply desired operation due to shape mismatches. All shapes across devices must be valid.",
            "",
            "Operation: `accelerate.utils.operations.reduce`",
            "Input shapes:",
            *(f"  - Process {rank}: [{8 if rank == 2 else 4}]" for rank in range(4)),
            "Traceback follows",
        ],
    )
    assert (fields["odd_ranks"], fields["operation"]) == ("2", "accelerate.utils.operations.reduce")


def test_ray_actor_error_keeps_pid_and_address_of_the_dead_process() -> None:
    fields = _one(
        ray_serving.PARSER,
        [
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
            "\tclass_name: Trainer",
            "\tpid: 4711",
            "\tip: 10.0.0.18",
            "next line of the driver, pid: 1",
        ],
    )
    assert (fields["pid"], fields["peer"]) == ("4711", "10.0.0.18")


def test_the_return_code_of_deepspeed_says_nothing_about_the_rank_that_failed() -> None:
    """The command printed is that of the child spawned last."""
    fields = _one(deepspeed.PARSER, ["['python3', '-u', 'train.py', '--local_rank=7'] exits with return code = -9"])
    assert fields == {"exit_code": "-9", "last_local_rank": "7"}


def test_the_rank_of_a_monitor_is_read_where_its_head_was_not_peeled() -> None:
    line = "[workload:9(1) infra:1(0)] rank_monitor_server.py:497 [Cycle 2] Did not get initial heartbeat. Waited 600.00 seconds."
    fields = _one(nvrx.PARSER, [line])
    assert (fields["rank"], fields["local_rank"], fields["attempt"], fields["which"]) == ("9", "1", "2", "initial")


def test_sigterm_codes_of_composers_launcher_are_teardown() -> None:
    killed = _one(composer.PARSER, ["Global rank 1 (PID 4711) exited with code -15"])
    assert killed["teardown"] == "true" and "teardown" not in _one(
        composer.PARSER, ["Rank 2 crashed with exit code -7."]
    )


def test_lightning_counts_members_from_one() -> None:
    fields = _one(lightning.PARSER, ["Initializing distributed: GLOBAL_RANK: 9, MEMBER: 10/64"])
    assert (fields["rank"], fields["member"], fields["total"]) == ("9", "10", "64")
