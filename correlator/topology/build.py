"""Who was there: the stages of the topology in order."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.grid import Grid
from correlator.ingest import Ingested
from correlator.records import Row
from correlator.topology.attempts import number_attempts
from correlator.topology.model import Topology
from correlator.topology.nodes import fold_addresses, fold_node_names, nodes_of_writers, place_rows
from correlator.topology.ranks import (
    bases_of_nodes,
    owners_of_error_files,
    ranks_by_own_words,
    ranks_of_default_group,
    ranks_of_writers,
    read_task_numbers,
    release_shared_streams,
)
from correlator.topology.roster import (
    fill_roster,
    find_world_size,
    join_rows,
    pids_and_gpus,
    ranks_of_files,
    ranks_whose_own_file_is_missing,
)


def build_topology(ingested: Ingested, rows: Sequence[Row]) -> Topology:
    """The topology stated by all sources together; also fills ``node`` and ``rank`` of rows and writers in place."""
    top = Topology()
    number_attempts(rows)
    fold_node_names(ingested.writers, rows)
    fold_addresses(ingested.writers, rows)
    nodes_of_writers(top, ingested, rows)
    release_shared_streams(ingested.writers, rows)
    place_rows(ingested.writers, rows)
    read_task_numbers(top, ingested.writers, rows)
    owners_of_error_files(top, ingested.files, ingested.writers, rows)
    ranks_of_default_group(rows)
    ranks_by_own_words(ingested.writers, rows)
    bases_of_nodes(top, ingested.writers, rows)
    ranks_of_writers(top, ingested.writers)
    place_rows(ingested.writers, rows)
    pids_and_gpus(top, rows)
    ranks_of_files(top, ingested.files, ingested.writers)
    find_world_size(top, rows)
    top.grid = Grid.from_rows(rows, top.world_size)
    fill_roster(top, ingested.writers, rows)
    ranks_whose_own_file_is_missing(top, ingested.files, ingested.writers, {w.name for w in ingested.warnings})
    join_rows(top, rows)
    return top
