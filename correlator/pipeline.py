"""diagnose(): the stages in order, each a function from values to a value.

Find the files, read the lines that matter into one event table, work out who was there, put all clocks on one time,
find what set off what, attribute, and say where to resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import networkx as nx
import pyarrow as pa

from correlator import diagnosis as out
from correlator.attribution.initiator import rank_findings
from correlator.attribution.jobfacts import clocks_of, describe_job, inputs_of, spanning
from correlator.attribution.narrative import cascade_events
from correlator.attribution.outcome import outcome_of
from correlator.attribution.resume import judge_resume, on_disk_too, resume_evidence
from correlator.attribution.verdict import attribute, collateral_of
from correlator.cascade.graph import build_graph
from correlator.cascade.incidents import build_incidents
from correlator.cascade.model import Facts
from correlator.cascade.rules import find_initiators
from correlator.clocks import align_clocks
from correlator.discovery import lies_below
from correlator.ingest import Ingested, Shard, find_parts, ingest, read_parts
from correlator.ingest.rows import PROGRESS, cast
from correlator.ingest.run import Progress
from correlator.rawtext import RawLines
from correlator.records import Row, read_rows
from correlator.signatures import assign, by_id, load_signatures, own_patterns
from correlator.topology.attempts import place_attempts
from correlator.topology.build import build_topology
from correlator.topology.model import Topology

if TYPE_CHECKING:
    import polars as pl

    from correlator.bundle.build import Bundle
    from correlator.plots.charts import AnyChart
    from correlator.plots.lanes import By
    from correlator.plots.moments import Story


@dataclass(frozen=True)
class Diagnosis:
    """A finished diagnosis: the contract's document, and the stages' results for a notebook."""

    document: out.Document
    graph: nx.DiGraph
    topology: Topology
    facts: Facts
    raw: RawLines
    places: tuple[str, ...] = ()

    @cached_property
    def table(self) -> pa.Table:
        """The event table (``events.SCHEMA``) with what the later stages found: time, bound, node, rank and bases."""
        rows = sorted((*self.facts.rows, *self.facts.progress), key=lambda row: row.index)
        return _filled_in(self.facts.ingested.events, rows)

    @cached_property
    def events(self) -> pl.DataFrame:
        """The event table as a polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def html(self) -> str:
        """The report as one HTML file that loads nothing."""
        from correlator.report.html import render_html

        return render_html(self.document, self.neighbourhood, self.story)

    @cached_property
    def story(self) -> Story:
        """Who did what when, and the roster: what the pictures are drawn from."""
        from correlator.plots.moments import story_of

        return story_of(self.document, self.graph, self.facts)

    def timeline(self, by: By = "auto") -> AnyChart:
        """Who did what when, as an Altair chart: a lane a ``rank``, a ``node``, or all that did the same (``auto``)."""
        from correlator.plots import charts

        return charts.timeline(self.story, by)

    def cascade(self) -> AnyChart:
        """What set off what, as an Altair chart. Needs the extra ``plots``, like the other charts."""
        from correlator.plots import charts

        return charts.cascade(self.document)

    def topology_grid(self) -> AnyChart:
        """Every rank a cell by its parallel place, coloured by role, as an Altair chart."""
        from correlator.plots import charts

        return charts.topology_grid(self.document, self.story)

    def clocks(self) -> AnyChart:
        """How far the nodes' clocks are apart, and how well that is known, as an Altair chart."""
        from correlator.plots import charts

        return charts.clocks(self.document.clocks)

    @property
    def job(self) -> out.Job:
        """Who was there."""
        return self.document.job

    @property
    def verdict(self) -> out.Verdict:
        """Whose fault it is."""
        return self.document.verdict

    @property
    def initiator(self) -> out.Initiator:
        """Who failed first."""
        return self.document.initiator

    @property
    def resume(self) -> out.Resume:
        """Where to resume."""
        return self.document.resume

    def neighbourhood(self, file: str, line: int, before: int = 3, after: int = 3) -> list[str]:
        """Raw lines around a place that the diagnosis names; empty for other places."""
        offset = self._offsets.get((file, line))
        return [] if offset is None else self.raw.neighbourhood(file, offset, before, after)

    def bundle(
        self,
        output: str | Path,
        *,
        node: str | None = None,
        gpu: int | None = None,
        pci: str | None = None,
        serial: str | None = None,
        redact: str = "default",
        mask: Sequence[str] = (),
        keep: Sequence[str] = (),
        private_map: str | Path | None = None,
        max_size: int | None = None,
        force: bool = False,
        operator: str | None = None,
    ) -> Bundle:
        """Writes the evidence for the return of a part to the folder or ``.zip`` file ``output``.

        Without a choice: of the part that failed first. ``max_size`` in bytes. Raises UsageError with one sentence,
        also for a part that these logs do not accuse unless ``force`` is set.
        """
        from correlator.bundle.build import MAX_SIZE, Options, write_bundle
        from correlator.bundle.subject import Choice

        options = Options(
            places=self.places,
            choice=Choice(node, gpu, pci, serial),
            redact=redact,
            mask=tuple(mask),
            keep=tuple(keep),
            private_map=Path(private_map) if private_map else None,
            max_size=max_size or MAX_SIZE,
            force=force,
            operator=operator,
        )
        return write_bundle(self, Path(output), options)

    @cached_property
    def _offsets(self) -> dict[tuple[str, int], int]:
        places = [*self.document.evidence, self.document.initiator.first_error]
        known = {(p.file, p.line): p.byte_offset for p in places if p is not None}
        return known | {(r.file, r.line): r.byte_offset for r in self.facts.rows}


