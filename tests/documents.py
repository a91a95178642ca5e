"""A hand-made diagnosis, and its causal graph, for the tests of everything that shows one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import networkx as nx

from correlator.diagnosis import (
    SCHEMA_ID,
    Action,
    Alternative,
    CascadeEvent,
    CascadeEvidence,
    Clock,
    Collateral,
    Document,
    Evidence,
    Gpu,
    Initiator,
    Inputs,
    Job,
    Place,
    Resume,
    ResumeCandidate,
    RuledOut,
    SkippedFile,
    Topology,
    Verdict,
    Verify,
)

ZERO = datetime(2024, 5, 7, 17, 28, 17, 120_000, UTC)
JOURNAL = "journal/gpu-a009.journal"
XID = "May 07 17:29:09 gpu-a009 kernel: NVRM: Xid (PCI:0000:cb:00): 79, pid=88105, name=python3, GPU has fallen off the bus."
WATCHDOG = (
    "[rank21]:[E507 17:29:11.045790530 ProcessGroupNCCL.cpp:1897] [PG ID 0 PG GUID 0(default_pg) Rank 21] Process group "
    "watchdog thread terminated with exception: CUDA error: unspecified launch failure"
)
NODES = ["gpu-a004", "gpu-a005", "gpu-a009", "gpu-a011"]


def hardware_document() -> Document:
    """32 ranks on four nodes; the device of rank 21 leaves the bus, ten minutes later the others time out."""
    others = [rank for rank in range(32) if rank != 21]
    cascade = [
        CascadeEvent(
            "e1",
            ZERO,
            [21],
            ["gpu-a009"],
            "GPU has fallen off the bus (Xid 79)",
            "initiator",
            [],
            None,
            CascadeEvidence(JOURNAL, 4, XID),
        ),
        CascadeEvent(
            "e2",
            ZERO + timedelta(seconds=2.2),
            [21],
            ["gpu-a009"],
            "the watchdog stopped: CUDA error",
            "collateral",
            ["e1"],
            "same_gpu",
            CascadeEvidence("stdout/gpu-a009.log", 5, WATCHDOG),
        ),
    ]
    for rank in others:
        when, evidence = (
            ZERO + timedelta(seconds=600 + rank / 10),
            CascadeEvidence("stdout/gpu-a004.log", 50 + rank, "x"),
        )
        what = f"collective timed out after 600 s, ALLREDUCE seq {4411 + rank % 2}"
        cascade.append(
            CascadeEvent(
                f"c{rank}", when, [rank], [NODES[rank // 8]], what, "collateral", ["e1"], "missing_member", evidence
            )
        )
    cascade.append(
        CascadeEvent(
            "s1",
            None,
            [],
            ["gpu-a005"],
            "connection to the store lost",
            "collateral",
            ["c0"],
            "store_host_gone",
            CascadeEvidence("stdout/gpu-a005.log", 80, "x"),
        )
    )
    for node in ("gpu-a004", "gpu-a005", "gpu-a011"):
        cascade.append(
            CascadeEvent(
                f"t-{node}",
                ZERO + timedelta(seconds=612),
                [],
                [node],
                "the launcher stopped its workers",
                "teardown",
                ["c0"],
                "launcher_killed_siblings",
            )
        )
    cascade.append(CascadeEvent("u1", ZERO - timedelta(hours=1), [3], ["gpu-a004"], "NVLink recovered", "unrelated"))
    return Document(
        schema=SCHEMA_ID,
        job=Job(
            32,
            NODES,
            32,
            "megatron",
            {"torch": "2.6.0"},
            Topology(4, 2, 4, 1, 1, "tp-cp-ep-dp-pp"),
            ZERO - timedelta(hours=2),
            ZERO + timedelta(minutes=11),
            7060,
            "48213",
        ),
        verdict=Verdict(
            "hardware",
            "gpu",
            "xid-79",
            "GPU has fallen off the bus",
            "GPU 5 of gpu-a009 left the bus. The other 31 ranks timed out ten minutes later.",
            0.95,
        ),
        initiator=Initiator(
            [21],
            ["gpu-a009"],
            [Gpu("gpu-a009", 5, "0000:cb:00", None, "1650023004411")],
            "rank",
            False,
            ZERO,
            0.5,
            7060,
            Place(JOURNAL, 4, 321, XID),
        ),
        cascade=cascade,
        collateral=Collateral(others, len(others)),
        evidence=[
            Evidence(
                "initiator", "stdout/gpu-a009.log", 5, 800, WATCHDOG, 0.7, "rank 21 runs on the device with this bus id"
            ),
            Evidence("verdict", JOURNAL, 4, 321, XID, 0.95, "the driver lost the device itself"),
            Evidence(
                "resume", "stdout/gpu-a011.log", 31, 90, "saved checkpoint", 0.9, "the save was reported finished"
            ),
        ],
        alternatives=[
            Alternative(
                "infrastructure",
                "node-power",
                0.03,
                "A loss of power also takes a device off the bus.",
                "ipmitool sel list on gpu-a009: a power row within a minute points there.",
            )
        ],
        ruled_out=[RuledOut("time-outs of the other ranks", "they waited for rank 21")],
        resume=Resume(
            "safe",
            7050,
            "/ckpt/iter_0007050",
            ["reported finished before the fault"],
            [ResumeCandidate("/ckpt/iter_0007060", 7060, False, None, ["3 of 32 shards missing"])],
        ),
        actions=[
            Action(
                "Save the driver's record",
                "ssh gpu-a009 nvidia-bug-report.sh --safe-mode --output-file /var/tmp/nvidia-bug-report-gpu-a009.log.gz",
                "A reboot wipes it.",
                "read-only",
                "read-only",
                False,
            ),
            Action(
                "Drain the node and reboot it",
                "scontrol update NodeName=gpu-a009 State=DRAIN Reason='Xid 79 on 0000:cb:00'",
                "Only that brings the device back.",
                "disruptive",
                "disruptive",
                False,
            ),
        ],
        verify=Verify("no Xid on this bus id for a day under load", "dcgmi diag -r 4"),
        clocks=[
            Clock("gpu-a004", 0.0, 0.0, "reference"),
            Clock("gpu-a009", 52.0, 0.5, "rendezvous"),
            Clock("gpu-a011", None, None, "no anchor"),
        ],
        inputs=Inputs(
            8,
            [SkippedFile("core.3102", "not text"), SkippedFile("core.3103", "not text")],
            5_230_811,
            48_211,
            312,
            [SkippedFile("stdout/gpu-a011.log", "3 lines are no UTF-8")],
        ),
    )


def unknown_document() -> Document:
    """It failed; two explanations remain; the logs of half the ranks were not collected."""
    document = hardware_document()
    document.verdict = Verdict(
        "unknown",
        None,
        "worker-exit-sigkill",
        "A worker was killed with SIGKILL",
        "Rank 5 was killed; nothing says by whom.",
        0.3,
    )
    document.initiator = Initiator([5], ["gpu-a004"], [], "rank", silent=True)
    document.alternatives = [
        Alternative(
            "application",
            "host-out-of-memory",
            0.45,
            "The kernel kills a process when the host runs out of memory.",
            "dmesg -T on gpu-a004: an oom-kill line that names the process.",
        ),
        Alternative(
            "infrastructure", "operator-kill", 0.2, "Somebody may have killed it.", "the audit log of gpu-a004"
        ),
    ]
    document.job.ranks_seen = 16
    document.resume = Resume("unknown")
    return document


def none_document() -> Document:
    """A clean run with a handled exception in its log."""
    document = hardware_document()
    document.verdict = Verdict(
        "none",
        None,
        "none",
        "the run ended as planned",
        "All 32 ranks reached step 8000 and left with exit code 0.",
        0.97,
    )
    document.initiator, document.cascade, document.collateral = Initiator(), [], Collateral()
    document.evidence = [
        Evidence(
            "verdict",
            "stdout/gpu-a011.log",
            77,
            9000,
            "[after training is done]",
            0.9,
            "the program says that it finished",
        )
    ]
    document.alternatives, document.actions, document.verify = [], [], Verify()
    document.ruled_out = [RuledOut("tracebacks on rank 2", "handled: training went on for an hour")]
    return document


def neighbourhood(file: str, line: int, before: int, after: int) -> list[str]:
    """Raw lines around the Xid line (line 4 of six)."""
    head = "May 07 17:29:09 gpu-a009 kernel: "
    lines = [
        "boot",
        "start",
        head + "NVRM: GPU Board Serial Number: 1650023004411",
        XID,
        head + "NVRM: GPU 0000:cb:00.0",
        "end",
    ]
    return lines[max(0, line - 1 - before) : line + after] if file == JOURNAL else []


def graph_of(document: Document) -> nx.DiGraph:
    """The causal graph with the attributes that the pipeline gives."""
    graph = nx.DiGraph()
    for entry in document.cascade:
        place = entry.evidence
        graph.add_node(
            entry.id,
            what=entry.what,
            role=entry.role,
            ranks=entry.ranks,
            nodes=entry.nodes,
            time=entry.time,
            bound_ns=None,
            event="kernel.xid",
            signature=None,
            file=place.file if place else None,
            line=place.line if place else None,
            text=place.text if place else None,
        )
    for entry in document.cascade:
        graph.add_edges_from((cause, entry.id, {"rule": entry.rule}) for cause in entry.caused_by)
    return graph
