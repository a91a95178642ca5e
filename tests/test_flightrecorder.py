"""Flight-recorder dumps: read in every version, joined between ranks and with the logs; no dump accuses nobody."""

import gzip
import os
import pickle
import shutil
from pathlib import Path

import pytest
from dumps import PROTOCOL, WORLD, call, done, dump, put, stuck
from joblogs import findings, raises, torchrun, watchdog_status, write

import correlator
from correlator.cli import main
from correlator.flightrecorder.reader import Refused, is_dump, read_dump
from correlator.report.text import render_text

REAL = Path(__file__).parent / "data" / "flightrecorder"
TENSOR, DATA = ("14", "TENSOR_MODEL_PARALLEL_GROUP"), ("20", "DATA_PARALLEL_GROUP")


def diagnose(folder):
    return correlator.diagnose(folder, workers=1)


def waiters(*ranks, seq=31):
    """Dumps of ranks that are stuck in the collective ``seq``."""
    return {rank: [*done(seq - 1, seq - 10), stuck(seq)] for rank in ranks}


# --- written by torch 2.13, Gloo ------------------------------------------------------------------------------------


def test_a_real_dump_shows_the_rank_that_never_came():
    found = diagnose(REAL / "missing")
    assert found.initiator.ranks == [2]
    assert found.verdict.signature == "rank-hang"
    assert found.document.collateral.ranks == [0, 1, 3]
    (wave,) = [e for e in found.document.cascade if e.role == "collateral"]
    assert (wave.ranks, wave.rule) == ([0, 1, 3], "waited for it")
    assert not found.initiator.silent  # its log is not there, so nothing is known of what it printed


def test_a_real_dump_in_json_shows_the_rank_that_called_something_else():
    found = diagnose(REAL / "mismatch")
    assert found.initiator.ranks == [1]
    assert found.verdict.class_ == "application"
    assert "broadcast" in found.verdict.summary and "all_reduce" in found.verdict.summary


def test_a_real_circle_names_both_groups():
    found = diagnose(REAL / "circle")
    assert found.verdict.signature == "collective-cycle"
    assert found.initiator.ranks == [0, 1]
    assert "process groups 1 and 2" in found.verdict.title


# --- versions and forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "form"),
    [("early", "pickle"), ("2.1", "pickle"), ("2.4", "pickle"), ("2.4", "json"), ("2.10", "pickle"), ("2.10", "json")],
)
def test_every_version_shows_the_missing_member(tmp_path, version, form):
    ranks = {**waiters(0, 1, 3), 2: done(30, 21)}
    found = diagnose(put(tmp_path, ranks, version=version, form=form))
    assert found.initiator.ranks == [2]
    assert found.verdict.confidence >= 0.7
    assert found.job.world_size == 4


@pytest.mark.parametrize("prefix", ["comm_lib_trace_rank_", "my-dumps.", "node012/fr_"])
def test_dumps_are_known_by_their_content_whatever_the_prefix(tmp_path, prefix):
    folder, _, name = prefix.rpartition("/")
    put(tmp_path / folder, {**waiters(0, 1), 2: done(30, 21)}, prefix=name)
    assert diagnose(tmp_path).initiator.ranks == [2]


def test_a_folder_of_the_node_places_the_rank(tmp_path):
    ranks = {**waiters(0, 1, 3), 2: done(30, 21)}
    for rank, entries in ranks.items():
        put(tmp_path / f"gpu-a0{17 + rank // 2}", {rank: entries}, world=4)
    found = diagnose(tmp_path)
    assert (found.initiator.ranks, found.initiator.nodes) == ([2], ["gpu-a018"])


def test_a_text_log_is_no_dump():
    assert not is_dump("rank_0.jsonl", b'{"message": "the pg_config and the pg_status differ", "step": 3}\n')
    assert is_dump("rank_0.jsonl", b'{"pg_config": {}, "pg_status" : {}}')
    assert not is_dump("nccl_trace_rank_0", b"2025-03-14 10:00:00 NCCL INFO Bootstrap\n")
    assert is_dump("nccl_trace_rank_0", b"")


# --- what the dumps say ---------------------------------------------------------------------------------------------


def test_all_in_step_accuses_nobody(tmp_path):
    found = diagnose(put(tmp_path, {rank: done(30, 21) for rank in range(4)}))
    assert found.initiator.ranks == [] and not found.facts.recorded.waits


def test_a_call_under_way_on_all_ranks_is_no_failure(tmp_path):
    found = diagnose(put(tmp_path, {rank: [*done(30, 21), call(31, state="started")] for rank in range(4)}))
    assert found.initiator.ranks == []
    assert found.document.collateral.count == 0


