"""Numbers, ranks, nodes, times and commands as words for a reader. Times are UTC; durations are seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from correlator.diagnosis import FailureClass, StepKind
from correlator.hostlist import fold_ranges

HEADLINES: dict[FailureClass, str] = {
    "configuration": "CONFIGURATION ERROR",
    "application": "APPLICATION FAILURE",
    "hardware": "HARDWARE FAILURE",
    "infrastructure": "INFRASTRUCTURE FAILURE",
    "unknown": "UNDECIDED",
    "none": "NO FAILURE FOUND",
}

#: Lower bounds of the confidence, and the words for it.
_CONFIDENCE = ((0.9, "almost certain"), (0.7, "likely"), (0.5, "more likely than not"), (0.3, "possible"))

#: Clock offsets below this are ordinary; above, a reader who compares printed stamps by eye goes wrong.
OFFSET_TOLD_S = 1.0

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


def confidence_words(confidence: float) -> str:
    """A confidence (0 to 1) in words and in per cent.

    >>> confidence_words(0.95)
    'almost certain (95 %)'
    """
    words = next((words for least, words in _CONFIDENCE if confidence >= least), "a weak lead")
    return f"{words} ({round(100 * confidence)} %)"


def ranks_words(ranks: Sequence[int], limit: int = 48) -> str:
    """Ranks folded; their number where it is not plain to see. A folded list over ``limit`` characters is shortened.

    >>> ranks_words([21]), ranks_words([0, 1, 2, 3, 7])
    ('rank 21', 'ranks 0-3,7 (5)')
    """
    if not ranks:
        return "no rank"
    if len(set(ranks)) == 1:
        return f"rank {ranks[0]}"
    folded = fold_ranges(ranks)
    if len(folded) > limit:
        folded = folded[: folded.rfind(",", 0, limit)] + ",…"
    return f"ranks {folded} ({len(set(ranks))})" if len(set(ranks)) > 2 else f"ranks {folded}"


def fold_nodes(nodes: Iterable[str], limit: int = 6) -> str:
    """Node names as a host list; at most ``limit`` parts, then how many nodes more.

    >>> fold_nodes(["gpu-a009", "gpu-a004", "gpu-a005", "login"])
    'gpu-a[004-005,009], login'
    """
    families: dict[tuple[str, str, int], list[str]] = {}
    for node in sorted(set(nodes)):
        match = _NUMBERED.fullmatch(node)
        family = (match[1], match[3], len(match[2])) if match else (node, "", 0)
        families.setdefault(family, []).append(match[2] if match else "")
    parts = [_fold_family(*family, digits) for family, digits in families.items()]
    shown = ", ".join(parts[:limit])
    hidden = sum(len(digits) for digits in list(families.values())[limit:])
    return f"{shown} and {hidden} more" if hidden else shown


def _fold_family(before: str, after: str, width: int, digits: Sequence[str]) -> str:
    if len(digits) == 1:
        return f"{before}{digits[0]}{after}"
    ranges = fold_ranges(int(number) for number in digits)
    padded = re.sub(r"\d+", lambda number: number[0].zfill(width), ranges)
    return f"{before}[{padded}]{after}"


def clock_words(time: datetime, uncertainty_s: float | None = 0.0) -> str:
    """A time in UTC; below the second only where the uncertainty allows to tell.

    >>> from datetime import UTC
    >>> clock_words(datetime(2024, 5, 1, 7, 40, 18, 250000, UTC), 0.05)
    '2024-05-01 07:40:18.250 UTC'
    """
    fine = uncertainty_s is not None and uncertainty_s < 0.5 and time.microsecond != 0
    text = f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{time.microsecond // 1000:03d} UTC" if fine else f"{text} UTC"


def seconds_words(seconds: float) -> str:
    """A duration for a person; no sign.

    >>> seconds_words(0.034), seconds_words(12.14), seconds_words(603), seconds_words(7500)
    ('34 ms', '12.1 s', '10m03s', '2h05m')
    """
    seconds = abs(seconds)
    if seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 119.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def relative_words(seconds: float) -> str:
    """A time relative to the first failure.

    >>> relative_words(0), relative_words(12.14), relative_words(-3)
    ('+0.0 s', '+12.1 s', '-3.0 s')
    """
    words = f"{seconds:.1f} s".lstrip("-") if abs(seconds) < 119.95 else seconds_words(seconds)
    return ("-" if seconds <= -0.05 else "+") + words


def size_words(size_bytes: int) -> str:
    """A size with a decimal unit.

    >>> size_words(812), size_words(5_230_000)
    ('812 bytes', '5.2 MB')
    """
    size = float(size_bytes)
    if size < 1000:
        return f"{size_bytes} bytes"
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.95 or unit == "TB":
            break
    return f"{size:.1f} {unit}"


def count_words(count: int, what: str, many: str = "") -> str:
    """``1 file``, ``12 files``, ``48,211 lines``."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def wrap_command(command: str, width: int) -> list[str]:
    r"""A shell command broken at unquoted blanks with `` \``, so that what is pasted is what was meant.

    A command with a comment or a here-document is not broken: a backslash would change it.

    >>> wrap_command("journalctl -k --since='2024-05-01 07:00' -o short-iso", 34)
    ['journalctl -k \\', "    --since='2024-05-01 07:00' \\", '    -o short-iso']
    """
    words = _shell_words(command)
    if len(command) <= width or any(word.startswith("#") or "<<" in word for word in words):
        return [command]
    lines: list[str] = []
    line = ""
    for word in words:
        if line.strip() and len(line) + 1 + len(word) + 2 > width:
            lines.append(f"{line} \\")
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def _shell_words(command: str) -> list[str]:
    """The command split at blanks outside quotes; quotes are kept."""
    words, word, quote, escaped = [], "", "", False
    for character in command:
        if character == " " and not quote and not escaped:
            words.append(word)
            word = ""
            continue
        word += character
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
    return [part for part in [*words, word] if part]


_STEP_KINDS: dict[StepKind, str] = {
    "read-only": "read-only",
    "changes-config": "changes the next run",
    "disruptive": "disruptive",
}


def step_tag(kind: StepKind, stopgap: bool) -> str:
    """What a step does, in words.

    >>> step_tag("changes-config", True)
    'changes the next run, stopgap'
    """
    return _STEP_KINDS[kind] + (", stopgap" if stopgap else "")