def read_events(
    *places: str | Path,
    timezone: str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    shard: Shard | None = None,
    progress: Progress | None = None,
    confined: bool = False,
) -> Ingested:
    """The event table of the logs at ``places`` with signatures assigned, and what was read or left out.

    ``places`` may be parts that ``correlator ingest`` wrote: they are merged, and everything but ``progress`` was
    settled when they were written. ``confined``: no link below a place is followed, and no path that a part states.
    Raises UsageError or NothingReadable with one sentence for the user.
    """
    if shard is None and (parts := find_parts(places)):
        merged = read_parts(parts)
        if confined:  # a part may state any path as that of a log
            merged.sources = tuple(source for source in merged.sources if lies_below(source.path, places))
        return merged
    read = ingest(
        places, timezone=timezone, extra_patterns=own_patterns(load_signatures()), workers=workers, executor=executor,
        shard=shard, progress=progress, confined=confined,
    )  # fmt: skip
    read.events = assign(read.events)
    return read


def diagnose(
    *paths: str | Path,
    checkpoints: str | Path | None = None,
    timezone: str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    confined: bool = False,
) -> Diagnosis:
    """The diagnosis of the job whose logs (or parts of its event table) lie under ``paths``.

    ``timezone`` is the zone of stamps that state none (default UTC). ``confined``: nothing is read but what lies below
    ``paths`` (and ``checkpoints``): no link is followed, no folder looked into because a log names it. Raises
    UsageError or NothingReadable with one sentence for the user.
    """
    read = read_events(
        *paths, timezone=timezone, workers=workers, executor=executor, progress=progress, confined=confined
    )
    rows = read_rows(read.events)
    steps = [r for r in rows if r.event in PROGRESS]
    events = [r for r in rows if r.event not in PROGRESS]
    topology = build_topology(read, rows)
    clocks = align_clocks(events, steps)
    place_attempts(rows, [r for r in events if r.event == "torchrun.restart"])
    facts = Facts(read, events, steps, topology, clocks, by_id())
    facts.incidents = build_incidents(facts)
    findings = find_initiators(facts)
    ranked = rank_findings(facts, findings)
    outcome = outcome_of(facts, findings)
    chosen = ranked[0].finding if ranked and outcome.failed is not False else None
    graph = build_graph(facts, chosen, [r.finding for r in ranked[1:]])
    raw = RawLines({f.name: f for f in read.sources if f.form == "log"})
    job = describe_job(facts)
    verdict, initiator, evidence, alternatives, ruled_out, actions, verify = attribute(
        facts, ranked, outcome, raw.text, job.job_id
    )
    job = spanning(job, initiator)
    resume = judge_resume(facts, chosen, checkpoints, paths, confined=confined)
    verdict = msgspec.structs.replace(verdict, summary=verdict.summary + on_disk_too(chosen, facts, resume))
    document = out.Document(
        schema=out.SCHEMA_ID,
        job=job,
        verdict=verdict,
        initiator=initiator,
        cascade=cascade_events(graph),
        collateral=collateral_of(facts, initiator),
        evidence=[*evidence, *resume_evidence(facts, resume, raw.text)],
        alternatives=alternatives,
        ruled_out=ruled_out,
        resume=resume,
        actions=actions,
        verify=verify,
        clocks=clocks_of(facts),
        inputs=inputs_of(facts),
    )
    return Diagnosis(document, graph, topology, facts, raw, tuple(map(str, paths)))


def _filled_in(table: pa.Table, rows: list[Row]) -> pa.Table:
    """The table with what the later stages found: time, bound, node and rank with their bases."""
    for name in ("time", "time_bound_ns", "node", "node_basis", "rank", "rank_basis"):
        values = [None if (value := getattr(row, name)) is None else cast(name, value) for row in rows]
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        column = pa.array(values, pa.int64()).cast(field.type) if name == "time" else pa.array(values, field.type)
        table = table.set_column(at, field, column)
    return table