def test_where_all_entered_and_were_given_up_the_job_failed_and_no_rank_is_named(tmp_path):
    found = diagnose(put(tmp_path, waiters(0, 1, 2, 3)))
    assert found.verdict.class_ == "unknown"
    assert (found.initiator.ranks, found.initiator.scope) == ([], "all")
    assert "nobody missing in number 31" in found.verdict.summary
    assert found.document.collateral.ranks == [0, 1, 2, 3]


def test_a_rank_whose_device_never_began_the_call_is_the_one_waited_for(tmp_path):
    ranks = {**waiters(0, 1, 3), 2: [*done(30, 21), stuck(31, state="scheduled")]}
    assert diagnose(put(tmp_path, ranks)).initiator.ranks == [2]


@pytest.mark.parametrize(
    ("odd", "aspect"),
    [(stuck(31, "broadcast"), "operations"), (stuck(31, size=4096), "sizes"), (stuck(31, dtype="Float"), "types")],
)
def test_the_majority_is_right_about_a_mismatch(tmp_path, odd, aspect):
    found = diagnose(put(tmp_path, {**waiters(0, 1, 3), 2: [*done(30, 21), odd]}))
    assert found.initiator.ranks == [2]
    assert (found.verdict.class_, found.verdict.signature) == ("application", "collective-mismatch")
    assert f"differs in its {aspect}" in found.verdict.summary


def test_two_members_cannot_outvote_each_other(tmp_path):
    found = diagnose(put(tmp_path, {**waiters(0), 1: [*done(30, 21), stuck(31, "broadcast")]}))
    assert found.initiator.ranks == []
    assert found.verdict.signature == "collective-mismatch"


def test_sizes_that_differ_by_design_are_no_mismatch(tmp_path):
    ranks = {rank: [*done(30, 21), stuck(31, "all_to_all", size=100 + rank)] for rank in range(4)}
    assert diagnose(put(tmp_path, ranks)).facts.recorded.mismatches == []


def test_a_mismatch_says_more_than_who_is_behind(tmp_path):
    ranks = {**waiters(0, 1, 3), 2: [*done(30, 21), stuck(31, "broadcast")]}
    ranks[0] = [*done(30, 21), call(31), stuck(32)]
    found = diagnose(put(tmp_path, ranks))
    assert found.initiator.ranks == [2] and "recorded as missing" not in findings(found)


def test_a_send_without_a_receive_accuses_the_receiver(tmp_path):
    ranks = {
        0: [*done(5), stuck(9, "send 0->1", p2p=True)],
        1: done(5),
        2: [*done(5), stuck(4, "recv 2<-1", p2p=True)],
    }
    assert diagnose(put(tmp_path, ranks)).initiator.ranks == [1]


def test_a_send_that_meets_its_receive_accuses_nobody(tmp_path):
    ranks = {0: [*done(5), stuck(9, "send 0->1", p2p=True)], 1: [*done(5), stuck(9, "recv 1<-0", p2p=True)]}
    assert diagnose(put(tmp_path, ranks)).facts.recorded.waits == []


def test_ranks_of_p2p_calls_are_those_of_their_group(tmp_path):
    pipe = ("7", "PIPELINE_MODEL_PARALLEL_GROUP")
    ranks = {1: [stuck(9, "send 0->1", group=pipe, p2p=True)], 3: done(3, group=pipe)}
    assert diagnose(put(tmp_path, ranks, {pipe: [1, 3]})).initiator.ranks == [3]


def test_who_waits_in_another_group_is_a_victim(tmp_path):
    """Rank 1 never enters the tensor group's call; rank 0 waits for it there, and rank 2 for rank 0 in another."""
    ranks = {
        0: [*done(4, group=DATA, pg_id=2), *done(8, group=TENSOR, pg_id=1), stuck(9, group=TENSOR, pg_id=1)],
        1: done(8, group=TENSOR, pg_id=1),
        2: [*done(4, group=DATA, pg_id=2), stuck(5, group=DATA, pg_id=2)],
    }
    found = diagnose(put(tmp_path, ranks, {TENSOR: [0, 1], DATA: [0, 2]}))
    assert found.initiator.ranks == [1]
    assert set(found.document.collateral.ranks) == {0, 2}


