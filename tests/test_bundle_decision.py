"""Whether a part can be sent back: by published rules, from what the logs show, with what is missing named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from joblogs import HOSTS, diagnose, iterations, kernel, raises, torchrun, write, xid
from returns import BUS, HOST, SERIAL, UUID, dcgm, field_diagnostic, query, write_complete

import correlator
from correlator.bundle import story
from correlator.bundle.build import Bundle, NotHardware
from correlator.bundle.matching import load_data
from correlator.bundle.model import Case
from correlator.errors import UsageError
from correlator.signatures import load_signatures


def bundle(logs: Path, target: Path, **options: object) -> tuple[Bundle, Case]:
    import msgspec

    made = correlator.diagnose(logs).bundle(target, **options)  # type: ignore[arg-type]
    return made, msgspec.json.decode((target / "data/case.json").read_bytes(), type=Case)


def status_of(case: Case, criterion: str) -> str | None:
    return next((found.status for found in case.decision.criteria if found.id == criterion), None)


def test_flag_and_failed_field_diagnostic_meet_the_rule(tmp_path: Path) -> None:
    made, case = bundle(write_complete(tmp_path / "logs"), tmp_path / "rma")
    assert made.decision.status == "meets-criteria"
    assert status_of(case, "row-remap-failure") == status_of(case, "field-diagnostic-failed") == "met"
    facts = {fact.name: fact.value for group in case.identity for fact in group.facts}
    assert facts["Serial number"] == SERIAL and facts["UUID"] == UUID and facts["Module"] == "3"
    assert facts["System serial (service tag)"] == "S1230001" and facts["Index on the node"] == "1"
    assert case.labels.azure == "Resource.Hpc.Unhealthy.HpcRowRemapFailure"
    assert {test.id: test.status for test in case.tests}["dcgm-diag"] == "fault"
    assert [reading.when for reading in case.counters if reading.time] == ["after"]


def test_without_the_field_diagnostic_it_is_insufficient_and_says_how_to_run_it(tmp_path: Path) -> None:
    logs = write_complete(tmp_path / "logs", fieldiag=[])
    made, case = bundle(logs, tmp_path / "rma")
    assert made.decision.status == "insufficient"
    assert status_of(case, "row-remap-failure") == "shown"
    missing = {entry.what: entry for entry in made.decision.missing}
    assert missing["field diagnostic"].node == HOST and "fieldiag" in str(missing["field diagnostic"].command)


def test_a_passed_field_diagnostic_contradicts(tmp_path: Path) -> None:
    logs = write_complete(tmp_path / "logs", fieldiag=field_diagnostic("PASS"), dcgm=dcgm("Pass"))
    made, case = bundle(logs, tmp_path / "rma")
    assert made.decision.status == "insufficient"
    assert status_of(case, "row-remap-failure") == "contradicted"
    assert {test.id: test.status for test in case.tests}["field-diagnostic"] == "passed"


def test_a_later_reading_without_the_flag_contradicts_what_the_xid_suggests(tmp_path: Path) -> None:
    logs = write_complete(tmp_path / "logs", fieldiag=[], dcgm=dcgm("Pass"), **{"nvidia-smi": query("No")})
    made, case = bundle(logs, tmp_path / "rma")
    assert made.decision.status == "insufficient"
    assert status_of(case, "row-remap-failure") == "contradicted"


def test_a_power_cycle_counts_only_where_the_fault_came_back(tmp_path: Path) -> None:
    lost = "pid=4821, name=python3, GPU has fallen off the bus."
    boot = kernel(300.0, HOST, "Linux version 5.15.0-105-generic (builder@host) (gcc 11.4.0) #115-Ubuntu SMP")
    states = {}
    for name, more in (("no boot", []), ("boot", boot), ("back", [*boot, *xid(400.0, HOST, BUS, 79, lost)])):
        files = torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {3: -6})
        files[f"kern-{HOST}.log"] = [
            *kernel(1.0, HOST, "Linux version 5.15.0-105-generic (builder@host) (gcc 11.4.0) #115-Ubuntu SMP"),
            *xid(31.0, HOST, BUS, 79, lost),
            *more,
        ]
        _, case = bundle(write(tmp_path / name / "logs", files), tmp_path / name / "rma", node=HOST, pci=BUS)
        states[name] = next(test.status for test in case.tests if test.id == "power-cycle")
    assert states == {"no boot": "not done", "boot": "done", "back": "fault"}


@pytest.mark.parametrize("number", [48, 63, 64, 74, 79, 95, 119, 140, 149])
def test_an_error_number_alone_never_meets_a_rule(tmp_path: Path, number: int) -> None:
    files = torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {3: -6})
    files[f"kern-{HOST}.log"] = xid(31.0, HOST, BUS, number, "pid=4821, name=python3, text")
    made, _ = bundle(write(tmp_path / "logs", files), tmp_path / "rma", force=True, node=HOST, pci=BUS)
    assert made.decision.status != "meets-criteria"


def test_a_log_that_is_silent_rules_nothing_out(tmp_path: Path) -> None:
    """A kernel log may be cut to the driver's lines; an error of the firmware's processor may be the driver's."""
    files = torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {3: -6})
    files[f"kern-{HOST}.log"] = xid(31.0, HOST, BUS, 119, "pid=4821, name=python3, Timeout waiting for RPC from GSP!")
    _, case = bundle(write(tmp_path / "logs", files), tmp_path / "rma", node=HOST, pci=BUS)
    standing = {cause.what: cause.standing for cause in case.excluded}
    assert standing["driver and configuration"] == standing["storage"] == "no sign"
    assert standing["power and cooling"] == "not shown" and standing["the application"] == "ruled out"


