"""The registry of causal rules: which functions look for an initiator, in the order of trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from correlator.cascade import absence, exits, flight, local, named, outside, protocol, ring, start, transport, watchdog
from correlator.cascade.model import Facts, Finding

Rule = Callable[[Facts], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    outside.the_whole_job,
    outside.peers_contradict_each_other,
    outside.agent_was_told_to_stop,
    local.own_error,
    start.rendezvous_failed,
    start.versions_differ,
    start.ranks_taken_twice,
    flight.recorded_mismatch,
    flight.waits_in_a_circle,
    flight.recorded_as_missing,
    protocol.mismatched_collective,
    protocol.named_by_all,
    protocol.named_as_missing,
    watchdog.behind_the_others,
    watchdog.missing_from_the_timeouts,
    named.end_of_the_waiting,
    protocol.sizes_disagree,
    watchdog.divergent_collectives,
    protocol.wait_for,
    ring.broken_ring,
    exits.sudden_exit,
    exits.killed_launcher,
    absence.did_not_stop_on_sigterm,
    absence.silent_rank,
    absence.node_without_last_word,
    absence.silent_node,
    outside.restarted_alone,
    absence.lost_by_the_controller,
    transport.store_host_gone,
    transport.no_route_at_start,
    transport.accused_host,
    named.death_reported_at_one_host,
    transport.both_ends_of_a_path,
    transport.late_comer,
    absence.output_ended_early,
    absence.behind_in_steps,
    flight.everybody_entered,
    transport.everybody_waits_in_company,
)


def find_initiators(facts: Facts) -> list[Finding]:
    """Everything the rules find, in rule order; which one is the answer is decided by the attribution."""
    return [finding for rule in RULES for finding in rule(facts)]
