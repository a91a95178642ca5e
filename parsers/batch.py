"""PBS, LSF and Grid Engine: what the batch system writes into a job's output when it ends the job.

Emitted by: openpbs/openpbs ``src/resmom/mom_main.c``; LSF's job report (texts from job outputs, its source is not
public). Gives ``pbs.killed`` (resource, used, limit), ``lsf.terminated`` (reason, or the exit code of the report),
``lsf.job`` and ``lsf.hosts``, ``pbs.node_down`` from the server's log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern

_HOSTS = re.compile(r"<(?:\d{1,6}\*)?([\w.-]{1,255})>")


def _read_hosts(lines: Sequence[str]) -> list[Found]:
    """The hosts of a job report, in the order in which it lists them."""
    hosts, last = _HOSTS.findall(lines[0].partition(", in queue ")[0]), 0
    for index, line in enumerate(lines[1:], start=1):
        if not line.startswith("     ") or not (more := _HOSTS.fullmatch(line.strip())):
            break
        hosts, last = [*hosts, more[1]], index
    return [Found(0, last, {"nodes": ",".join(hosts)})] if hosts else []


PARSER = Parser(
    name="batch",
    patterns=(
        Pattern(
            event="pbs.killed",
            literals=("=>> PBS: job killed",),
            regex=r"=>> PBS: job killed: (?P<resource>\w+) (?P<used>\S+) exceeded limit (?P<limit>\S+)",
            sample="=>> PBS: job killed: walltime 3612 exceeded limit 3600",
        ),
        Pattern(
            event="pbs.killed",
            literals=("=>> PBS: ",),
            regex=r"=>> PBS: (?P<text>.*)$",
            sample="=>> PBS: job killed: node 3 (node012) requested job terminate, 'EOF' (code 1099)",
        ),
        Pattern(
            event="lsf.terminated",
            literals=("TERM_",),
            regex=r"(?P<reason>TERM_[A-Z_]+): (?P<text>job killed .*|.*)$",
            sample="TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
            not_samples=("export TERM_PROGRAM=tmux",),
        ),
        Pattern(
            event="lsf.terminated",
            literals=("Exited with exit code ", "Exited with signal termination: ", "Exited by LSF signal "),
            # srun's "task 3: Exited with exit code 1" is another program's line: here the sentence is the whole line
            regex=r"^Exited (?:with exit code (?P<exit_code>\d+)|with signal termination: (?P<signal>\d+)|"
            r"by LSF signal (?P<lsf_signal>\w+))\.?$",
            sample="Exited with exit code 140.",
            not_samples=("srun: error: node012: task 37: Exited with exit code 1",),
        ),
        Pattern(
            event="lsf.job",
            literals=("was submitted from host <",),
            regex=r"^Job <(?:(?P<job>\d+)(?:\[\d+\])?|[^>]*)> was submitted from host <(?P<submit_host>[^>]*)>",
            sample="Job <4711> was submitted from host <login1> by user <alice> in cluster <c1> at Wed May  1 "
            "07:00:05 2024",
            severity="info",
        ),
        Pattern(
            event="lsf.job",
            literals=("Subject: Job ",),
            regex=r"^Subject: Job (?P<job>\d+)(?:\[\d+\])?: <.{0,255}> in cluster <[^>]*> (?P<outcome>Exited|Done)",
            sample="Subject: Job 4711: <train> in cluster <c1> Exited",
            severity="info",
            not_samples=("Subject: Job offer",),
        ),
        Pattern(
            # further hosts stand below, one a line: "                            <8*node013>"
            event="lsf.hosts",
            literals=("Job was executed on host(s) <",),
            block=_read_hosts,
            block_lines=2000,
            sample="Job was executed on host(s) <8*node012>, in queue <gpu>, as user <alice> in cluster <c1> at Wed "
            "May  1 07:00:07 2024\n                            <8*node013>\n</home/alice> was used as the home "
            "directory.",
            severity="info",
        ),
        Pattern(
            event="pbs.node_down",
            literals=("node down: ",),
            regex=r"^node down: (?P<text>.*)$",
            sample="node down: communication closed",
            not_samples=("the node down: the hall",),
        ),
        Pattern(
            event="pbs.killed",
            literals=(" exceeded limit ",),
            regex=r"^(?P<resource>walltime|mem|vmem|pmem|pvmem|cput|ncpus) (?P<used>\S+) exceeded limit (?P<limit>\S+)",
            sample="walltime 3612 exceeded limit 3600",
            not_samples=("=>> PBS: job killed: walltime 3612 exceeded limit 3600 twice", "memory exceeded limit 3"),
        ),
        Pattern(
            event="gridengine.killed",
            literals=("exceeded hard wallclock time", "exceeds job hard limit"),
            regex=r"[Jj]ob (?P<job>\d+)\S* (?P<text>exceeded hard wallclock time.*|exceeds job hard limit.*)$",
            sample="job 4711.1 exceeded hard wallclock time - initiate terminate method",
        ),
    ),
)
