"""Lines of Composer's launcher.

Emitted by: ``composer/cli/launcher.py``. Versions checked: 0.14 to 0.32. The launcher polls its children: the first
``Rank R crashed`` is the one it saw dead first. Later it kills the others and lists every rank with its code, so
codes -15 and -9 in ``Global rank R (PID P) exited`` are teardown unless that rank crashed before.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

PARSER = Parser(
    name="composer",
    patterns=(
        Pattern(
            event="composer.rank_crashed",
            literals=(" crashed with exit code ",),
            regex=r"Rank (?P<rank>\d+) crashed with exit code (?P<exit_code>-?\d+)",
            sample="Rank 2 crashed with exit code -7.",
        ),
        Pattern(  # the launcher's own SIGTERM
            event="composer.rank_crashed",
            literals=("exited with code -15",),
            regex=r"Global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) exited with code (?P<exit_code>-15)\b",
            severity="info",
            fields={"teardown": "true"},
            sample="Global rank 9 (PID 4711) exited with code -15",
        ),
        Pattern(
            event="composer.rank_crashed",
            literals=("Global rank ",),
            regex=r"Global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) exited with code (?P<exit_code>-?\d+)",
            sample="Global rank 9 (PID 4711) exited with code 1",
        ),
        Pattern(
            event="composer.killing",
            literals=("illing global rank ", "Failed to kill global rank "),
            regex=r"(?:Killing|Failed to kill) global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) with (?P<name>SIG\w+)",
            severity="info",
            sample="Killing global rank 9 (PID 4711) with SIGTERM",
        ),
        Pattern(
            event="composer.stuck",
            literals=(" has still not exited; return exit code 1",),
            regex=r"Global rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) has still not exited",
            severity="warning",
            sample="Global rank 9 (PID 4711) has still not exited; return exit code 1.",
        ),
        Pattern(
            event="composer.rank_launched",
            literals=("Launching process for local_rank(",),
            regex=r"Launching process for local_rank\((?P<local_rank>\d+)\), global_rank\((?P<rank>\d+)\)",
            severity="info",
            sample="Launching process for local_rank(1), global_rank(9) with command(train.py)",
        ),
    ),
)
