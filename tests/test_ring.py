"""Which node's link leaves the members of a ring stuck as they say; look-alikes that must name nobody this way."""

import pytest
from joblogs import HOSTS, arguments, diagnose, findings, gloo_timeout, iterations, peer_closed, phase, torchrun

from correlator.cascade.ring import stuck_at

RULE = "stuck around one node"


def cut_around(ring, rank):
    return [frozenset(pair) for pair in zip(ring, (*ring[1:], ring[0]), strict=True) if rank in pair]


def test_a_ring_whose_members_all_entered_comes_to_its_end():
    assert set(stuck_at(range(5), absent=[], cut=[]).values()) == {"done"}


@pytest.mark.parametrize("size", [3, 4, 5, 8])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_around_a_cut_rank_the_one_that_it_feeds_and_it_itself_wait_to_receive_and_the_next_waits_to_send(size, rank):
    stuck = stuck_at(range(size), absent=[], cut=cut_around(range(size), rank))
    assert stuck[(rank - 1) % size] == stuck[rank] == "recv"
    assert stuck[(rank + 1) % size] == "send"


def test_in_a_ring_of_two_a_cut_link_leaves_both_alike():
    assert stuck_at([0, 1], absent=[], cut=[frozenset((0, 1))]) == {0: "recv", 1: "recv"}


def test_who_never_entered_leaves_the_others_as_a_cut_link_does_and_says_nothing_itself():
    cut = stuck_at(range(4), absent=[], cut=cut_around(range(4), 1))
    assert stuck_at(range(4), absent=[1], cut=[]) == {rank: way for rank, way in cut.items() if rank != 1}


def three_nodes(stuck, codes=None, closed=()):
    """Two ranks a node, summed over nodes; ``stuck`` says how each rank waited in vain, ``closed`` who lost a peer."""
    words = {rank: [] for rank in range(6)}
    words |= {rank: gloo_timeout(rank, direction=way) for rank, way in stuck.items()}
    words |= {rank: peer_closed(rank) for rank in closed}
    head = {0: [*arguments(world=6, tp=2), *phase(-5)], 5: iterations(20)}
    return torchrun(words, codes, head=head)


def test_the_pattern_of_one_cut_link_names_its_node(tmp_path):
    found = diagnose(tmp_path, three_nodes({0: "send", 1: "send", 2: "recv", 3: "recv", 4: "recv", 5: "recv"}))
    assert found.initiator.nodes == [HOSTS[2]]
    assert found.initiator.ranks == [4, 5]
    assert (found.verdict.class_, found.verdict.signature) == ("infrastructure", "link-down")


def test_a_rank_stopped_before_it_could_speak_did_not_stop_the_sum_that_its_sibling_stood_in(tmp_path):
    """Rank 5 is the only one without an error, but no sum that lacks only it would have held up ranks 0, 2 and 4."""
    found = diagnose(tmp_path, three_nodes({0: "send", 1: "send", 2: "recv", 3: "recv", 4: "recv"}, {5: -15}))
    assert found.initiator.nodes == [HOSTS[2]]
    assert found.initiator.ranks == [4, 5]


def test_a_rank_killed_while_the_network_was_cut_already_is_not_what_its_peers_waited_for(tmp_path):
    """Nobody saw the killed rank's connections close, and ranks 2 and 3 would wait to send if it were missing alone."""
    files = three_nodes({2: "recv", 3: "recv", 4: "recv", 5: "recv"}, {1: -9, 0: -15})
    found = diagnose(tmp_path, files)
    assert found.initiator.nodes == [HOSTS[2]]


def test_a_rank_that_is_in_no_sum_leaves_the_same_pattern_in_its_own_ring_only(tmp_path):
    """Ranks 1, 3 and 5 are through; that 0 never came and that its link is cut both explain the other ring."""
    found = diagnose(tmp_path, three_nodes({2: "send", 4: "recv"}, {0: -15, 1: -15, 3: -15, 5: -15}))
    assert RULE not in findings(found)


def test_where_connections_were_seen_closing_the_pattern_is_that_of_the_end_only(tmp_path):
    found = diagnose(tmp_path, three_nodes({0: "recv", 1: "recv", 5: "recv"}, closed=(2, 3, 4)))
    assert RULE not in findings(found)


def test_one_member_that_saw_the_first_of_the_waiters_leave_does_not_hide_what_the_others_say(tmp_path):
    words = {rank: gloo_timeout(rank, direction=way) for rank, way in {1: "recv", 2: "recv", 3: "send"}.items()}
    head = {0: [*arguments(world=4), *phase(-5)], 3: iterations(20)}
    found = diagnose(tmp_path, torchrun({0: peer_closed(0), **words}, per_node=1, head=head))
    assert (found.initiator.nodes, found.initiator.ranks) == ([HOSTS[2]], [2])


def test_two_nodes_look_alike_and_neither_is_named(tmp_path):
    head = {0: [*arguments(world=4, tp=2), *phase(-5)], 3: iterations(20)}
    found = diagnose(tmp_path, torchrun({rank: gloo_timeout(rank) for rank in range(4)}, head=head))
    assert RULE not in findings(found)
    assert found.initiator.ranks == []
