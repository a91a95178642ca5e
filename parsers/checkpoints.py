"""What programs print about checkpoints: begun, done, scheduled, loaded, deleted, failed; with step and path.

The known frameworks come first (``_checkpoints_megatron``, ``_checkpoints_trainers``; versions there), then the forms
that private training loops share. Attribute ``format`` names the framework, ``other`` for those. Frameworks that print
no completion line give only ``save_started``, with ``completion`` = ``none`` (Hugging Face, Lightning, nanotron; the
newest DeepSpeed too, whose older versions print one). ``file_saved`` is one file of one rank, not a checkpoint;
``listed`` is one file of a directory listing (``ls -l``, ``find -ls``, ``du -a``) with its ``size``, in bytes or with
the unit letter of ``-h``; ``unit`` is that of du's bare numbers. ``scope`` = ``rank`` or ``node`` marks a line that
speaks for that much only. ``path`` is what the line names: Megatron prints the folder of all checkpoints, most others
the checkpoint itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import BlockParser, Found, Parser, Pattern, Severity
from parsers._checkpoints_megatron import DEEPSPEED, MEGATRON
from parsers._checkpoints_trainers import COMPOSER, HUGGING_FACE, LIGHTNING, OLMO, ORBAX, OTHERS, TITAN

#: What private loops call it, with the words they put in between: "the model checkpoint", "final ckpt".
_NOUN = (
    r"(?:"
    r"(?:a|the|new|full|last|final|best|latest|model|training|ephemeral|sharded|unsharded|async|optimizer|and|to|from|"
    r"at|in|local|global|persistent|non-persistent|distributed|previous) ){0,6}(?:checkpoint|ckpt|snapshot)s?\b"
)
_STEP = re.compile(r"(?:step|iter|iteration)s?[ =:#_-]*(\d+)|@ (\d+) updates|\bfor (\d+) into", re.IGNORECASE)
_PATH = re.compile(
    r"['\"]?((?:[a-z0-9]+://|[\w.@=+~-]*/)[^\s'\",;)]*[\w=*-]|[\w.=@+-]+\.(?:pt|pth|ckpt|bin|safetensors)\b)"
)
_WORD = re.compile(r"['\"]?([^\s'\",;)]+)")
#: Bars and the loading of a base model's weight files are not checkpoints of this job.
_FOREIGN = re.compile(r"%\||checkpoint shards|\bno checkpoint|\bnot ", re.IGNORECASE)


def _private(form: str) -> BlockParser:
    """Reads one line that fits ``form``; step and path are taken from whatever stands behind the words."""
    wanted = re.compile(form, re.IGNORECASE)

    def block(lines: Sequence[str]) -> list[Found]:
        text = lines[0]
        match = wanted.search(text)
        if match is None or _FOREIGN.search(text):
            return []
        fields: dict[str, object] = {"format": "other"}
        rest = text[match.end() :] if match.lastgroup is None else text[match.start(match.lastgroup) :]
        if path := (match.lastgroup and _WORD.match(rest)) or _PATH.search(rest):
            fields["path"] = path[1]
        if steps := [step for groups in _STEP.findall(rest) for step in groups if step]:
            fields["step"] = steps[-1]
        return [Found(0, 0, fields)]

    return block


def _other(
    event: str, literals: tuple[str, ...], form: str, sample: str, *refused: str, severity: Severity = "info"
) -> Pattern:
    return Pattern(
        event=f"checkpoint.{event}",
        literals=literals,
        block=_private(form),
        block_lines=0,
        severity=severity,
        sample=sample,
        not_samples=refused,
    )


_PRIVATE = (
    _other(
        "save_failed",
        ("ailed to save", "ailed saving", "heckpoint save failed"),
        rf"failed (?:to save|saving) {_NOUN}|{_NOUN} save failed",
        "Failed to save checkpoint at step 1200: No space left on device",
        severity="error",
    ),
    _other(
        "load_failed",
        ("ailed to load", "annot load", "ould not load"),
        rf"(?:failed to|cannot|could not) load (?:\w+ )?{_NOUN}",
        "Failed to load checkpoint /mnt/out/last.pt",
        severity="error",
    ),
    _other(
        "save_finished",
        ("aved ", "rote ", "inished saving ", "one saving "),
        rf"\b(?:saved|wrote|finished saving|done saving) {_NOUN}",
        "Saved checkpoint to /mnt/out/step_1200.pt",
        "No checkpoint was saved to /mnt/out",
    ),
    _other(
        "save_finished",
        ("heckpoint saved", "heckpoint is saved", "heckpoint was saved", "heckpoint written", "kpt saved"),
        r"\b(?:checkpoint|ckpt) (?:is |was )?(?:saved|written)\b",
        "checkpoint saved at step 1200",
    ),
    _other(
        "save_finished",
        (" committed", " saved", " written"),
        r"\b(?:checkpoint|ckpt) (?P<path>[^\s:;,]*\d[^\s:;,]*) (?:is |was )?(?:committed|saved|written)\b",
        "checkpoint step_001200 committed (8/8 shards)",
        "checkpoint step_001200 will be committed later",
    ),
    _other(
        "load_started",
        ("ound checkpoint ", "ound ckpt "),
        r"\bfound (?:checkpoint|ckpt) (?P<path>[^\s:;,]*\d[^\s:;,]*), (?:resuming|loading)\b",
        "found checkpoint step_001200, resuming",
        "found checkpoint step_001200, not resuming",
    ),
    _other(
        "save_finished",
        ("aved ",),
        r"(?:^\s*|[*] |[\])>:|-] )saved (?:(?:model|state|to|at|in|as) "
        r")*(?P<path>['\"]?[^\s'\"]*(?:(?:checkpoint|ckpt|step|iter)"
        r"[-_=]?\d|\d[^\s'\"/]*\.(?:pt|pth|ckpt)\b))",
        "saved /vol/run/iter_0001200 (8 shards, fsync ok)",
        "saved 12 images",
        "Saved job configs to /mnt/out/config.json",
    ),
    _other(
        "save_started",
        ("aving ", "Preparing to save "),
        rf"\b(?:saving|preparing to save) {_NOUN}",
        "Saving checkpoint (step 1200) to /mnt/out/last.pt",
        "Saving images to /mnt/out/images",
        "Not saving checkpoint at step 1200",
    ),
    _other(
        "loaded",
        ("esumed ", "oaded "),
        rf"\b(?:resumed(?: training)? |(?:successfully )?loaded ){_NOUN}",
        "resumed from checkpoint iter 1200",
    ),
    _other(
        "load_started",
        ("oading ", "esuming ", "esume "),
        rf"\b(?:loading|resum(?:e|ing)(?: training)?) {_NOUN}|\bresum(?:e|ing)(?: training)? from (?P<path>['\"]?\S*/)",
        "resuming from /mnt/out/last.pt",
        "Loading checkpoint shards:  13%|#         | 2/15 [00:58<06:28, 29.9s/it]",
    ),
)

#: Files that hold a checkpoint or a part of one.
_LISTED = r"(?P<path>[^\s'\"]+\.(?:ckpt|pt|pth|bin|safetensors|distcp|pdparams))['\"]?\s*$"
_DATE = r"(?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} +[A-Z][a-z]{2}|\d{4}-\d\d-\d\d) +[\d:.]{4,18}(?: [+-]\d{4})?"

_LISTINGS = (
    # Also what find -ls prints: inode and blocks stand in front. Columns three and four are owner and group.
    Pattern(
        event="checkpoint.listed",
        literals=("-rw-", "-rwx"),
        regex=rf"(?:^|\s)-rw[rwxsStT-]{{7}}[.+@]? +\d+ +\S+ +\S+ +(?P<size>\d+(?:\.\d+)?[KMGTP]?) +{_DATE} +{_LISTED}",
        fields={"format": "other"},
        severity="info",
        sample="-rw-r--r-- 1 alice ml 734003200 Jan 13 12:58 model_epoch_12.ckpt",
        not_samples=("-rw-r--r-- 1 alice ml 7340 Jan 13 12:58 train.log",),
    ),
    Pattern(
        event="checkpoint.listed",
        literals=(".ckpt", ".pth", ".distcp", ".safetensors", "_states.pt", "_rng.pt"),
        regex=rf"^(?P<size>\d+(?:\.\d+)?[KMGTP]?)\t{_LISTED}",
        fields={"format": "other", "unit": "KiB"},
        severity="info",
        sample="716800\t./run7/model_epoch_12.ckpt",
        not_samples=("716800\t./run7/train.log", "epoch 12 took 716800\tms for x.ckpt"),
    ),
)

PARSER = Parser(
    name="checkpoints",
    patterns=(
        *MEGATRON,
        *DEEPSPEED,
        *HUGGING_FACE,
        *LIGHTNING,
        *TITAN,
        *COMPOSER,
        *OLMO,
        *ORBAX,
        *OTHERS,
        *_PRIVATE,
        *_LISTINGS,
    ),
)
