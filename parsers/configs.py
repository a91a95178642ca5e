"""Configuration dumps of programs other than Megatron-LM, as one ``config.dump`` each.

NeMo 1 (Hydra YAML below ``Experiment configuration``), torchtitan (JSON behind ``Running with args`` or ``configs``),
DeepSpeed (dotted columns below ``DeepSpeedEngine configuration``), Hugging Face (``TrainingArguments(`` … ``)``),
Composer (keys of the run below ``Config:``), MaxText (``Config param name: value``). Settings are attributes by their
own name, a name that occurs twice by its path; sizes of torchtitan also under Megatron's names. ``source`` is the
program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from correlator.events import Found, Parser, Pattern
from correlator.untrusted import read_json, read_literal
from parsers._dumps import as_fields, read_dotted, read_yaml

#: torchtitan's names, under the names of Megatron's dump.
_SAME = {
    "tensor_parallel_degree": "tensor_parallel_size",
    "pipeline_parallel_degree": "pipeline_parallel_size",
    "context_parallel_degree": "context_parallel_size",
    "expert_parallel_degree": "expert_model_parallel_size",
}
_KEYWORD = re.compile(r"^\s*(?P<name>\w+)=(?P<value>.*?),?\s*$")
_PARAM = re.compile(r"^\s*Config param (?P<name>\w+): (?P<value>.*)$")


def _found(source: str, settings: dict[str, str], first: str, last: int) -> list[Found]:
    if len(settings) < 2:
        return []
    settings |= {_SAME[name]: value for name, value in settings.items() if name in _SAME}
    return [Found(0, last, {**as_fields(settings), "source": source}, body=first.strip(" *"))]


def _nemo(lines: Sequence[str]) -> list[Found]:
    settings, last = read_yaml(lines, stop=("Traceback (most recent",))
    return _found("NeMo", settings, lines[0], last)


def _deepspeed(lines: Sequence[str]) -> list[Found]:
    settings, last = read_dotted(lines, "")
    return _found("DeepSpeed", settings, lines[0], last)


def _composer(lines: Sequence[str]) -> list[Found]:
    settings, last = read_yaml(("", *lines), stop=("------",))
    if all(settings.get(name, "").isdecimal() for name in ("num_nodes", "num_gpus_per_node")):
        settings["world_size"] = str(int(settings["num_nodes"]) * int(settings["num_gpus_per_node"]))
    return _found("Composer", settings, lines[0], max(last - 1, 0))


def _maxtext(lines: Sequence[str]) -> list[Found]:
    settings: dict[str, str] = {}
    for line in lines:
        match = _PARAM.match(line)
        if match is None:
            break
        settings[match["name"]] = match["value"]
    return _found("MaxText", settings, lines[0], max(len(settings) - 1, 0))


def _hugging_face(lines: Sequence[str]) -> list[Found]:
    settings: dict[str, str] = {}
    last = 0
    for index, line in enumerate(lines[1:], 1):
        if line.strip() == ")":
            last = index
            break
        if match := _KEYWORD.match(line):
            settings[match["name"]] = match["value"].strip("'")
            last = index
        elif index - last > 3:
            break
    return _found("Hugging Face", settings, lines[0], last)


def _flat(tree: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        elif not isinstance(value, list | tuple):
            yield name, str(value)


def _titan(lines: Sequence[str]) -> list[Found]:
    """JSON over several lines (newer) or a Python dict on one (older)."""
    start = lines[0].find("{")
    if start < 0:
        return []
    text = lines[0][start:]
    last = 0
    while text.count("{") > text.count("}") and last + 1 < len(lines):
        last += 1
        text += "\n" + lines[last]
    tree = read_literal(text) if "'" in text and '"' not in text else read_json(text)
    if tree is None:
        return []
    settings: dict[str, str] = {}
    for name, value in _flat(tree if isinstance(tree, dict) else {}):
        settings.setdefault(name, value)
    return _found("torchtitan", settings, lines[0][:start], last)


PARSER = Parser(
    name="configs",
    patterns=(
        Pattern(
            event="config.dump",
            literals=("* Experiment configuration *",),
            block=_nemo,
            block_lines=600,
            severity="info",
            sample="    ************** Experiment configuration ***********\n    name: megatron_gpt\n    trainer:\n "
            "     devices: 8\n"
            "      num_nodes: 2\n    model:\n      tensor_model_parallel_size: 4\n      "
            "pipeline_model_parallel_size: 2",
        ),
        Pattern(
            event="config.dump",
            literals=("Running with args: {", "Running with configs: {"),
            block=_titan,
            block_lines=600,
            severity="info",
            sample='Running with configs: {\n  "training": {\n    "steps": 1200\n  },\n  "parallelism": {\n'
            '    "tensor_parallel_degree": 4,\n    "pipeline_parallel_degree": 2\n  }\n}',
        ),
        Pattern(
            event="config.dump",
            literals=("DeepSpeedEngine configuration:",),
            block=_deepspeed,
            block_lines=300,
            severity="info",
            sample="DeepSpeedEngine configuration:\n  bfloat16_enabled ............. True\n  train_batch_size "
            "............. 1024\n"
            "  world_size ................... 64",
        ),
        Pattern(
            event="config.dump",
            literals=("TrainingArguments(",),
            block=_hugging_face,
            block_lines=300,
            severity="info",
            sample="Training/evaluation parameters "
            "TrainingArguments(\n_n_gpu=1,\nddp_timeout=1800,\nsave_steps=500,\n)",
            not_samples=("    args = TrainingArguments(output_dir='/mnt/out')",),
        ),
        Pattern(
            event="config.dump",
            literals=("composer_commit_hash: ",),
            block=_composer,
            block_lines=40,
            severity="info",
            sample="composer_commit_hash: None\ncomposer_version: 0.14.1\nnum_gpus_per_node: 8\nnum_nodes: 2\n"
            "------------------------------",
        ),
        Pattern(
            event="config.dump",
            literals=("Config param ",),
            block=_maxtext,
            block_lines=1200,
            severity="info",
            sample="Config param ici_tensor_parallelism: 4\nConfig param per_device_batch_size: 2.0\nConfig param "
            "steps: 1200",
        ),
    ),
)
