"""Python stack frames: where a program of the job stood, as told by a traceback or a stack dump."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

#: Most frames kept in the ``frames`` attribute; the outermost ones go first.
FRAME_LIMIT = 40

_INSTALLED = re.compile(r"(?:^|/)(?:site|dist)-packages/|(?:^|/)s?bin/[\w-]+$|\.zip/|^<")
_STANDARD = re.compile(r"(?:^|/)lib(?:64)?/python3(?:\.\d+)?/")
_TORCH = re.compile(
    r"(?:^|/)torch/(?:_\w+|accelerator|amp|ao|autograd|backends|cuda|distributed|fx|functional|hub|jit|library|"
    r"linalg|multiprocessing|nested|nn|ops|optim|overrides|profiler|random|serialization|sparse|storage|"
    r"utils)(?:\.py$|/)"
)
#: Modules of the program that starts and watches the ranks; frames of a rank never pass through them.
_LAUNCHER = re.compile(
    r"(?:^|/)torch/distributed/(?:run|launch)\.py$|(?:^|/)torch/distributed/(?:launcher|elastic/(?:agent|rendezvous))/|"
    r"(?:^|/)torch/distributed/elastic/multiprocessing/api\.py$|"
    r"(?:^|/)accelerate/commands/|(?:^|/)deepspeed/launcher/|(?:^|/)composer/cli/launcher\.py$|"
    r"(?:^|/)nvidia_resiliency_ext/fault_tolerance/(?:launcher|_ft_rendezvous)\w*\.py$|"
    r"(?:^|/)bin/(?:torchrun|accelerate|deepspeed|composer|ft_launcher)$"
)
#: Modules whose functions talk to other ranks.
_COMMUNICATION = re.compile(
    r"(?:^|/)torch/distributed/(?:distributed_c10d|_functional_collectives|_functional_collectives_impl|utils|"
    r"rendezvous|device_mesh|collective_utils|nn/functional|_symmetric_memory/\w+)\.py$"
)
#: Wrappers that may stand between a communication function and the point where it waits.
_TRANSPARENT = re.compile(
    r"(?:^|/)torch/(?:distributed/c10d_logger|_ops|utils/_contextlib|_compile|_dynamo/\w+|_library/\w+|"
    r"autograd/function)\.py$|"
    r"(?:^|/)(?:contextlib|typing_extensions|functools)\.py$"
)
_LOGGED = re.compile(r"(?:^|/)torch/distributed/c10d_logger\.py$")
_DEVICE_WAIT = re.compile(r"(?:^|/)torch/(?:cuda|accelerator|xpu)/\w+\.py$")
_CPP_CALL = re.compile(r"\b(?:dist|distributed|c10d)\._(\w+)\(")
_PYTHON_CALL = re.compile(r"\b(?:dist|distributed|c10d|group|pg)\.(\w+)\(")
_ABOUT_COMMUNICATION = re.compile(r"NCCL|[Gg]loo|collective|[Rr]ank|[Cc]onnection|[Tt]imed? ?out|Barrier|[Ss]tore")


@dataclass(slots=True)
class Frame:
    """One frame of a Python stack; ``code`` is the printed source line, empty where none was printed."""

    func: str
    file: str
    line: int
    code: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two printed frames the same place."""
        return (self.func, self.file, self.line)

    def __str__(self) -> str:
        return f"{self.func}@{self.file}:{self.line}"


def is_library(file: str, *, short_paths: bool = False) -> bool:
    """Whether a file is installed code, the standard library, torch, or generated; the rest is the job's own code.

    ``short_paths``: the tool prints paths relative to the import root (py-spy), so ``threading.py`` is the standard
    library's and a first folder such as ``torch`` is a package.
    """
    if _INSTALLED.search(file) or _STANDARD.search(file) or _TORCH.search(file) or _LAUNCHER.search(file):
        return True
    first = file.split("/", 1)[0].removesuffix(".py")
    return short_paths and not file.startswith("/") and first in sys.stdlib_module_names


def own_frame(frames: Sequence[Frame], *, short_paths: bool = False) -> Frame | None:
    """The innermost frame of the job's own code; None if there is none."""
    return next((f for f in reversed(frames) if not is_library(f.file, short_paths=short_paths)), None)


def site(frames: Sequence[Frame], *, short_paths: bool = False) -> Frame | None:
    """The innermost frame of the job's own code; failing that, the innermost one of a package other than torch."""
    own = own_frame(frames, short_paths=short_paths)
    if own is not None:
        return own
    for frame in reversed(frames):
        if "-packages/" in frame.file and not _TORCH.search(frame.file) and not _LAUNCHER.search(frame.file):
            return frame
    return None


def call(frames: Sequence[Frame], message: str = "") -> str | None:
    """The torch.distributed function that the stack ends in, e.g. ``all_reduce``; None if it ends elsewhere.

    The innermost public function counts: ``all_gather_object`` waits in the ``all_gather`` it makes, and only the
    latter can be met by the other ranks.
    """
    private = ""
    for frame in reversed(frames):
        if _COMMUNICATION.search(frame.file):
            if not frame.func.startswith(("_", "<")) and frame.func != "wrapper":
                return frame.func
            private = private or frame.func.strip("_<>")
        elif not _TRANSPARENT.search(frame.file):
            break
    if private or not frames:
        return private or None
    if _LOGGED.search(frames[-1].file) and len(frames) > 1:
        # Cut inside the wrapper of all public functions; the line that calls it names the function.
        made = _PYTHON_CALL.search(frames[-2].code)
        return made[1] if made else None
    # Functions implemented in C++ have no frame of their own; the line that calls them is the only witness. The line
    # of any other call counts only if the exception is about communication, not about an argument of the call.
    made = _CPP_CALL.search(frames[-1].code)
    if not made and _ABOUT_COMMUNICATION.search(message):
        made = _PYTHON_CALL.search(frames[-1].code)
    return made[1] if made else None


def in_launcher(frames: Sequence[Frame]) -> bool:
    """Whether this is the stack of the launcher itself rather than of a rank."""
    # A function given to the launcher instead of a script runs below its `_wrap`, in the rank's own process.
    return any(_LAUNCHER.search(frame.file) and frame.func != "_wrap" for frame in frames)


def describe(frames: Sequence[Frame], *, message: str = "", short_paths: bool = False) -> dict[str, object]:
    """The attributes ``frames``, ``site``, ``call_text`` (the source line at ``site``) and ``call``, where known.

    ``device_wait`` is ``true`` for a stack that waits for its device; what it waits for there may need other ranks.
    """
    fields: dict[str, object] = {}
    if frames:
        fields["frames"] = ";".join(str(frame) for frame in frames[-FRAME_LIMIT:])
    place = site(frames, short_paths=short_paths)
    if place is not None:
        fields["site"] = str(place)
        if place.code:
            fields["call_text"] = place.code
    made = call(frames, message)
    if made:
        fields["call"] = made
    elif frames and frames[-1].func == "synchronize" and _DEVICE_WAIT.search(frames[-1].file):
        fields["device_wait"] = "true"
    return fields
