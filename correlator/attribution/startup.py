"""Did the job get so far as to save anything? Only what the logs show counts, not what they lack."""

from __future__ import annotations

import re

from correlator.cascade.model import Facts, Finding
from correlator.records import Row

#: A log whose first step line is at most this one begins at the start of the run.
_FIRST_STEPS = 10
#: Emitters of frameworks that print a line for every save.
_ANNOUNCES = frozenset({"megatron", "deepspeed"})
#: The same, by the packages that stand in tracebacks.
_ANNOUNCING_CODE = re.compile(r"/(?:olmo|olmo_core|megatron|deepspeed)/")
#: Lightning, by its package in tracebacks: it saves without a line.
_LIGHTNING = re.compile(r"/(?:lightning|pytorch_lightning|lightning_fabric)/")
#: A collective with at most this number is one of those with which a set-up begins.
_FIRST_COLLECTIVES = 1
#: The group of all ranks, which is the first one made; old versions print no number.
_DEFAULT_GROUP = (None, "", "0")
#: More collectives than a set-up takes mean that training went on, whether or not its step lines were kept.
_SETUP_COLLECTIVES = 50
#: Events that only a running training gives.
_TRAINING = frozenset(
    {"deepspeed.overflow", "deepspeed.loss_scale_min", "megatron.nan", "trainer.nan", "megatron.exit"}
)
#: Areas of failures that come before the first step.
_START_AREAS = frozenset({"rendezvous", "scheduler", "version", "topology"})
#: Events of a start that did not succeed, and of the work before the first step.
_START_EVENTS = frozenset(
    {
        "c10d.store_timeout",
        "c10d.barrier_missing",
        "c10d.clients_missing",
        "c10d.unique_id_failed",
        "trainer.activity",
        "megatron.from_scratch",
    }
)
#: Calls that set a job up, as they stand among the frames of a traceback.
_START_CALLS = re.compile(
    r"(?:^|;)(?:init_process_group|initialize_\w+|_?initialize|from_pretrained|load_dataset|parse_args|validate_args|"
    r"setup\w*|build_\w+|read_\w*config|\w*init|_find_and_load|load_checkpoint|"
    r"load_state_dict|_create_tcp_store|_create_c10d_store|_verify_param_shape_across_processes)@|^<module>@[^;]*;(?:main@[^;]*;)?__init__@"
)
#: A container that a scheduler could not start.
_NO_CONTAINER = re.compile(r"start container|task_init\(\) failed|import docker image")


def why_nothing_saved(facts: Facts, chosen: Finding | None) -> str:
    """Why the logs show that there is no checkpoint, or nothing. That no step line is in them shows nothing."""
    if any(r.event.startswith("checkpoint.save") for r in facts.rows):
        return ""
    if facts.progress:
        steps = [r.step for r in facts.progress if r.step is not None]
        if steps and max(steps) <= 1:
            return "it failed in its first steps, and the logs mention no save"
        if steps and min(steps) <= _FIRST_STEPS and any(_announces_saves(r) for r in facts.rows):
            return "the logs hold the run from its first steps on, and its framework announces saves: none is in them"
        if _in_first_epoch(facts):
            return "it failed in its first epoch, and Lightning saves at the end of one unless told otherwise"
        return ""
    if any((r.seq or 0) > _SETUP_COLLECTIVES or r.event in _TRAINING for r in facts.rows):
        return ""
    if any(r.emitter in ("vllm", "sglang") for r in facts.rows):
        return "it is an inference server, which saves no training state"
    shown = any(_at_the_start(r) for r in facts.rows) or _communicators_not_up(facts) or _first_collectives(facts)
    if (shown and facts.incidents) or (chosen is not None and (shown or _of_the_start(chosen))):
        return "it failed during start-up, before its first training step, so there was nothing to save"
    return ""


def _in_first_epoch(facts: Facts) -> bool:
    """Whether Lightning's bar never left epoch 0 (it counts from 0), in a run that loaded nothing."""
    if facts.events("checkpoint.loaded", "checkpoint.load_started") or not any(_of_lightning(r) for r in facts.rows):
        return False
    bars = [r for r in facts.progress if r.attr("epoch")]
    return bool(bars) and all(r.attr("epoch") == "0" and r.attr("total") != str(r.step) for r in bars)


def _of_lightning(row: Row) -> bool:
    return row.emitter == "lightning" or bool(_LIGHTNING.search(row.attr("frames")))


def _of_the_start(chosen: Finding) -> bool:
    return chosen.class_ == "configuration" or chosen.subclass in _START_AREAS


def _at_the_start(row: Row) -> bool:
    if row.event == "slurm.error":
        return bool(_NO_CONTAINER.search(row.body))
    return row.event in _START_EVENTS or bool(_START_CALLS.search(row.attr("frames")))


def _communicators_not_up(facts: Facts) -> bool:
    """Whether ranks began to set up communicators and none was finished."""
    phases = {r.attr("phase") for r in facts.events("nccl.init")}
    return "START" in phases and "COMPLETE" not in phases


def _first_collectives(facts: Facts) -> bool:
    """Whether ranks gave up in the first collective of the default group, and no rank went further."""
    waits = facts.judged("c10d.watchdog_timeout")
    numbers = [r.seq for r in facts.rows if r.seq is not None]
    in_default = all(r.process_group in _DEFAULT_GROUP for r in waits)
    return bool(waits) and in_default and max(numbers, default=0) <= _FIRST_COLLECTIVES


def _announces_saves(row: Row) -> bool:
    return row.emitter in _ANNOUNCES or bool(_ANNOUNCING_CODE.search(row.attr("frames")))
