"""Logs that were not collected, or only in part, accuse nobody: each with the like case in which they would."""

import gzip

from joblogs import (
    diagnose,
    findings,
    gloo_timeout,
    iterations,
    peer_closed,
    raises,
    rendezvous,
    torchrun,
    write,
)

import correlator

ERROR = "ValueError: token 50312 is outside of the vocabulary of 50304"
HOSTS = ("gpu-a017", "gpu-a018")


def per_rank(*, without=None, empty=None, words=gloo_timeout):
    """The files of torchrun's workers on two nodes, two ranks each, beside those of the launchers."""
    files = {
        f"agents/{h}.log": rendezvous(0, h, [2 * i, 2 * i + 1], group_rank=i, world=4) for i, h in enumerate(HOSTS)
    }
    for rank in range(4):
        folder = f"{HOSTS[rank // 2]}/none_x7k2m9q{rank // 2}/attempt_0/{rank % 2}"
        files[f"{folder}/stdout.log"] = iterations(30) if rank == 0 else []
        if rank != without:
            files[f"{folder}/stderr.log"] = [] if rank == empty else list(words(rank))
    return files


def test_a_rank_whose_empty_file_is_there_is_silent(tmp_path):
    found = diagnose(tmp_path, per_rank(empty=2))
    assert found.topology.ranks[2].collected
    assert found.initiator.ranks == [2] and found.initiator.silent


def test_a_rank_whose_own_file_is_missing_is_not_silent(tmp_path):
    found = diagnose(tmp_path, per_rank(without=2))
    assert not found.topology.ranks[2].collected
    assert found.topology.ranks[3].collected
    assert found.initiator.ranks == []


def test_a_rank_whose_own_file_cannot_be_read_is_not_silent(tmp_path):
    write(tmp_path, per_rank(without=2))
    packed = gzip.compress("\n".join(gloo_timeout(2)).encode())
    (tmp_path / "gpu-a018/none_x7k2m9q1/attempt_0/0/stderr.log.gz").write_bytes(packed[:12])
    found = correlator.diagnose(tmp_path, workers=1)
    assert not found.topology.ranks[2].collected
    assert found.initiator.ranks == []


def test_a_rank_without_a_file_that_speaks_in_its_nodes_stream_was_collected(tmp_path):
    files = per_rank(without=2)
    files["agents/gpu-a018.log"] += [f"[rank2]: {line}" for line in gloo_timeout(2)]
    assert diagnose(tmp_path, files).topology.ranks[2].collected


def test_a_node_without_its_launchers_file_did_not_go_without_a_last_word(tmp_path):
    launchers = torchrun({rank: peer_closed(rank) for rank in (0, 1)}, {0: 1, 1: 1}, head={0: iterations(30)})
    files = {"agents/gpu-a017.log": launchers["gpu-a017.log"]}
    worker = "gpu-a018/none_x7k2m9q1/attempt_0"
    files |= {f"{worker}/{local}/stderr.log": ["W0314 10:00:01.000000 4900 warmed up"] for local in (0, 1)}
    place = rendezvous(0, "gpu-a018", [2, 3], group_rank=1, world=4)
    with_launcher = diagnose(tmp_path / "a", {**files, "agents/gpu-a018.log": place})
    assert "node without a last word" in findings(with_launcher)
    assert "node without a last word" not in findings(diagnose(tmp_path / "b", files))


def places(*nodes, world):
    """Launchers of two-rank nodes that state their place, and one worker's file of a node that states none."""
    files = {
        f"agents/gpu-b0{n}.log": rendezvous(0, f"gpu-b0{n}", [2 * n, 2 * n + 1], group_rank=n, world=world)
        for n in nodes
    }
    files |= {f"gpu-b0{n}/none_c4w8r1t{n}/attempt_0/0/stdout.log": iterations(3) for n in nodes}
    return files | {"gpu-a018/none_x7k2m9qp/attempt_0/1/stderr.log": raises(ERROR)}


def test_a_node_takes_the_only_place_that_is_left(tmp_path):
    found = diagnose(tmp_path, places(0, 2, world=6))
    assert found.topology.base_of_node["gpu-a018"] == 2


def test_a_node_takes_no_place_where_two_are_left(tmp_path):
    found = diagnose(tmp_path, places(2, world=6))
    assert "gpu-a018" in found.topology.collected_nodes
    assert "gpu-a018" not in found.topology.base_of_node


def cut_at(folder, name, words):
    """Cuts a file behind the last occurrence of some words and diagnoses the folder."""
    path = folder / name
    text = path.read_text()
    path.write_text(text[: text.rindex(words) + len(words)])
    return correlator.diagnose(folder, workers=1)


def test_a_symptom_cut_inside_its_text_is_no_cause(tmp_path):
    write(tmp_path, {f"rank_{r}.log": gloo_timeout(r) for r in range(4)})
    found = cut_at(tmp_path, "rank_2.log", "RuntimeError: [")
    assert not any(2 in f.incident.ranks for f in findings(found).values())


def test_a_traceback_cut_inside_a_collective_is_no_cause(tmp_path):
    write(tmp_path, {f"rank_{r}.log": gloo_timeout(r) for r in range(4)})
    found = cut_at(tmp_path, "rank_2.log", "work.wait()")
    assert not any(2 in f.incident.ranks for f in findings(found).values() if f.trust == "local")


def test_a_whole_exception_without_a_text_is_a_cause_though_a_peers_symptom_begins_like_it(tmp_path):
    files = {f"rank_{r}.log": gloo_timeout(r) for r in range(4)} | {"rank_2.log": raises("RuntimeError")}
    assert diagnose(tmp_path, files).initiator.ranks == [2]


def test_an_output_that_ends_early_accuses_nobody(tmp_path):
    files = {"gpu-a017.log": iterations(30), "gpu-a018.log": iterations(20)}
    found = diagnose(tmp_path, files)
    assert "output ended early" in findings(found)
    assert found.verdict.confidence < 0.5
