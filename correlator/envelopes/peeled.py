"""A line while its envelopes are taken off: what is left, and what the envelopes claimed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from correlator.envelopes.layouts import Layout
from correlator.events import Severity
from correlator.timestamps import DAY, SECOND, Clock, Stamp
from correlator.untrusted import is_rank


@dataclass(frozen=True, slots=True)
class FileContext:
    """What the lines of one file mean together.

    ``hosts``: names that stand as ``name: `` in front of (nearly) all lines (pdsh). ``task_label``: lines start with
    ``7: `` (srun -l). ``rank_label``: they start with ``[7] `` (Hydra). ``stern``: they start with
    ``pod container ``, and with ``namespaces`` with a namespace in front of that.
    ``tee_rank``: what an outermost ``[rankN]:`` is: ``torch`` (a global rank, printed by torch), or a launcher's tag
    that states the ``local`` or the ``global`` rank. ``tee_space``: that tag is followed by a space of its own.
    ``split_ranks``: several ranks write behind one outer label, so that ``[rankN]:`` tells writers apart.
    ``several``: lines of several writers alternate in the file; ``unsure``: they may, where ``[rankN]:`` turns up.
    ``layout``: of stamps that are not built in.
    """

    clock: Clock = field(default_factory=Clock)
    hosts: frozenset[str] = frozenset()
    task_label: bool = False
    rank_label: bool = False
    stern: bool = False
    namespaces: bool = False
    tee_rank: str = "torch"
    tee_space: bool = False
    split_ranks: bool = True
    several: bool = True
    unsure: bool = False
    layout: Layout | None = None


_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def strip_ansi(text: str) -> str:
    """The text without terminal escapes."""
    return _ANSI.sub("", text) if "\x1b" in text else text


#: More equal lines than this one line cannot stand for.
_MOST_REPEATS = 1_000_000_000
# [123456.789012] · [123456.789012 <    0.000123>] · [  130.456250] [ T1946] (kernels that print the caller);
# journalctl -o short-delta marks differences across boots by a star
_UPTIME = re.compile(r"\[ *(\d{1,9})\.(\d{6})(?: <[ \d.]+[ *]?>)?\] ?(?:\[ *[TC]\d{1,7}\] ?)?")
# 3,2212,4053155111,-;text (/dev/kmsg: priority, number, microseconds since boot, flags)
_KMSG = re.compile(r"\d{1,4},\d{1,18},(\d{1,15}),[-c](?:,[\w=:+.-]{1,80})*;")


@dataclass(slots=True)
class Peeled:
    """A line without its envelopes, and what they claimed.

    ``key`` names the process that wrote the line within its file, by everything that tells processes apart (the parts
    gather in ``identity``); ``stream`` is not part of it, and it is empty when the line says nothing about its writer.

    ``timestamp_ns`` is UTC; ``timestamp_basis`` is one of ``events.TIMESTAMP_BASES`` or None without a stamp.
    ``dated``: the stamp states its year. ``boot_ns`` is a kernel's time since boot. ``inner_rank`` is the number of
    torch's own ``[rankN]:``. ``headed``: a logger's head was taken off, so that no label can follow; one of syslog is
    such a head only in front of the kernel's lines. ``tagged``: a tee tag that looks like ``[rankN]:`` was taken off.
    ``outer_parts``: how many parts of ``identity`` stand in front of the first head; None without one.
    ``partial``: the collector cut the line here.
    ``repeats``: how many equal lines the printer says this one stands for; ``stands_for_others``: of other processes.
    """

    text: str
    key: str = ""
    timestamp_ns: int | None = None
    timestamp_basis: str | None = None
    resolution_ns: int | None = None
    boot_ns: int | None = None
    node: str | None = None
    rank: int | None = None
    rank_basis: str | None = None
    local_rank: int | None = None
    task: int | None = None
    pod: str | None = None
    container: str | None = None
    stream: str | None = None
    pid: int | None = None
    severity: Severity | None = None
    logger: str | None = None
    partial: bool = False
    repeats: int = 1
    stands_for_others: bool = False
    headed: bool = False
    tagged: bool = False
    dated: bool = False
    identity: list[str] = field(default_factory=list)
    inner_rank: int | None = None
    outer_parts: int | None = None

    def stamp(self, stamp: Stamp, basis: str = "printed") -> None:
        """Take a stamp; a printed one outranks the collector's, and an inner one the outer one."""
        if basis == "transport" and self.timestamp_basis == "printed":
            return
        if not 0 <= stamp.ns + DAY < 1 << 63:
            return  # a number that is no time
        if self.timestamp_basis == "printed" and self.dated and not stamp.dated and stamp.resolution_ns == SECOND:
            return  # a finer, dated stamp is already there: an external stamper in front of a whole-second head
        self.timestamp_ns, self.resolution_ns, self.timestamp_basis = stamp.ns, stamp.resolution_ns, basis
        self.dated = stamp.dated

    def adopt(self, outer: Peeled) -> None:
        """Take the claims of ``outer``, at whose start the labels of this part of the same physical line stand."""
        self.identity, self.key, self.stream = outer.identity, outer.key, outer.stream
        self.node, self.pod, self.pid = outer.node, outer.pod, outer.pid
        self.local_rank, self.task, self.inner_rank = outer.local_rank, outer.task, outer.inner_rank
        if self.rank is None:
            self.rank, self.rank_basis = outer.rank, outer.rank_basis
        if self.timestamp_basis is None and outer.timestamp_basis == "transport":
            self.timestamp_ns, self.resolution_ns = outer.timestamp_ns, outer.resolution_ns
            self.timestamp_basis = "transport"

    def goes_on_in(self, further: Peeled) -> bool:
        """Whether a line has no head and the labels in front of this head, which names the writer.

        A logger prints a message of several lines at once and its head on the first of them only.
        """
        return (
            self.outer_parts is not None
            and (len(self.identity) > self.outer_parts or (self.rank is not None and further.rank is None))
            and not further.headed
            and further.inner_rank is None
            and further.identity == self.identity[: self.outer_parts]
            and further.stream == self.stream
        )

    def claim_rank(self, rank: int) -> None:
        """Take a global rank that an envelope states."""
        if is_rank(rank):
            self.rank, self.rank_basis = rank, "envelope"

    def drop_impossible(self) -> None:
        """Forget numbers that no process, rank or task can have."""
        if self.local_rank is not None and not is_rank(self.local_rank):
            self.local_rank = None
        if self.task is not None and not is_rank(self.task):
            self.task = None
        if self.inner_rank is not None and not is_rank(self.inner_rank):
            self.inner_rank = None
        if self.pid is not None and self.pid >= 1 << 32:
            self.pid = None
        self.repeats = min(self.repeats, _MOST_REPEATS)

    def claim_node(self, name: str) -> None:
        """Take a node name that tells writers apart."""
        self.node = name
        self.identity.append(name)

    def take_uptime(self, text: str) -> str:
        """The text without a kernel's ``[seconds since boot]``, which is kept in ``boot_ns``."""
        match = _UPTIME.match(text)
        if not match:
            return text
        self._booted(int(match[1]) * SECOND + int(match[2]) * 1000)
        return text[match.end() :]

    def take_kmsg(self, text: str) -> str | None:
        """The text of a record of ``/dev/kmsg`` without its fields; None when it is none."""
        match = _KMSG.match(text)
        if not match:
            return None
        self._booted(int(match[1]) * 1000)
        return text[match.end() :]

    def _booted(self, boot_ns: int) -> None:
        self.boot_ns, self.headed = boot_ns, True
        if self.timestamp_basis is None:
            self.timestamp_basis, self.resolution_ns = "boot-relative", 1000


#: Takes one envelope off the text and puts its claims into the line; None when the text begins with something else.
Rule = Callable[[str, Peeled, FileContext], str | None]
