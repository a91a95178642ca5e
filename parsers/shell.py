"""What shells and remote shells print when a command of the job script ends badly.

Emitted by: bash (job notices of a script: "script: line N: PID Killed command"), coreutils ``timeout``, OpenSSH,
chaos/pdsh. Gives ``shell.child_died`` (pid, signal), ``shell.command_failed``, ``shell.timeout``, ``ssh.failed``,
``pdsh.exit``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from correlator.events import Parser, Pattern
from parsers._lines import named, one_line, signal_number

_WORDS = (
    "Killed|Terminated|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point "
    "exception|Hangup|Interrupt|"
    "Trace/breakpoint trap|CPU time limit exceeded|User defined signal [12]"
)


def _child(match: re.Match[str]) -> Mapping[str, object]:
    fields = named(match)
    if (number := signal_number(match["how"])) is not None:
        fields["signal"] = number
    return fields


def _timeout(match: re.Match[str]) -> Mapping[str, object]:
    number = signal_number(f"SIG{match['word']}")
    return {"word": match["word"], **({"signal": number} if number is not None else {})}


PARSER = Parser(
    name="shell",
    patterns=(
        Pattern(
            event="shell.child_died",
            literals=(": line ",),
            block=one_line(rf"(?P<script>\S{{1,255}}): line \d+: +(?P<pid>\d+) (?P<how>{_WORDS})\b", _child),
            block_lines=0,
            sample="/var/spool/slurmd/job123/slurm_script: line 42:  4711 Killed                  python train.py",
            not_samples=("train.sh: line 42: torchrun: command not found",),
        ),
        Pattern(
            event="shell.command_failed",
            literals=(": command not found", ": line "),
            regex=r"(?P<script>\S{1,255}): line \d+: (?:(?P<command>\S+): )?(?:\S+: )?(?P<reason>command not found|"
            r"No such file or directory|Permission denied|cannot execute.*|unbound variable|syntax error.*|"
            r"ulimit: .*)$",
            sample="train.sh: line 42: torchrun: command not found",
        ),
        Pattern(
            event="shell.exit_status",
            literals=("exit status ", "exit code ", "exit code: ", "exit=", "exit 0"),
            regex=r"(?i)^(?:[+=#*-]+ )?(?:[\w ./-]{0,60} )?"
            r"exit(?:ed)?(?: with)?(?: status| code)?[ =:]+(?P<exit_code>\d{1,3})[\s=#*-]*$",
            sample="mpirun exit status 0",
            not_samples=("srun: error: node012: task 3: Exited with exit code 1", "echo exit=0 >> marker"),
            severity="info",
        ),
        Pattern(
            event="shell.timeout",
            literals=("timeout: sending signal ",),
            block=one_line(r"timeout: sending signal (?:SIG)?(?P<word>\w+) to command", _timeout),
            block_lines=0,
            sample="timeout: sending signal TERM to command 'python'",
        ),
        Pattern(
            event="ssh.failed",
            literals=("ssh: connect to host ", "ssh: Could not resolve hostname "),
            regex=r"ssh: (?:connect to host (?P<node>\S+) port \d+: (?P<reason>.*)|"
            r"Could not resolve hostname (?P<name>[^:]+): (?P<why>.*))$",
            sample="ssh: connect to host node012 port 22: Connection refused",
        ),
        Pattern(  # DeepSpeed's launcher
            event="ssh.failed",
            literals=(" was not reachable via ssh",),
            regex=r"\bhost=(?P<node>[\w.-]+) was (?P<reason>not reachable via ssh)",
            sample="RuntimeError: Using hostfile at /job/hostfile but host=node012 was not reachable via ssh. If you "
            "are running with a single node please remove /job/hostfile or setup passwordless ssh.",
        ),
        Pattern(
            event="ssh.failed",
            literals=("Host key verification failed", "Permission denied (publickey"),
            regex=r"(?:(?P<peer>[\w.@-]{1,255}): )?(?P<reason>Host key verification failed|Permission denied "
            r"\(publickey.*\))",
            sample="alice@node012: Permission denied (publickey,password).",
        ),
        Pattern(
            event="pdsh.exit",
            literals=("pdsh@",),
            regex=r"pdsh@(?P<head_node>[\w.-]+): (?P<node>[\w.-]+): (?:(?P<command>\w+) exited with exit code "
            r"(?P<exit_code>\d+)|"
            r"(?P<reason>.*))$",
            sample="pdsh@node001: node012: ssh exited with exit code 2",
        ),
    ),
)
