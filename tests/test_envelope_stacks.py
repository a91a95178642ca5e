"""Envelopes in any order and depth: the same event, time, rank and node, whatever a line was wrapped in on its way."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.envelopes import Peeled, peel
from correlator.envelopes.file_context import JobContext, file_context

AT = int(datetime(2024, 5, 1, 7, 40, 18, tzinfo=UTC).timestamp()) * 10**9
UTC_TEXT, NODE, POD = "2024-05-01T07:40:18.000000000Z", "node012", "llm-worker-3"

Wrap = Callable[[str], str]
#: What collectors and syslog put around lines, each inside each other; all state the same time and node.
TRANSPORTS: dict[str, Wrap] = {
    "CRI": lambda t: f"{UTC_TEXT} stderr F {t}",
    "docker": lambda t: json.dumps({"log": t + "\n", "stream": "stderr", "time": UTC_TEXT}),
    "Loki": lambda t: json.dumps({"stream": {"pod": POD, "node_name": NODE}, "values": [[str(AT), t]]}),
    "Fluent Bit": lambda t: json.dumps({"date": AT // 10**9, "log": t, "kubernetes": {"pod_name": POD, "host": NODE}}),
    "journal": lambda t: json.dumps(
        {"__REALTIME_TIMESTAMP": str(AT // 1000), "_HOSTNAME": NODE, "SYSLOG_IDENTIFIER": "python3", "MESSAGE": t}
    ),
    "RFC 5424": lambda t: f'<14>1 2024-05-01T09:40:18+02:00 {NODE} docker 812 - [a@1 b="c ] d"] {t}',
    "RFC 3164": lambda t: f"<14>May  1 07:40:18 {NODE} docker[812]: {t}",
    "rsyslog": lambda t: f"2024-05-01T09:40:18+02:00 {NODE} python3[812]: {t}",
    "colour": lambda t: f"\x1b[36m{t}\x1b[0m",
}
#: At most one of these stands further in, and one of the launcher's tags behind it.
LABELS: dict[str, Wrap] = {
    "kubectl": lambda t: f"[pod/{POD}/pytorch] {t}",
    "pdsh": lambda t: f"{NODE}: {t}",
    "srun": lambda t: f"37: {t}",
    "Open MPI": lambda t: f"[1,5]<stderr>:{t}",
    "Ray": lambda t: f"(Worker pid=4711, ip={NODE}) {t}",
}
TAGS: dict[str, Wrap] = {"tee": lambda t: f"[default3]:{t}"}
NODE_STATED = {"Loki", "Fluent Bit", "journal", "RFC 5424", "RFC 3164", "rsyslog", "pdsh", "Ray"}
POD_STATED = {"Loki", "Fluent Bit", "kubectl"}
#: Lines that state their rank, with what is left of them; the second has no time of its own.
LINES = {
    "[rank5]:[E501 07:40:18.904512345 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught": "[Rank 1] Watchdog caught",
    "[rank5]: torch.OutOfMemoryError: CUDA out of memory.": "torch.OutOfMemoryError: CUDA out of memory.",
    "[rank5]:W0501 07:40:18.000000 4711 torch/run.py:779] closing": "closing",
}
ALL = TRANSPORTS | LABELS | TAGS


def peeled(names: tuple[str, ...], line: str) -> Peeled:
    """The line in these envelopes, the outermost first, as the lines of a file that has no others."""
    for name in reversed(names):
        line = ALL[name](line)
    sample = "\n".join([line] * 12).encode()
    job = JobContext(reference_ns=AT)
    return peel(line, file_context(job, sample, b"", AT, single_process=False, complete=True))


@given(
    transports=st.lists(st.sampled_from(sorted(TRANSPORTS)), max_size=4),
    label=st.sampled_from(["", *sorted(LABELS)]),
    tag=st.sampled_from(["", *TAGS]),
    line=st.sampled_from(sorted(LINES)),
)
def test_a_line_is_the_same_whatever_it_is_wrapped_in(transports: list[str], label: str, tag: str, line: str) -> None:
    names = tuple(name for name in (*transports, label, tag) if name)
    p = peeled(names, line)
    has_time = "OutOfMemory" not in line or bool(set(transports) - {"colour"})
    assert (p.text, p.rank) == (LINES[line], 5)
    assert p.timestamp_ns == (AT if has_time else None)
    assert p.node == (NODE if NODE_STATED & set(names) else None)
    assert p.pod == (POD if POD_STATED & set(names) else None)
    assert p.local_rank == (3 if tag else None)
    assert p.task == ({"srun": 37, "Open MPI": 5}.get(label))


@pytest.mark.parametrize("program", ["kernel", "systemd"])
def test_colons_in_the_messages_of_syslog_make_no_hosts(program: str) -> None:
    sample = "".join(
        f"May  1 07:40:{n:02d} {NODE} {program}[{n % 2 + 1}]: {word}-0: done\n"
        f"May  1 07:40:{n:02d} {NODE} sshd[{n}]: closed\n"
        for n in range(30)
        for word in ("mount", "unit")
    ).encode()
    context = file_context(JobContext(), sample, b"", AT, single_process=False, complete=True)
    assert context.hosts == frozenset()
