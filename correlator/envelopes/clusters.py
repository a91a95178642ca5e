"""Heads of the event logs that a cluster's service node collects from all nodes: seconds since the epoch, and a node.

Blue Gene RAS exports, Sandia's collected syslogs (an alert label in front of each line), HPC event databases.
"""

from __future__ import annotations

import re
from datetime import date

from correlator.envelopes.heads import severity_of
from correlator.envelopes.peeled import FileContext, Peeled
from correlator.events import Severity
from correlator.timestamps import SECOND, Stamp, fraction

# - 1117838570 2005.06.03 rack node in front of a second, local head; the label is "-" where nobody tagged the line.
_ALERTED = re.compile(r"(?:-|[A-Z][\w-]{0,15}) (\d{9,10}) (\d{4})\.(\d\d)\.(\d\d) (\S+) ")
# 2005-06-03-15.42.50.675872 R02-M1-N0 RAS KERNEL INFO text
_RAS = re.compile(r"\d{4}-\d\d-\d\d-\d\d\.\d\d\.(\d\d)\.(\d{1,9}) \S+ [A-Z]+ ([A-Z]+) ([A-Z]+) ")
# Nov 9 12:01:01 dn228/dn228 crond(pam_unix)[2915]: text
_SYSLOG = re.compile(r"[A-Z][a-z]{2} +\d\d? \d\d:\d\d:\d\d \S+ ([\w./@()-]{1,48}?)(?:\[(\d+)\])?: ")
# 134681 node-246 unix.hw state_change.unavailable 1077804742 1 text
_EVENT = re.compile(r"\d{1,12} ([A-Za-z]\S*|\d+) ([a-z][\w.]*) [a-z][\w.-]* (\d{9,10}) -?\d (?=\S)")
# A masked name (#8#) tells nodes apart as well as a true one.
_NODE = re.compile(r"(?=\S*\d)[A-Za-z#][\w.:#-]*")
_OLDEST_S, _LATEST_S = 700_000_000, 3_000_000_000
_SEVERE: dict[str, Severity] = {"SEVERE": "error", "FAILURE": "fatal"}


def alerted(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Alert label, epoch, date and node; the date is the epoch's own, or the line is something else."""
    match = None if p.headed else _ALERTED.match(text)
    if not match:
        return None
    seconds = int(match[1])
    try:
        days = date(int(match[2]), int(match[3]), int(match[4])).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    if abs(days * 86_400 + 43_200 - seconds) > 2 * 86_400:  # the date is local
        return None
    rest = text[match.end() :]
    nanos, resolution = 0, SECOND
    if inner := _RAS.match(rest):
        if int(inner[1]) == seconds % 60:
            nanos, resolution = fraction(inner[2])
        p.logger, p.severity = inner[3], severity_of(inner[4]) or _SEVERE.get(inner[4])
    elif inner := _SYSLOG.match(rest):
        p.logger = inner[1]
        p.pid = int(inner[2]) if inner[2] else p.pid
    _place(p, Stamp(seconds * SECOND + nanos, 0, resolution, True), match[5])
    return rest[inner.end() :] if inner else rest


def numbered_event(text: str, p: Peeled, ctx: FileContext) -> str | None:
    """Number, node, component, event, epoch and flag of an event database's export."""
    match = None if p.headed else _EVENT.match(text)
    if not match or not _OLDEST_S <= int(match[3]) < _LATEST_S:
        return None
    p.logger = match[2]
    _place(p, Stamp(int(match[3]) * SECOND, 0, SECOND, True), match[1])
    return text[match.end() :]


def _place(p: Peeled, stamp: Stamp, node: str) -> None:
    p.stamp(stamp)
    p.headed = True
    if _NODE.fullmatch(node):  # else NULL, UNKNOWN_LOCATION, a partition: no node is stated
        p.claim_node(node)