def test_an_application_failure_is_no_hardware(tmp_path: Path) -> None:
    words = raises("ValueError: bad sample")
    diagnosis = diagnose(tmp_path / "logs", torchrun({0: iterations(3), 1: words, 2: [], 3: []}, {1: 1}))
    assert diagnosis.verdict.class_ == "application"
    with pytest.raises(NotHardware, match=r"no hardware fault.*--force"):
        diagnosis.bundle(tmp_path / "rma")
    made = diagnosis.bundle(tmp_path / "rma", force=True)
    assert made.decision.status == "not-hardware" and made.decision.forced
    page = (tmp_path / "rma/data/report.html").read_text()
    assert page.index("not a hardware case") < page.index("<h2>")


def test_the_other_gpu_of_the_node_is_not_accused(tmp_path: Path) -> None:
    with pytest.raises(NotHardware):
        bundle(write_complete(tmp_path / "logs"), tmp_path / "rma", node=HOST, pci="0000:1b:00.0")


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"node": HOST},
        {"node": HOST, "gpu": 1},
        {"serial": SERIAL},
        *({"pci": text} for text in ("0000:cb:00", "0000:CB:00.0", "00000000:CB:00.0", "PCI:0000:cb:00", "cb:00.0")),
    ],
)
def test_a_gpu_is_the_same_by_every_name(tmp_path: Path, choice: dict[str, object]) -> None:
    made, case = bundle(write_complete(tmp_path / "logs"), tmp_path / "rma", **choice)
    assert made.decision.status == "meets-criteria" and case.part == f"GPU {BUS} of {HOST}"


def test_what_a_card_did_in_another_node_is_its_history(tmp_path: Path) -> None:
    logs = write_complete(tmp_path / "logs")
    bad = {
        "entity_group": "GPU",
        "entity_id": 0,
        "status": "Fail",
        "warnings": [{"warning": "old", "error_category": 10}],
    }
    entities = [{"entity_id": 0, "serial_num": SERIAL}]
    report = {
        "DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory", "results": [bad]}]}]},
        "entity_groups": [{"entities": entities}],
    }
    (logs / f"dcgm-diag-{HOSTS[0]}.json").write_text(json.dumps(report))
    _, case = bundle(logs, tmp_path / "rma")
    assert any("memory: Fail: old" in sign.text for c in case.decision.criteria for sign in c.signs) or any(
        "old" in str(test.result) for test in case.tests
    )


def test_several_nodes_leave_the_choice_to_the_user(tmp_path: Path) -> None:
    files = torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {1: -6, 3: -6})
    for host in HOSTS[:2]:
        files[f"kern-{host}.log"] = xid(31.0, host, BUS, 79, "pid=4821, name=python3, GPU has fallen off the bus.")
    diagnosis = diagnose(tmp_path / "logs", files)
    assert len(diagnosis.initiator.nodes) == 2
    with pytest.raises(UsageError, match="choose one with --node"):
        diagnosis.bundle(tmp_path / "rma")
    assert diagnosis.bundle(tmp_path / "rma", node=HOST).decision.headline.startswith(f"GPU {BUS} of {HOST}")


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    files = torchrun({0: iterations(30), 1: [], 2: [], 3: []}, {3: -6})
    text = "pid=4821, name=<script>alert(1)</script>, \x1b[2J=cmd|' /C calc'!A0 \u202eevil"
    files[f"kern-{HOST}.log"] = [*xid(31.0, HOST, BUS, 79, text), *kernel(31.0, HOST, "=1+1")]
    bundle(write(tmp_path / "logs", files), tmp_path / "rma", node=HOST, pci=BUS)
    page = (tmp_path / "rma/data/report.html").read_text()
    assert "<script>" not in page and "\x1b" not in page and "\u202e" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in (tmp_path / "rma/data/timeline.csv").read_text()


def test_the_data_files_fit_each_other() -> None:
    """Every step that a rule asks for exists for its kind of part, and every event is one that a parser gives."""
    from correlator.plugins import load_parsers

    steps = {step["id"]: step for step in load_data("tests")["test"]}
    kinds = {kind["id"] for kind in load_data("attachments")["kind"]}
    for rule in load_data("criteria")["criterion"]:
        for name in [*rule["confirm"], *([rule["reading"]] if "reading" in rule else [])]:
            assert set(rule["parts"]) & set(steps[name]["parts"]), (rule["id"], name)
    for step in steps.values():
        assert set(step.get("attachments", [])) <= kinds
    sources = Path(correlator.__file__).parents[1].joinpath("parsers").glob("*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    given = {pattern.event for parser in load_parsers() for pattern in parser.patterns}
    for event in sorted(events_in_data()):
        assert event in given or f'"{event}"' in text, event
    entries = {signature.id for signature in load_signatures()}
    assert signatures_in_data() <= entries, signatures_in_data() - entries


def signatures_in_data() -> set[str]:
    found: set[str] = set()
    for name in ("criteria", "tests", "excluded", "labels"):
        pending: list[object] = [load_data(name)]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                found |= {*value.get("signature", []), *value.get("signatures", [])}
                pending += value.values()
            elif isinstance(value, list):
                pending += value
    return found


def events_in_data() -> set[str]:
    found = {match.event for match in story._TAKEN} | story._COUNTERS
    for name in ("criteria", "tests", "excluded", "attachments", "labels", "identity"):
        pending: list[object] = [load_data(name)]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                found |= {value["event"]} if isinstance(value.get("event"), str) else set()
                found |= {source.partition(":")[0] for source in value.get("from", [])}
                found |= set(value.get("events", []))
                pending += value.values()
            elif isinstance(value, list):
                pending += value
    return found
