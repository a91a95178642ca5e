"""The job's own description: who was there, on which clocks, and what was read."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from msgspec.structs import replace

from correlator.attribution.sources import heard_ranks, missing_of, sources_of
from correlator.cascade.model import OF_MACHINES, Facts
from correlator.diagnosis import Clock, Initiator, Inputs, Job, SkippedFile, Topology
from correlator.records import Row, moment

#: The framework that an emitter's lines give away, in the order in which they are believed.
_FRAMEWORKS = (
    ("megatron", "Megatron-LM"),
    ("deepspeed", "DeepSpeed"),
    ("lightning", "Lightning"),
    ("composer", "Composer"),
    ("jax", "JAX"),
    ("ray", "Ray"),
    ("vllm", "vLLM"),
    ("sglang", "SGLang"),
    ("horovod", "Horovod"),
    ("accelerate", "Accelerate"),
)


def describe_job(facts: Facts) -> Job:
    """World size, nodes, framework, versions, sizes, times and last step, as far as the logs state them."""
    top = facts.topology
    emitters = Counter(r.emitter for r in (*facts.rows, *facts.progress))
    times = [r.time for r in (*facts.rows, *facts.progress) if r.time is not None and _of_the_job(r)]
    sizes = top.grid
    nccl = sorted({r.attr("version") for r in facts.events("nccl.version")} - {""})
    versions = {"nccl": ", ".join(nccl)} if nccl else {}
    job_ids = [v for r in facts.rows for k in ("job", "job_id", "SLURM_JOB_ID") if (v := r.attr(k))]
    return Job(
        world_size=top.world_size,
        nodes=[n for n in top.nodes if n in top.collected_nodes or any(k.node == n for k in top.ranks.values())],
        ranks_seen=len(heard_ranks(facts)),
        framework=next((name for emitter, name in _FRAMEWORKS if emitters[emitter]), None),
        versions=versions,
        topology=Topology(sizes.tp, sizes.pp, sizes.dp, sizes.cp, sizes.ep, sizes.order) if sizes else None,
        started=moment(min(times, default=None)),
        ended=moment(max(times, default=None)),
        last_step=facts.step_near(None),
        job_id=min(job_ids) if job_ids else None,
    )


def spanning(job: Job, initiator: Initiator) -> Job:
    """The job with a time span that holds its failure, which the kernel or the scheduler may have stamped last."""
    if initiator.time is None:
        return job
    half = timedelta(seconds=initiator.time_uncertainty_s or 0)
    return replace(
        job,
        started=min(job.started or initiator.time, initiator.time - half),
        ended=max(job.ended or initiator.time, initiator.time + half),
    )


def _of_the_job(row: Row) -> bool:
    return row.emitter not in OF_MACHINES and row.timestamp_basis in ("printed", "transport")


def clocks_of(facts: Facts) -> list[Clock]:
    """Clock offsets in seconds against the reference node, by node."""
    return [
        Clock(
            c.node,
            None if c.offset_ns is None else round(c.offset_ns / 1e9, 3),
            None if c.bound_ns is None else round(c.bound_ns / 1e9, 3),
            c.basis,
        )
        for _, c in sorted(facts.clocks.nodes.items())
    ]


def inputs_of(facts: Facts) -> Inputs:
    """What was read, what was not, what was damaged, and which usual sources are missing."""
    read = facts.ingested
    notes = [SkippedFile("", text) for text in (*facts.clocks.warnings, *facts.topology.contradictions)]
    return Inputs(
        files_read=len(read.files),
        files_skipped=[SkippedFile(s.name, s.why) for s in read.skipped],
        bytes=read.bytes,
        lines=read.lines,
        events=read.events.num_rows,
        warnings=[*(SkippedFile(w.name, w.why) for w in read.warnings), *notes],
        sources=sources_of(facts),
        missing=missing_of(facts),
    )
