"""Wording that many texts share, and how far the time of a failure is known."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from correlator import phrases
from correlator.attribution.actions import _filled, _on_node
from correlator.phrases import agree, named_ranks
from correlator.pipeline import diagnose

FIXTURES = Path(__file__).parents[1] / "fixtures" / "cases"


@pytest.mark.parametrize("module", [phrases])
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert tried and not failed


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("Rank 2-3 was too slow", "Ranks 2-3 were too slow"),
        ("Rank 2 was too slow", "Rank 2 was too slow"),
        ("the logs of rank 0-2,4-7", "the logs of ranks 0-2,4-7"),
        ("ranks 1,5 left", "ranks 1,5 left"),
        ("steps 11 to 11 are repeated", "step 11 is repeated"),
        ("steps 11 to 14 are repeated", "steps 11 to 14 are repeated"),
    ],
)
def test_number_agrees(text, better):
    assert agree(text) == better


def test_ranks_by_name():
    assert [named_ranks(r) for r in ([5], [1, 5], [3, 2])] == ["rank 5", "ranks 1,5", "ranks 2-3"]


def test_placeholders_are_filled_from_what_is_known_and_quoted():
    values = {"node": "gpu-a017", "rank": "3", "gpu": None, "pci_bus_id": None, "pid": "4720", "job": "77; rm -rf /"}
    assert _filled("sacct -j JOBID", values) == "sacct -j '77; rm -rf /'"
    assert _filled("scontrol show node {node} # NODE", values) == "scontrol show node gpu-a017 # gpu-a017"
    assert _filled("nvidia-smi -i {gpu}", values) == "ssh gpu-a017 nvidia-smi -i GPU"
    assert _filled("squeue --job=$JOBID", {**values, "job": None}) == "squeue --job=$JOBID"
    assert _filled(None, values) is None


def test_a_local_command_goes_to_its_node_whole():
    assert _on_node("dmesg -T | grep -i xid", "gpu-a017") == "ssh gpu-a017 'dmesg -T | grep -i xid'"
    assert _on_node("dmesg -T", None) == "dmesg -T"
    assert _on_node("sacct -j 7", "gpu-a017") == "sacct -j 7"


def test_a_reported_death_comes_before_the_cleaning_up_that_it_set_off():
    found = diagnose(FIXTURES / "kill-02" / "logs")
    graph, (first,) = found.graph, [n for n, d in found.graph.nodes(data=True) if d["role"] == "initiator"]
    stopped = [n for n, d in graph.nodes(data=True) if d["event"] == "torchrun.signal_sent"]
    assert stopped and all(graph.nodes[n]["time"] >= graph.nodes[first]["time"] for n in stopped)
    assert [graph.edges[first, n]["rule"] for n in stopped] == ["launcher stopped the siblings"] * len(stopped)
    assert found.initiator.time == graph.nodes[first]["time"]
    assert "Rank 5 printed no error; its launcher reports exit code -9." in found.verdict.summary
    assert found.job.started <= found.initiator.time <= found.job.ended
