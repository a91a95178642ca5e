"""DeepSpeed: ``global_stepN/*_model_states.pt`` and ``*_optim_states.pt``, beside them the mark ``latest``.

With the default engine rank 0 writes ``latest`` before the barrier, so the mark may point to a step that another rank
never finished. Every (dp, mp) pair of the optimizer files must exist; the model states say how many there are.
Source: deepspeedai/DeepSpeed ``deepspeed/runtime/engine.py``, ``deepspeed/utils/zero_to_fp32.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from correlator.checkpoints.disk import Folder
from correlator.checkpoints.model import Findings, Layout, Reading, Rescale
from correlator.checkpoints.torch_file import attributes, inspect_all, whole

_TAG = re.compile(r"global_step(\d{1,12})")
MODEL = re.compile(r"(?:zero_pp_rank_(\d{1,5})_)?mp_rank_(\d{2,5})_model_states\.pt")
_OPTIMIZER = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d{1,5})_mp_rank_(\d{2,5})_optim_states\.pt")
_EXPERT = re.compile(r"layer_(-?\d{1,5})_expert_(\d{1,5})_mp_rank_(\d{2,5})_model_states\.pt")
_EXPERT_OPTIMIZER = re.compile(r"expp_rank_(\d{1,5})_mp_rank_(\d{2,5})_optim_states\.pt")


class _Stored(NamedTuple):
    """What a file of model states says about the run: sizes, ZeRO's stage and the step, each None where it does not."""

    described: bool
    step: int | None
    dp: int | None
    mp: int | None
    tp: int | None
    pp: int | None
    stage: int | None

    @classmethod
    def of(cls, tree: Any) -> _Stored:
        """From the tree of a file, or of any other."""
        stored = attributes(tree)
        degrees = attributes(stored.get("checkpoint_parallel_dimensions"))
        zero = attributes(attributes(stored.get("ds_config")).get("zero_optimization"))
        return cls(
            "dp_world_size" in stored,
            whole(stored.get("global_steps")),
            _size(stored.get("dp_world_size")),
            _size(stored.get("mp_world_size")),
            whole(degrees.get("tp_degree")),
            whole(degrees.get("pp_degree")),
            whole(zero.get("stage")),
        )


def parse_tag(text: str) -> str | None:
    """The tag that the mark holds; None for anything else."""
    tag = text.strip()
    return tag if re.fullmatch(r"[^/\s]{1,200}", tag) else None


def recognises(folder: Folder) -> bool:
    """Whether the directory is one DeepSpeed step, finished or not."""
    if any(MODEL.fullmatch(name) or _OPTIMIZER.fullmatch(name) for name in folder.files):
        return True
    return bool(_TAG.fullmatch(folder.name)) and not any(name.startswith("mp_rank_") for name in folder.folders)


def read(folder: Folder, reading: Reading) -> Findings:
    """Check one step."""
    findings = Findings()
    tag = _TAG.fullmatch(folder.name)
    findings.iteration = int(tag[1]) if tag else None
    states = [file for name, file in folder.files.items() if name.endswith("_states.pt")]
    if not states:
        findings.fault("no state files: the save died before its first write")
        return findings
    findings.parts = frozenset(file.name for file in states)
    saved = inspect_all([(file.name, file) for file in states], findings, reading, _Stored.of)
    models = (one for file, one in zip(states, saved, strict=True) if MODEL.fullmatch(file.name))
    stored = next(models, _Stored.of(None))
    _check_grids(list(folder.files), stored, findings)
    findings.described = stored.described
    step = stored.step
    if findings.iteration is None:
        findings.iteration = step
    elif step is not None and step != findings.iteration:
        findings.note(f"saved at step {step}, the directory says {findings.iteration}")
    return findings


def _check_grids(names: list[str], stored: _Stored, findings: Findings) -> None:
    model, optimizer = _indices(MODEL, names), _indices(_OPTIMIZER, names)
    dp, mp = stored.dp, stored.mp
    findings.sizes(dp=dp, tp=stored.tp, pp=stored.pp)
    if dp and mp:
        findings.sizes(world=dp * mp)
    if not model:
        findings.fault("no model states")
    partitioned = any(MODEL.fullmatch(name) and name.startswith("zero_") for name in names)
    _check_grid("model state", model, (dp if partitioned else 1, mp), findings)
    if dp and mp and len(optimizer) > dp * mp:
        findings.note(f"{len(optimizer)} optimizer state files where {dp * mp} were saved: left from another save")
    if stored.stage and not optimizer:
        findings.fault(f"no optimizer states, although ZeRO stage {stored.stage} writes them")
    _check_grid("optimizer state", optimizer, (dp, mp), findings)
    _check_grid("expert state", _indices(_EXPERT, names), (None, None, mp), findings)
    _check_grid("expert optimizer state", _indices(_EXPERT_OPTIMIZER, names), (None, mp), findings)


def _size(value: Any) -> int | None:
    number = whole(value)
    return number if number is not None and 0 < number <= 100_000 else None


def _indices(pattern: re.Pattern[str], names: Iterable[str]) -> set[tuple[int, ...]]:
    return {tuple(int(part or 0) for part in match.groups()) for match in map(pattern.fullmatch, names) if match}


def _check_grid(what: str, present: set[tuple[int, ...]], sizes: tuple[int | None, ...], findings: Findings) -> None:
    """Indices count from 0 without gaps, up to the size where it is known, and all their combinations occur."""
    if not present:
        return
    total = 1
    for axis, size in enumerate(sizes):
        values = {index[axis] for index in present}
        total *= max(size or 0, len(values | set(range(max(values) + 1))))
    if len(present) < total:
        findings.fault(f"{total - len(present)} of {total} {what} files are missing")


LAYOUT = Layout(
    name="deepspeed",
    order=30,
    recognises=recognises,
    read=read,
    trackers={"latest": parse_tag},
    rescale=Rescale(
        fixed=("tp", "pp", "dp", "world"),
        convert="ds_to_universal.py --input_folder STEP --output_folder STEP_universal, then resume with "
        '"load_universal": true in the "checkpoint" part of the configuration',
    ),
    hint="model_engine.load_checkpoint({parent!r}, tag={name!r}), or write {name} into {parent}/latest; "
    "ZeRO needs the same data-parallel size, other sizes need ds_to_universal.py first",
)
