"""Saved output of NCCL's RAS client (``ncclras``), as text and, from 2.28 on, as JSON.

Emitted by: NVIDIA/nccl ``src/ras/client_support.cc``, read at 2.24 to 2.30. Ranks are those of the communicator, named
by its hash; nodes are addresses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from correlator.events import Found, Pattern
from correlator.untrusted import read_number
from parsers._lines import named

# "  Process 4711 on node 10.0.0.18 managing GPUs 0-3", "  Rank 5 has launched up to operation 12 -- GPU 1 managed by …"
_RAS_PROCESS = re.compile(r"^\s*Process (?P<pid>\d{1,19}) on node (?P<peer>\S+) managing GPUs? (?P<gpus>\S+)")
_RAS_RANK = re.compile(
    r"^\s*Rank (?P<comm_rank>\d{1,9})(?: has (?P<state>[^-]{1,80}?))? -- "
    r"(?:GPU (?P<gpus>\S+) managed by process (?P<pid>\d{1,19}) on node (?P<peer>\S+)|"
    r"\[process information not found\])"
)
_RAS_GROUP = re.compile(r"^#\d+-\d+ \((?P<process_group>[0-9a-f]+)\) [A-Z,]+$")
_RAS_STATEMENTS = (
    ("dead", re.compile(r"(?P<number>\d{1,9}) job process\w*(?: are| is)? considered dead")),
    ("missing", re.compile(r"[Mm]issing (?:communicator )?data from (?P<number>\d{1,9}) ")),
    ("error", re.compile(r"(?:Initialization|Asynchronous) errors? on (?P<number>\d{1,9}) rank")),
    ("mismatch", re.compile(r"Communicator ranks have different (?P<aspect>.*)")),
)
_RAS_SHARE = re.compile(r"^\s*(?P<number>\d{1,9}) ranks have (?P<state>.*)$")
_RAS_LAUNCHED = re.compile(r"launched up to operation (\d+)")


def _read_ras(lines: Sequence[str]) -> list[Found]:
    """One event for the statement, one ``nccl.ras_names`` for every process or rank under it.

    ``peer`` is the address as printed. The ranks of a communicator that gave no data, or have launched fewer operations
    than the majority, are also listed on the first event (``nccl.ras_missing``: missing_ranks or lagging_ranks).
    """
    group = _RAS_GROUP.match(lines[0])
    start = 1 if group else 0
    heads = ((what, regex.search(lines[start])) for what, regex in _RAS_STATEMENTS) if len(lines) > start else ()
    what, statement = next(((what, m) for what, m in heads if m), ("", None))
    if statement is None:
        return []
    fields: dict[str, object] = {"what": what, **named(statement), **(named(group) if group else {})}
    names: list[Found] = []
    ranks: list[tuple[str, int]] = []
    most_launched = -1
    last = start
    for index, line in enumerate(lines[start + 1 :], start=start + 1):
        launched = _RAS_LAUNCHED.search(line)
        if match := _RAS_PROCESS.match(line) or _RAS_RANK.match(line):
            names.append(Found(index, index, {"what": what, **named(match)}, event="nccl.ras_names"))
            if "comm_rank" in match.groupdict():
                ranks.append((match["comm_rank"], int(launched[1]) if launched else -1))
        elif share := _RAS_SHARE.match(line):
            most_launched = max(most_launched, int(launched[1]) if launched else -1)
            fields["shares"] = f"{fields.get('shares', '')}{share['number']}: {share['state']}; "
        elif not line.strip() or not line.strip().startswith(("[could not", "The missing process")):
            break
        last = index
    event = None
    if what == "missing" and ranks:
        event, fields["missing_ranks"] = "nccl.ras_missing", ",".join(rank for rank, _ in ranks)
    elif lagging := [rank for rank, count in ranks if count < most_launched]:
        event, fields["lagging_ranks"] = "nccl.ras_missing", ",".join(lagging)
    return [Found(0, last, fields, event=event), *names]


# --- JSON ------------------------------------------------------------------------------------------------------------

_MEMBER = re.compile(r'^ +"(\w+)": (?:"([^"]*)"|(-?\d+|true|false))')
#: ``ncclResult_t`` values that are no error of the communicator: success, in progress.
_FINE = {"0", "7"}


def _read_ras_json(lines: Sequence[str]) -> list[Found]:
    """One communicator: its missing ranks, ranks with an error, and ranks that are behind the majority.

    Read line by line as NCCL prints it, so that a report that was cut gives what stands before the cut.
    """
    if len(lines) < 2 or '"secondary_hash":' not in lines[1]:
        return []
    communicator = (_MEMBER.match(lines[0]) or [None] * 3)[2]
    ranks: list[dict[str, str]] = []
    missing = False
    last = 0
    for index, line in enumerate(islice(lines, 1, None), start=1):
        stripped = line.strip()
        if stripped.startswith('"hash":') or stripped.startswith('"ras":'):
            break
        last = index
        if stripped.startswith('"missing_ranks":'):
            missing = True
        elif member := _MEMBER.match(line):
            name, value = member[1], member[2] if member[2] is not None else member[3]
            if name == "rank":
                ranks.append({"missing": "yes" if missing else "", "line": str(index)})
            if ranks:
                ranks[-1][name] = value
    return [found for found in (_absent(ranks, communicator, last), *_failing(ranks, communicator, last)) if found]


def _absent(ranks: Sequence[Mapping[str, str]], communicator: str | None, last: int) -> Found | None:
    gone = [rank for rank in ranks if rank["missing"]]
    if not gone:
        return None
    dead = [rank["rank"] for rank in gone if rank.get("considered_dead") == "true"]
    fields: dict[str, object] = {
        "what": "dead" if len(dead) == len(gone) else "missing",
        "process_group": communicator,
        "missing_ranks": ",".join(rank["rank"] for rank in gone),
        "number": len(gone),
        "peer": ",".join(dict.fromkeys(rank.get("host", "") for rank in gone)),
    }
    return Found(0, last, {k: v for k, v in fields.items() if v}, event="nccl.ras_missing", at=int(gone[0]["line"]))


def _failing(ranks: Sequence[Mapping[str, str]], communicator: str | None, last: int) -> list[Found]:
    present = [rank for rank in ranks if not rank["missing"]]
    found = []
    errors = [r for r in present if not {r.get("async_error", "0"), r.get("init_state", "0")} <= _FINE]
    if errors:
        fields: dict[str, object] = {
            "what": "error",
            "process_group": communicator,
            "error_ranks": ",".join(r["rank"] for r in errors),
        }
        found.append(Found(0, last, {k: v for k, v in fields.items() if v}, at=int(errors[0]["line"])))
    for operation in dict.fromkeys(name for rank in present for name in rank if name[0].isupper()):  # AllReduce, …
        counted = [(rank, count) for rank in present if (count := read_number(rank.get(operation, ""))) is not None]
        usual = Counter(count for _, count in counted).most_common(1)[0][0] if counted else 0
        behind = [rank for rank, count in counted if count < usual]
        if behind:
            fields = {
                "what": "mismatch",
                "aspect": f"{operation} operation counts",
                "process_group": communicator,
                "lagging_ranks": ",".join(rank["rank"] for rank in behind),
            }
            at = int(behind[0]["line"])
            found.append(Found(0, last, {k: v for k, v in fields.items() if v}, event="nccl.ras_missing", at=at))
    return found


_JSON_SAMPLE = """      "hash": "0x123456789abcdef",
      "secondary_hash": "0x55d1c0:0x1267",
      "size": 2,
      "ranks_count": 1,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "192.0.2.17",
          "pid": 4711,
          "status": {
            "init_state": 0,
            "async_error": 6,
            "finalize_called": false
          },
          "collective_counts": {
            "AllReduce": 1200
          }
        }
      ],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "192.0.2.18",
          "pid": 4712,
          "status": {
            "unresponsive": true,
            "considered_dead": true
          }
        }"""

RAS_PATTERNS = (
    Pattern(
        event="nccl.ras",
        literals=(
            ") INCOMPLETE",
            ") MISMATCH",
            "considered dead (unreachable via the RAS network)",
            "issing communicator data from",
            "issing data from ",
            "nitialization error",
            "synchronous error",
        ),
        block=_read_ras,
        block_lines=300,
        sample="  2 job processes are considered dead (unreachable via the RAS network)\n"
        "  Process 4711 on node 10.0.0.18 managing GPU 0\n  Process 4712 on node 10.0.0.18 managing GPU 1\n",
        severity="warning",
    ),
    Pattern(
        event="nccl.ras",
        literals=('"hash": "0x',),
        block=_read_ras_json,
        block_lines=40_000,
        sample=_JSON_SAMPLE,
        severity="warning",
        not_samples=('  "hash": "0x1234",\n  "name": "shard 3"',),
    ),
)
