"""Prefix layers of a log line: what they claim, and the text that the emitter itself wrote.

One physical line may carry a collector's stamp, a fan-in label, a launcher's tag, a rank prefix and a logger head, in
any order and depth (``2: [default0]:[rank4]:[E501 …``). ``peel`` removes them from the left until nothing matches and
keeps every identity claim. Layers disagree on purpose: a tee tag is a LOCAL rank, ``[rank4]:`` a global one, an
``srun -l`` label a task. What a line cannot tell by itself (is ``7: `` a label? is ``node1: `` a host?) comes from the
``FileContext`` of its file.

Heads of NCCL lines and message scopes (``[Rank 3]``, ``[PG …]``) stay in the text: the emitter parsers read them.
"""

from __future__ import annotations

import re

from correlator.envelopes.clusters import alerted, numbered_event
from correlator.envelopes.heads import after_stamp
from correlator.envelopes.labels import (
    actor,
    determined,
    fan_in,
    host_slot,
    kubectl,
    mpi,
    rank_colon,
    rank_prefix,
    rank_word,
)
from correlator.envelopes.logger_heads import (
    bare_stamp,
    beegfs,
    bracket_head,
    bracket_kernel,
    c10,
    cann,
    claims,
    facility,
    glog,
    kmsg,
    level_first,
    pbs,
    syslog_head,
)
from correlator.envelopes.peeled import FileContext, Peeled, Rule, strip_ansi
from correlator.envelopes.transports import angle, cri, json_record, labelled, syslog
from correlator.timestamps import MONTHS, announced_stamp
from correlator.untrusted import shorten_runs

_BRACKET: tuple[Rule, ...] = (
    kubectl, rank_prefix, c10, mpi, fan_in, json_record, bracket_kernel, cann, bracket_head, rank_colon, determined,
    claims,
)  # fmt: skip
_DIGIT: tuple[Rule, ...] = (cri, fan_in, numbered_event, kmsg, pbs, syslog, syslog_head, bare_stamp, determined, claims)
_UPPER: tuple[Rule, ...] = (glog, alerted, level_first, fan_in, syslog_head, bare_stamp, host_slot, rank_word, claims)
_LOWER: tuple[Rule, ...] = (fan_in, determined, facility, host_slot, rank_word, claims)
_RULES: dict[str, tuple[Rule, ...]] = {
    "[": _BRACKET,
    "{": (json_record, labelled),
    "(": (actor, beegfs),
    "<": (angle,),
    " ": (fan_in, bracket_head),
    "-": (alerted,),
    **dict.fromkeys("0123456789", _DIGIT),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _UPPER),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", _LOWER),
}

#: More layers than any real line has; ends the loop on adversarial input.
MAX_LAYERS = 16

# A head behind something that is not an envelope, such as a progress bar without a line end.
_MIDDLE = re.compile(
    r"(?:\[rank\d+\]:)?\[[FEWI](?:\d{3,4} \d\d:\d\d:\d\d\.\d{6,9})? [\w./-]+\.(?:cpp|cc|cu|hpp|h):\d+\] "
    r"|(?<![\w/])[FEWI]\d{4} \d\d:\d\d:\d\d\.\d{6}\s+\d+ [\w./-]+:\d+\] "
    r"|\[rank\d+\]: |\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
    rf"|(?:{'|'.join(MONTHS)}) [ \d]\d \d\d:\d\d:\d\d [\w.-]+ kernel: "
    r"|(?<=[\]|%])Traceback \(most recent call last\):"
)


def _may_hold_head(text: str) -> bool:
    """Whether _MIDDLE may find something; ten times cheaper than the search, and no loop since every line pays."""
    return (
        ".cpp:" in text
        or ".py:" in text
        or "[rank" in text
        or " kernel: " in text
        or "Traceback (most" in text
        or "] [" in text
    )


# Ray: "… [repeated 7x across cluster]"; syslog: "message repeated 3 times: [ … ]"
_RAY_REPEAT = re.compile(r" ?\[repeated (\d+)x across cluster\](?: \(Ray deduplicates logs.*)?$")
_SYSLOG_REPEAT = re.compile(r"message repeated (\d+) times: \[ ?(.*)\]$")


def _unrepeated(text: str, p: Peeled) -> str:
    if "repeated " in text:
        if match := _RAY_REPEAT.search(text):
            p.repeats, p.stands_for_others = int(match[1]), True
            return text[: match.start()]
        if match := _SYSLOG_REPEAT.match(text):
            p.repeats = int(match[1])
            return match[2]
    return text


def _peel_layers(text: str, p: Peeled, ctx: FileContext) -> str:
    for _ in range(MAX_LAYERS):
        if not text:
            break
        parts = None if p.headed else len(p.identity)
        for rule in _RULES.get(text[0], ()):
            rest = rule(text, p, ctx)
            if rest is not None:
                text = rest
                break
        else:
            break
        if parts is not None and p.headed:
            p.outer_parts = parts
    return text


_OUTER: dict[str, tuple[Rule, ...]] = {
    "[": (kubectl, mpi, fan_in, json_record),
    "{": (json_record,),
    "<": (angle,),
    " ": (fan_in,),
    **dict.fromkeys("0123456789", (cri, fan_in, syslog, syslog_head)),
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", (fan_in, host_slot, syslog_head)),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", (fan_in, host_slot)),
}
_COLLECTOR_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z ")


def outer_layers(line: str, context: FileContext) -> Peeled:
    """The text behind transports, heads of syslog and fan-in labels, and their claims; heads of loggers stay."""
    p = Peeled("")
    text = line
    for _ in range(MAX_LAYERS):
        if not text:
            break
        for rule in _OUTER.get(text[0], ()):
            rest = rule(text, p, context)
            if rest is not None:
                text = rest
                break
        else:
            match = _COLLECTOR_STAMP.match(text)
            if not match:
                break
            text = text[match.end() :]
    p.text, p.key = text, "/".join(p.identity)
    return p


def peel(line: str, context: FileContext) -> Peeled:
    """The emitter's text of one line and everything that the layers in front of it claim.

    >>> p = peel("2: [default0]:[rank4]: ValueError: bad", FileContext(task_label=True))
    >>> p.text, p.task, p.local_rank, p.rank
    ('ValueError: bad', 2, 0, 4)
    """
    p = Peeled("")
    text = strip_ansi(shorten_runs(line)).lstrip("\ufeff")
    if "\x00" in text:  # left by a crashed node
        text = text.replace("\x00", "")
    text = _peel_layers(text, p, context)
    if (not p.headed or p.logger is None) and _may_hold_head(text):
        middle = _MIDDLE.search(text, 1)
        if middle and "] " not in text[: middle.start()].replace("it/s] ", ""):
            text = _peel_layers(text[middle.start() :], p, context)
    if context.layout is not None and p.timestamp_basis is None:
        stamp = context.layout.match(text, context.clock)
        if stamp is not None:
            p.stamp(stamp)
            p.headed = True
            text = after_stamp(text[stamp.end :], p)
    if p.timestamp_ns is None or p.timestamp_basis == "transport":
        stamp = announced_stamp(text, context.clock)
        if stamp is not None:
            p.stamp(stamp)
    if p.inner_rank is not None and context.split_ranks:
        p.identity.append(f"rank{p.inner_rank}")
    p.key = "/".join(p.identity)
    p.text = _unrepeated(text, p)
    p.drop_impossible()
    return p
