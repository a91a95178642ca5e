"""Whole-corpus checks over the signature files, and the matching itself."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from correlator.errors import SignatureError
from correlator.events import SCHEMA
from correlator.ingest import ingest
from correlator.signatures import CLASSES, ROLES, assign, by_id, grouping, load_signatures, nearest, own_patterns
from correlator.signatures.catalog import xid_catalog
from correlator.signatures.model import parse_signature, read_signatures

HEALTHY = Path(__file__).parent.parent / "fixtures" / "healthy"
SIGNATURES = load_signatures()
SUBCLASSES = {
    *("checkpoint", "code", "data", "dataloader", "desync", "environment", "fabric", "gpu", "host", "memory"),
    *("network", "numerics", "nvlink", "rendezvous", "scheduler", "storage", "topology", "version"),
}
PLACEHOLDERS = {"node", "rank", "gpu", "pci_bus_id", "pid"}
PLAIN = """
id = "shard-lost"
title = "A shard is lost"
class = "application"
subclass = "data"
role = "cause"
blames = "self"
weight = 0.5
priority = 30
status = "test"
sources = ["example"]
mechanism = "Why."
[match]
event = "python.exception"
regex = 'shard \\d+ lost'
[[sample]]
hit = true
line = "ValueError: shard 12 lost"
[[sample]]
hit = false
line = "INFO: no shard lost"
"""


def signatures_by_file(folder: Path) -> dict[str, list[tuple[str, str | None]]]:
    """(event, signature) of every row of the logs in a folder, by file."""
    events = assign(ingest([folder], extra_patterns=own_patterns(SIGNATURES), workers=1).events)
    rows: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for row in events.select(["file", "event", "signature"]).to_pylist():
        rows[row["file"]].append((row["event"], row["signature"]))
    return rows


@pytest.fixture(scope="module")
def sample_rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str | None]]]:
    folder = tmp_path_factory.mktemp("samples")
    for each in SIGNATURES:
        for number, sample in enumerate(each.samples):
            (folder / f"{each.id}.{number}.log").write_text(sample.line.rstrip("\n") + "\n", encoding="utf-8")
    return signatures_by_file(folder)


def test_corpus_is_large_enough_to_be_useful() -> None:
    assert len(SIGNATURES) >= 500
    assert {s.class_ for s in SIGNATURES} == set(CLASSES)
    assert {s.role for s in SIGNATURES} == set(ROLES)


def test_samples_hit_their_own_signature_and_no_stranger(
    sample_rows: dict[str, list[tuple[str, str | None]]],
) -> None:
    wrong = []
    for each in SIGNATURES:
        for number, sample in enumerate(each.samples):
            rows = sample_rows[f"{each.id}.{number}.log"]
            if (each.id in {name for _, name in rows}) != sample.hit:
                wrong.append((each.id, sample.hit, sample.line, rows))
    assert not wrong


def test_entries_are_complete() -> None:
    assert {s.subclass for s in SIGNATURES} <= SUBCLASSES
    needed = ("observed", "confirm", "fix", "resume")
    causes = [s for s in SIGNATURES if s.role == "cause"]
    assert not [(s.id, field) for s in causes for field in needed if not getattr(s, field)]
    assert not [s.id for s in causes if not (s.control or s.verify)]
    assert not [s.id for s in SIGNATURES if s.role == "symptom" and not s.fix]


def test_related_entries_exist() -> None:
    named = [(s.id, other) for s in SIGNATURES for other in (*s.lookalikes, *s.related)]
    assert len(named) > 500
    assert not [(id_, other) for id_, other in named if other == id_ or other not in by_id()]


def test_commands_hold_only_known_placeholders() -> None:
    # awk and shell braces hold more than one word
    found = {
        (s.id, name)
        for s in SIGNATURES
        for step in s.fix
        for name in re.findall(r"(?<!\$)\{([a-z_]+)\}", step.command or "")
    }
    assert found, "no command has a placeholder, so the check says nothing"
    assert not [(id_, name) for id_, name in found if name not in PLACEHOLDERS]


def test_regexes_keep_to_what_all_engines_share() -> None:
    beyond = re.compile(r"\(\?(?:[=!]|<[=!])|(?<!\\)\\[1-9]")
    assert beyond.search(r"(?=x)") and beyond.search(r"(a)\1")
    assert not [s.id for s in SIGNATURES if beyond.search(s.match.regex)]


def test_a_waiter_without_a_class_weighs_little() -> None:
    waiters = [s for s in SIGNATURES if s.role in ("symptom", "teardown") and s.class_ == "unknown"]
    assert len(waiters) > 50
    assert not [s.id for s in waiters if s.weight > 0.5]


def test_no_cause_fires_on_a_healthy_log() -> None:
    files = sorted(HEALTHY.glob("*.log"))
    assert len(files) >= 3
    rows = signatures_by_file(HEALTHY)
    assert all(len(rows[file.name]) >= 5 for file in files), "the logs must give rows, or the check says nothing"
    fired = [
        (file, *row) for file, found in rows.items() for row in found if row[1] and by_id()[row[1]].role == "cause"
    ]
    assert not fired


# ---- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("blames =", "blame ="), "blame"),
        (('"application"', '"applicaton"'), "class"),
        (("weight = 0.5", "weight = 1.5"), "weight"),
        (("hit = false", "hit = true"), "sample"),
        (('event = "python.exception"', ""), "match"),
        (("shard \\d+ lost", "shard ( lost"), "regex"),
        (('title = "A shard is lost"', "title ="), "line 3"),
        (("[match]", "[match]\nwhen = 3"), "when"),
        (("weight = 0.5", 'weight = 0.5\nfix = [{ do = "Reboot." }]'), "kind"),
        (("weight = 0.5", 'weight = 0.5\napart = { disk-full = "df" }'), "apart"),
        (("weight = 0.5", 'weight = 0.5\nemitter = "torch"'), "emitter"),
        (("weight = 0.5", 'weight = 0.5\nreferences = [{ title = "x", url = "javascript:alert(1)" }]'), "url"),
        (("weight = 0.5", 'weight = 0.5\narithmetic = [{ whole = "a", by = [["b"]], capture = ["("] }]'), "arithmetic"),
    ],
)
def test_malformed_file_is_refused_by_name_and_field(change: tuple[str, str], field: str) -> None:
    assert parse_signature(PLAIN, "data/shard-lost.toml").id == "shard-lost"
    with pytest.raises(SignatureError, match=field) as fault:
        parse_signature(PLAIN.replace(*change), "data/shard-lost.toml")
    assert "shard-lost.toml" in str(fault.value)


def test_file_must_be_named_after_its_id_and_id_must_be_unique(tmp_path: Path) -> None:
    for emitter in ("one", "two"):
        (tmp_path / emitter).mkdir()
    (tmp_path / "one" / "shard-lost.toml").write_text(PLAIN, encoding="utf-8")
    assert [s.id for s in read_signatures(tmp_path)] == ["shard-lost"]
    (tmp_path / "two" / "shard-lost.toml").write_text(PLAIN, encoding="utf-8")
    with pytest.raises(SignatureError, match="second file"):
        read_signatures(tmp_path)
    (tmp_path / "two" / "shard-lost.toml").rename(tmp_path / "two" / "other.toml")
    with pytest.raises(SignatureError, match=r"two/other\.toml: id"):
        read_signatures(tmp_path)


# ---- matching -----------------------------------------------------------------------------------------------------


def table(*rows: dict[str, object]) -> pa.Table:
    full = [{name: row.get(name) for name in SCHEMA.names} | {"attributes": row.get("attributes", [])} for row in rows]
    return pa.Table.from_pylist(full, schema=SCHEMA)


def signatures_of(*rows: dict[str, object]) -> list[str | None]:
    """Few rows are matched one by one, many in groups: with the same result."""
    one_by_one = assign(table(*rows)).column("signature").to_pylist()
    times = 600 // len(rows) + 2
    in_groups = assign(pa.concat_tables([table(*rows)] * times)).column("signature").to_pylist()
    assert in_groups == one_by_one * times
    return one_by_one


def raised(kind: str, message: str, outer: tuple[str, str] | None = None) -> dict[str, object]:
    attributes = [("type", kind), ("message", message)]
    if outer:
        attributes += [("outer_type", outer[0]), ("outer_message", outer[1])]
    return {"event": "python.exception", "body": f"{kind}: {message}", "attributes": attributes}


def test_assign_keeps_the_table_and_takes_an_empty_one() -> None:
    assert assign(SCHEMA.empty_table()).num_rows == 0
    filled = assign(table({"event": "trainer.progress", "body": "step 12/100", "signature": "stale"}))
    assert filled.schema == SCHEMA
    assert filled.column("signature").to_pylist() == [None]


def test_assign_takes_other_signatures_than_the_packaged_ones() -> None:
    own = parse_signature(PLAIN, "data/shard-lost.toml")
    rows = table(raised("ValueError", "shard 12 lost"), raised("ValueError", "nothing lost"), {"event": None})
    assert assign(rows, [own]).column("signature").to_pylist() == ["shard-lost", None, None]
    assert assign(rows, []).column("signature").null_count == 3


def test_equal_texts_with_other_numbers_are_one_group_unless_a_rule_spells_the_number() -> None:
    line = (
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.{}<4{}> with status={} opcode=0 len=0 vendor err 129 (Send)"
    )
    rows = [{"event": "nccl.ib_error", "body": line.format(i, i, status)} for i in range(9) for status in (5, 12)]
    assert signatures_of(*rows) == ["nccl-ib-flushed", "nccl-ib-retry-exceeded"] * 9


def test_result_does_not_depend_on_the_order_of_rows() -> None:
    rows = [
        {"event": event, "body": sample.line, "exit_code": code, "xid": xid}
        for number, each in enumerate(SIGNATURES)
        for sample in each.samples
        for event in each.match.events[:1] or ("log.message",)
        for code, xid in ((number % 18 - 9, None), (None, (13, 31, 79, 149)[number % 4]))
    ]
    assert signatures_of(*rows) == signatures_of(*reversed(rows))[::-1]


def test_groups_are_the_same_in_whatever_slices_rows_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        raised("RuntimeError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
        raised("KeyError", "'batch'"),
    ] * 300
    monkeypatch.setattr(grouping, "_SLICE", 7)
    assert assign(table(*rows)).column("signature").to_pylist() == ["cuda-out-of-memory", "python-key-error"] * 300


def test_first_link_of_a_chain_decides_unless_only_its_type_is_known() -> None:
    full = ("OSError", "[Errno 28] No space left on device: '/ckpt/a.pt'")
    assert signatures_of(
        raised(*full, outer=("RuntimeError", "CUDA out of memory. Tried to allocate 2.00 GiB.")),
        raised("KeyError", "'batch'", outer=("RuntimeError", "CUDA out of memory. Tried to allocate 2.00 GiB.")),
        raised("KeyError", "'batch'", outer=("ValueError", "cannot build the batch")),
    ) == ["disk-full", "cuda-out-of-memory", "python-key-error"]


def test_more_processes_than_the_world_means_a_stale_store() -> None:
    text = "Timed out initializing process group in store based barrier on rank: 3, for key: k (world_size=16, worker_count={})"
    rows = [
        {
            "event": "c10d.store_timeout",
            "body": text.format(count),
            "attributes": [("world_size", "16"), ("worker_count", str(count))],
        }
        for count in (15, 32)
    ]
    assert signatures_of(*rows) == ["c10d-store-timeout", "rendezvous-stale-store"]


def test_a_plain_line_about_trouble_that_was_dealt_with_is_no_cause() -> None:
    lost = "OSError: [Errno 24] Too many open files: '/data/a.bin'"
    assert signatures_of(
        {"event": "log.error", "body": lost}, {"event": "log.error", "body": f"WARNING {lost}, retrying in 5 s"}
    ) == ["too-many-open-files", None]


def test_catalog_knows_every_number_that_an_entry_is_about() -> None:
    assert {number for s in SIGNATURES for number in s.xids} <= set(xid_catalog())
    assert (
        xid_catalog()[79]
        .sentence(79)
        .startswith("Xid 79: ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS; GPU has fallen off")
    )


def test_most_entries_are_near_a_torn_line_of_theirs() -> None:
    lost = []
    for each in SIGNATURES:
        line = next((s.line for s in each.samples if s.hit), "")
        torn = " ".join(line.split()[: max(6, len(line.split()) * 2 // 3)])
        if line and each not in nearest(torn, limit=5):
            lost.append(each.id)
    assert len(lost) < 0.15 * len(SIGNATURES), lost


def test_own_patterns_are_those_of_the_entries_without_an_event() -> None:
    patterns = own_patterns(SIGNATURES)
    assert len(patterns) == sum(not s.match.events for s in SIGNATURES)
    for pattern in patterns:
        assert pattern.event == "log.message"
        assert any(literal in pattern.sample for literal in pattern.literals)
        assert all(len(literal) >= 4 and literal.isascii() for literal in pattern.literals)
