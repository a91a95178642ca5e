"""The causal graph and the diagnosis made of it: causes before effects, waves instead of ranks, the same bytes each time."""

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joblogs import (
    abort_notice,
    arguments,
    barrier_missing,
    barrier_victim,
    death_signal,
    diagnose,
    dump_signal,
    gloo_timeout,
    gpu_off_the_bus,
    iterations,
    labelled,
    nccl_init,
    peer_closed,
    phase,
    raises,
    slurm_cancelled,
    srun_exit,
    torchrun,
    watchdog,
    write,
)

import correlator
from correlator.diagnosis import to_json

BAD_TOKEN = "ValueError: token 50312 is outside of the vocabulary of 50304"


def own_error():
    return torchrun(
        {0: peer_closed(0), 1: [], 3: raises(BAD_TOKEN, rank=3), 2: peer_closed(2)}, {1: -15}, head={0: iterations(30)}
    )


def lost_gpu(world=64):
    """One GPU leaves the bus; all other ranks time out ten minutes later and tell each other."""
    per_node, files = 16, {}
    for node in range(world // per_node):
        host = ("gpu-a017", "gpu-a018", "gpu-b021", "gpu-b022")[node]
        ranks = range(node * per_node, (node + 1) * per_node)
        files[f"{host}.log"] = [
            *(
                x
                for r in ranks
                for x in nccl_init(host, r, world=world, bus=f"{r % per_node + 1:x}b000", gpu=r % per_node)
            ),
            *iterations(30),
            *(x for r in ranks if r != 21 for x in watchdog(r, 630 + r / 100)),
            *(x for r in ranks if r != 21 for x in dump_signal(r, 631, sender=0)),
        ]
    files["journal/gpu-a018.log"] = gpu_off_the_bus(30.5, "gpu-a018", "0000:6b:00", 21)
    return files


def barrier():
    words = {
        0: barrier_missing(0, 90, [3]),
        1: barrier_victim(1, 91, group_rank=1),
        2: barrier_victim(2, 91, group_rank=2),
        3: [],
    }
    return {f"rank_{r}.log": [*(iterations(30) if r == 1 else phase(0)), *w] for r, w in words.items()}


def hang():
    files = {f"rank_{r}.log": gloo_timeout(r) for r in range(1, 4)}
    return {"rank_0.log": arguments(world=4)} | files | {"rank_3.log": [*iterations(30), *files["rank_3.log"]]}


def sruns_stream():
    lines = [*labelled(3, iterations(30)), *(x for r in (0, 1) for x in labelled(r, peer_closed(r)))]
    return {"slurm-4242.out": [*lines, *srun_exit("gpu-a018", "2", "Killed"), *slurm_cancelled(31, "TASK FAILURE"), *srun_exit("gpu-a017", "0-1", "Terminated"), *srun_exit("gpu-a018", "3", "Terminated")]}  # fmt: skip


def preempted():
    return {"gpu-a018.log": [*iterations(30), *death_signal(31, 2, 3)]} | torchrun(
        {0: peer_closed(0), 1: peer_closed(1)}
    )


JOBS = {f.__name__: f for f in (own_error, lost_gpu, barrier, hang, sruns_stream, preempted)}


@pytest.fixture(scope="module", params=JOBS, ids=lambda n: n)
def found(request, tmp_path_factory):
    return diagnose(tmp_path_factory.mktemp(request.param), JOBS[request.param]())


# --- causes and effects ---------------------------------------------------------------------------------------------


def test_the_graph_has_no_cycles(found):
    assert nx.is_directed_acyclic_graph(found.graph)


def test_everything_that_follows_can_be_reached_from_the_initiator_and_nothing_leads_to_it(found):
    roots = [n for n, data in found.graph.nodes(data=True) if data["role"] == "initiator"]
    assert len(roots) == 1
    assert found.graph.in_degree(roots[0]) == 0
    assert set(found.graph) == {roots[0]} | nx.descendants(found.graph, roots[0])


def test_no_edge_runs_against_the_clock_beyond_its_bounds(found):
    for a, b in found.graph.edges:
        cause, effect = found.graph.nodes[a], found.graph.nodes[b]
        if None in (cause["time"], effect["time"], cause["bound_ns"], effect["bound_ns"]):
            continue
        slack = (cause["bound_ns"] + effect["bound_ns"]) / 1e9
        assert (cause["time"] - effect["time"]).total_seconds() <= slack


def test_every_edge_names_the_rule_that_drew_it(found):
    assert all(rule for _, _, rule in found.graph.edges(data="rule"))


def test_the_cascade_lists_causes_before_effects(found):
    place = {event.id: n for n, event in enumerate(found.document.cascade)}
    assert place
    for event in found.document.cascade:
        assert all(place[cause] < place[event.id] for cause in event.caused_by)


def test_every_entry_of_the_cascade_points_to_a_line_that_exists(found):
    for event in found.document.cascade:
        if event.evidence is not None:
            around = found.neighbourhood(event.evidence.file, event.evidence.line, before=0, after=0)
            assert len(around) == 1


def test_the_initiators_ranks_are_never_among_the_collateral_ones(found):
    assert not set(found.initiator.ranks) & set(found.document.collateral.ranks)


# --- waves ----------------------------------------------------------------------------------------------------------


def test_the_time_outs_of_many_ranks_are_one_wave(tmp_path):
    found = diagnose(tmp_path, lost_gpu())
    assert found.initiator.ranks == [21]
    wave = next(e for e in found.document.cascade if len(e.ranks) == 63)
    assert wave.role == "collateral"
    assert len(found.document.cascade) < 8


def test_what_a_process_prints_as_it_goes_down_follows_from_its_time_out(tmp_path):
    files = lost_gpu(world=32)
    files["gpu-a017.log"] += [line for r in range(16) for line in abort_notice(r, 632)]
    found = diagnose(tmp_path, files)
    notice = next(n for n, d in found.graph.nodes(data=True) if d["event"] == "c10d.abort_notice")
    (cause,) = found.graph.predecessors(notice)
    assert found.graph.nodes[cause]["event"] == "c10d.watchdog_timeout"
    assert found.graph.edges[cause, notice]["rule"] == "same process"


def test_what_a_process_printed_long_before_its_time_out_does_not_follow_from_it(tmp_path):
    files = {
        "rank_0.log": [*iterations(30), *abort_notice(0, 40), *watchdog(0, 700)],
        "rank_1.log": [*iterations(30), *raises(BAD_TOKEN, rank=1)],
    }
    found = diagnose(tmp_path, files)
    notice = next(n for n, d in found.graph.nodes(data=True) if d["event"] == "c10d.abort_notice")
    assert "c10d.watchdog_timeout" not in {found.graph.nodes[n]["event"] for n in found.graph.predecessors(notice)}


def test_time_outs_of_two_groups_are_two_waves(tmp_path):
    files = {
        f"rank_{r}.log": [
            *iterations(30 if r == 3 else 0),
            *watchdog(r, 630, group=("14(TP)", "15(TP)")[r // 2], group_rank=r % 2),
        ]
        for r in range(4)
    }
    found = diagnose(tmp_path, files)
    waves = [d["ranks"] for _, d in found.graph.nodes(data=True) if d["event"] == "c10d.watchdog_timeout"]
    assert sorted(waves) == [[0, 1], [2, 3]]


def test_siblings_were_stopped_by_the_launcher_because_a_worker_failed(tmp_path):
    files = torchrun({0: peer_closed(0), 1: peer_closed(1), 3: raises(BAD_TOKEN, rank=3), 2: []}, {2: -15})
    found = diagnose(tmp_path, files)
    stopped = next(n for n, d in found.graph.nodes(data=True) if d["event"] == "torchrun.signal_sent")
    (cause,) = found.graph.predecessors(stopped)
    assert found.graph.edges[cause, stopped]["rule"] == "launcher stopped the siblings"


def test_a_line_of_unknown_time_gets_no_time_in_the_cascade(tmp_path):
    """A traceback without a stamp only inherits the time of an older line."""
    found = diagnose(
        tmp_path, {"rank_0.log": [*iterations(30), *peer_closed(0)], "rank_1.log": raises(BAD_TOKEN, rank=1)}
    )
    collateral = next(e for e in found.document.cascade if e.role == "collateral")
    assert collateral.time is None


def test_a_clean_run_has_no_cascade_with_an_initiator(tmp_path):
    found = diagnose(tmp_path, {"rank_0.log": iterations(1000, first=990)})
    assert not [e for e in found.document.cascade if e.role == "initiator"]


# --- the same bytes -------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_neither_the_order_in_which_files_were_made_nor_the_number_of_workers_changes_a_byte(tmp_path_factory, data):
    make = JOBS[data.draw(st.sampled_from(sorted(JOBS)), label="job")]
    files = list(make().items())
    shuffled = data.draw(st.permutations(files), label="order")
    first = correlator.diagnose(write(tmp_path_factory.mktemp("as-is"), dict(files)), workers=1)
    again = correlator.diagnose(write(tmp_path_factory.mktemp("shuffled"), dict(shuffled)), workers=1)
    assert to_json(first.document) == to_json(again.document)


@pytest.mark.parametrize("job", ["own_error", "lost_gpu"])
def test_two_workers_give_the_bytes_of_one(tmp_path, job, monkeypatch):
    monkeypatch.setattr("correlator.ingest.planning.UNIT_BYTES", 1 << 12, raising=False)
    logs = write(tmp_path, JOBS[job]())
    one, two = correlator.diagnose(logs, workers=1), correlator.diagnose(logs, workers=2)
    assert to_json(one.document) == to_json(two.document)