def test_a_circle_between_groups_is_a_verdict_of_its_own(tmp_path):
    ranks = {
        0: [*done(8, group=TENSOR, pg_id=1), *done(4, group=DATA, pg_id=2), stuck(9, group=TENSOR, pg_id=1)],
        1: [*done(8, group=TENSOR, pg_id=1), *done(4, group=DATA, pg_id=2), stuck(5, group=DATA, pg_id=2)],
    }
    found = diagnose(put(tmp_path, ranks, {TENSOR: [0, 1], DATA: [0, 1]}))
    assert found.verdict.signature == "collective-cycle"
    assert TENSOR[1] in found.verdict.title and DATA[1] in found.verdict.title


# --- what is not known ----------------------------------------------------------------------------------------------


def test_a_missing_dump_makes_its_rank_unknown_and_not_guilty(tmp_path):
    found = diagnose(put(tmp_path, waiters(0, 1, 3), world=4))
    assert found.initiator.ranks == []
    assert "rank 2" in found.verdict.summary
    assert found.verdict.confidence <= 0.5


def test_a_missing_dump_beside_a_known_culprit_lowers_the_confidence(tmp_path):
    whole = diagnose(put(tmp_path / "a", {**waiters(0, 1, 3), 2: done(30, 21)}))
    less = diagnose(put(tmp_path / "b", {**waiters(0, 1), 2: done(30, 21)}, world=4))
    assert less.initiator.ranks == whole.initiator.ranks == [2]
    assert less.verdict.confidence < whole.verdict.confidence


def test_a_full_ring_that_has_lost_the_group_accuses_nobody(tmp_path):
    put(tmp_path, waiters(0, 1), {WORLD: range(3)})
    put(tmp_path, {2: done(900, 890, group=TENSOR, pg_id=1)}, {WORLD: range(3), TENSOR: [2]}, first_record=5000)
    found = diagnose(tmp_path)
    assert found.initiator.ranks == []


@pytest.mark.parametrize("cut", [0, 1, 100, 2000])
def test_a_torn_dump_is_named_and_its_rank_unknown(tmp_path, cut):
    put(tmp_path, {**waiters(0, 1, 3), 2: done(30, 21)})
    torn = tmp_path / "nccl_trace_rank_2"
    torn.write_bytes(torn.read_bytes()[:cut])
    found = diagnose(tmp_path)
    assert found.initiator.ranks == []
    assert [w.file for w in found.document.inputs.warnings if "dump" in w.why] == ["nccl_trace_rank_2"]


class _Hostile:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def test_a_hostile_pickle_is_refused_and_does_nothing(tmp_path):
    put(tmp_path, waiters(0, 1))
    content = {**dump(done(3), {WORLD: range(3)}), "extra": _Hostile(tmp_path / "was-here")}
    (tmp_path / "nccl_trace_rank_2").write_bytes(pickle.dumps(content, PROTOCOL))
    found = diagnose(tmp_path)
    assert not (tmp_path / "was-here").exists()
    (warning,) = [w for w in found.document.inputs.warnings if w.file == "nccl_trace_rank_2"]
    assert "system" in warning.why


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02.",
        b"\x80\x02K\x01.",
        b"{",
        b"[" * 100_000,
        b'{"entries": 7}',
        b'{"pg_config": [], "entries": []}',
    ],
)
def test_what_is_no_dump_is_refused_with_a_sentence(data):
    with pytest.raises(Refused, match=r"\w"):
        read_dump(data, "nccl_trace_rank_0")


def test_absurd_values_are_taken_as_not_stated():
    odd = {"process_group": [7, None], "collective_seq_id": 10**30, "input_sizes": {"a": 1}, "profiling_name": ["x"]}
    odd2 = {**call(3), "time_created_ns": -5, "input_sizes": [[10**30]], "state": {}, "pg_id": [1]}
    content = {
        "entries": [odd, odd2, 5],
        "pg_config": {"0": {"name": "0", "ranks": [0, 1, "x", 10**20]}},
        "version": {},
    }
    (first, *_) = read_dump(pickle.dumps(content, PROTOCOL), "nccl_trace_rank_1").groups
    assert first.members == (0, 1)
    assert [c.number for c in first.calls] == [3] and first.calls[0].time_ns is None


# --- dumps and logs -------------------------------------------------------------------------------------------------


def test_the_dump_says_who_is_behind_and_the_log_what_it_died_of(tmp_path):
    put(tmp_path, {**waiters(0, 1, 3), 2: done(30, 21)})
    write(
        tmp_path,
        torchrun({2: raises("ValueError: bad shard 17", rank=2), 0: [], 1: [], 3: []}, {2: 1, 0: -6, 1: -6, 3: -6}),
    )
    found = diagnose(tmp_path)
    assert found.initiator.ranks == [2]
    assert "bad shard 17" in found.initiator.first_error.text
    assert findings(found)["recorded as missing"].incident.ranks == (2,)


