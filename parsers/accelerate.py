"""Lines of Hugging Face Accelerate: shape mismatches of its debug mode, and warnings about hangs to come.

Emitted by: ``accelerate/utils/operations.py``, ``accelerate/utils/other.py``. Versions checked: 0.20 to 1.10. With
``ACCELERATE_DEBUG_MODE=1`` every operation first compares the shapes of all processes; all of them then raise the same
text. ``shapes`` lists them by process, ``odd_ranks`` those that differ from the most common shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern

_SHAPE = re.compile(r"- Process (\d+): (.+)")
_OPERATION = re.compile(r"Operation: `([^`]+)`")


def _mismatch(lines: Sequence[str]) -> list[Found]:
    """The operation and one shape a process, from the lines below the message."""
    if "Cannot apply desired operation due to shape mismatches" not in lines[0]:
        return []
    shapes: dict[str, str] = {}
    operation = ""
    last = 0
    for index, text in enumerate(lines[1:], 1):
        if found := _SHAPE.search(text):
            shapes[found[1]] = found[2].strip()
            last = index
        elif found := _OPERATION.search(text):
            operation = found[1]
            last = index
        elif shapes and text.strip():
            break
    fields: dict[str, object] = {"operation": operation}
    if shapes:
        usual = Counter(shapes.values()).most_common(1)[0][0]
        fields["shapes"] = "; ".join(f"{rank}: {shape}" for rank, shape in shapes.items())
        fields["odd_ranks"] = ",".join(rank for rank, shape in shapes.items() if shape != usual)
    return [Found(0, last, fields)]


PARSER = Parser(
    name="accelerate",
    patterns=(
        Pattern(
            event="accelerate.shape_mismatch",
            literals=("Cannot apply desired operation due to shape mismatches",),
            block=_mismatch,
            block_lines=200,
            sample="accelerate.utils.operations.DistributedOperationException: Cannot apply desired operation due "
            "to shape "
            "mismatches. All shapes across devices must be valid.\n\nOperation: `accelerate.utils.operations.gather`\n"
            "Input shapes:\n  - Process 0: [2, 512]\n  - Process 1: [2, 512]\n  - Process 2: [2, 480]",
        ),
        Pattern(
            event="accelerate.wrong_device",
            literals=("One or more of the tensors passed to ",),
            regex=r"One or more of the tensors passed to (?P<operation>\S+) were not on the (?P<found>\w+) while "
            r"the `Accelerator` "
            r"is configured for (?P<configured>\w+)",
            sample="One or more of the tensors passed to accelerate.utils.operations.gather were not on the cpu "
            "while the "
            "`Accelerator` is configured for cuda.",
        ),
        Pattern(
            event="accelerate.old_kernel",
            literals=("which is below the recommended minimum of",),
            regex=r"Detected kernel version (?P<kernel>[\d.]+), which is below the recommended minimum of "
            r"(?P<minimum>[\d.]+)",
            severity="warning",
            sample="Detected kernel version 5.4.0, which is below the recommended minimum of 5.5.0; this can cause "
            "the process to "
            "hang. It is recommended to upgrade the kernel to the minimum version or higher.",
        ),
    ),
)