def test_a_log_that_contradicts_the_dump_is_shown_and_lowers_the_confidence(tmp_path):
    put(tmp_path / "a", {**waiters(0, 1, 3), 2: done(30, 21)})
    alone = diagnose(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    write(tmp_path / "b", {"rank_2.log": watchdog_status(2, 660, seq=35, enqueued=35, completed=34)})
    both = diagnose(tmp_path / "b")
    assert both.verdict.confidence < alone.verdict.confidence
    assert "says it had enqueued 35, its dump only 30" in both.verdict.summary


def test_a_log_that_names_another_rank_is_shown_beside_the_dump(tmp_path):
    put(tmp_path / "a", {**waiters(0, 1, 3), 2: done(30, 21)})
    alone = diagnose(tmp_path / "a")
    write(
        tmp_path / "a",
        torchrun({3: raises("ValueError: bad shard 17", rank=3), 0: [], 1: [], 2: []}, {3: 1, 0: -6, 1: -6, 2: -6}),
    )
    both = diagnose(tmp_path / "a")
    assert both.initiator.ranks == [2]
    assert any("rank 3" in other.why for other in both.document.alternatives)
    assert both.verdict.confidence < alone.verdict.confidence


def test_the_log_of_a_dumped_rank_does_not_count_as_collected(tmp_path):
    found = diagnose(put(tmp_path, {**waiters(0, 1, 3), 2: done(30, 21)}))
    assert not any(rank.collected for rank in found.topology.ranks.values())


def test_the_report_shows_the_call_and_not_bytes(tmp_path):
    found = diagnose(put(tmp_path, {**waiters(0, 1, 3), 2: done(30, 21)}))
    text = render_text(found.document)
    assert "never entered the call that the peers wait in" in text
    assert "\x80" not in text and all(e.text.isprintable() for e in found.document.evidence)


@pytest.mark.parametrize("pack", ["gz", "tar.gz", "part"])
def test_packed_dumps_and_parts_say_the_same(tmp_path, pack):
    folder = put(tmp_path / "dumps", {**waiters(0, 1, 3), 2: done(30, 21)})
    if pack == "gz":
        for file in list(folder.iterdir()):
            (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    elif pack == "tar.gz":
        folder = Path(shutil.make_archive(str(tmp_path / "packed"), "gztar", folder))
    else:
        part = tmp_path / "events.parquet"
        assert main(["ingest", str(folder), "-o", str(part)]) == 0
        folder = part
    assert diagnose(folder).initiator.ranks == [2]


# --- torn dumps, and dumps of several attempts ----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_what_a_torn_dump_still_holds_is_used_and_its_lost_end_accuses_nobody(tmp_path, form):
    suffix = ".json" if form == "json" else ""
    put(tmp_path, {**waiters(0, 1), 2: done(30, 21), 3: [stuck(31), *done(60, 40)]}, form=form)
    for rank in (2, 3):
        torn = tmp_path / f"nccl_trace_rank_{rank}{suffix}"
        torn.write_bytes(torn.read_bytes()[: torn.stat().st_size * 6 // 10])
    found = diagnose(tmp_path)
    assert found.initiator.ranks == []  # rank 2 may have gone on behind the tear
    assert 3 in found.facts.recorded.waiting  # what rank 3 stands in is in the part that is left
    warnings = [w for w in found.document.inputs.warnings if "ends early" in w.why]
    assert [w.file for w in warnings] == [f"nccl_trace_rank_{r}{suffix}" for r in (2, 3)]


def test_a_dump_of_an_earlier_attempt_is_not_compared_with_those_of_the_last(tmp_path):
    put(tmp_path, {rank: [*done(9, at=4000.0), stuck(10, at=4001.0)] for rank in (0, 1)}, world=3)
    put(tmp_path, {2: done(7)}, world=3)
    found = diagnose(tmp_path)
    assert found.initiator.ranks == []
    assert "rank 2" in found.verdict.summary


def test_of_the_dumps_of_several_attempts_those_of_the_last_count(tmp_path):
    put(tmp_path / "attempt_0", {**waiters(0, 1), 2: done(30, 21)})
    put(tmp_path / "attempt_1", {**waiters(0, 2), 1: done(30, 21)})
    assert diagnose(tmp_path).initiator.ranks == [1]
