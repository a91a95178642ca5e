"""CUDA and HIP messages that stand outside Python tracebacks.

Emitted by: device code (``assert`` in kernels), torch ``c10/cuda/CUDAException.cpp`` and ``CUDAFunctions.cpp``, torch's
destructors (``CUDA warning``), ``torch/cuda/__init__.py`` (``CUDA initialization``). torch 1.13 to 2.14.
Gives: cuda.device_assert (condition), cuda.error and cuda.warning (text), cuda.init_failed (code, text). The device
index is that of the process. A CUDA error that ends a traceback is part of its python.exception.
"""

from __future__ import annotations

import re

from correlator.events import Parser, Pattern
from parsers._exception_text import read_final
from parsers._lines import named, one_line


def _standalone(match: re.Match[str]) -> dict[str, object] | None:
    """Refuses final lines of tracebacks and texts that another emitter wraps in its own message."""
    text = match.string
    wrapped = "what():" in text or "terminated with exception" in text or "async exception" in text
    final = read_final(text)
    if wrapped or text[:1].isspace() or (final is not None and final.certain):
        return None
    return named(match)


DEVICE_ASSERT = Pattern(
    event="cuda.device_assert",
    literals=(", thread: [", "Device-side assertion `", "device-side assertion failures were found on GPU #"),
    regex=r"(?:(?P<source>[^\s:]{1,255}:\d+): (?P<function>.{1,500}?): (?:block: \[[\d,]+\], thread: \[[\d,]+\] )?)?"
    r"(?:Device-side a|A)ssertion `(?P<condition>.+)[`'] failed|"
    r"CUDA device-side assertion failures were found on GPU #(?P<gpu>\d+)",
    sample="../aten/src/ATen/native/cuda/Indexing.cu:1239: indexSelectLargeIndex: block: [12,0,0], thread: [64,0,0] "
    "Assertion `srcIndex < srcSelectDimSize` failed.",
    not_samples=(
        "grid: [12,0,0], thread: [64,0,0]",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ),
)

WARNING = Pattern(
    event="cuda.warning",
    literals=("CUDA warning: ", "HIP warning: "),
    regex=r"(?:CUDA|HIP) warning: (?P<text>.+?)(?: \(function (?P<function>\w+)\))?$",
    severity="warning",
    sample="Warning: CUDA warning: unspecified launch failure (function destroyEvent)",
)

INIT_FAILED = Pattern(
    event="cuda.init_failed",
    literals=("CUDA initialization: ", "HIP initialization: "),
    regex=r"(?:CUDA|HIP) initialization: (?P<text>(?:.*?Error (?P<code>\d+): )?.+?)(?: \(Triggered internally at .*)?$",
    severity="warning",
    sample="/opt/env/lib/python3.11/site-packages/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: "
    "Unexpected "
    "error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have "
    "already set an error? Error 802: system not yet initialized (Triggered internally at "
    "c10/cuda/CUDAFunctions.cpp:108.)",
)

ERROR = Pattern(
    event="cuda.error",
    literals=("CUDA error: ", "HIP error: ", "CUDA driver error: ", "CUDA Error: "),
    block=one_line(r"\b(?P<api>CUDA|HIP)(?: driver)? [Ee]rror: (?P<text>\S.*?)\s*$", _standalone),
    block_lines=0,
    sample="CUDA error: an illegal memory access was encountered",
    not_samples=(
        "RuntimeError: CUDA error: device-side assert triggered",
        "  what():  CUDA error: device-side assert triggered",
        "[Rank 1] NCCL watchdog thread terminated with exception: CUDA error: unspecified launch failure",
    ),
)

PARSER = Parser("cuda", (DEVICE_ASSERT, WARNING, INIT_FAILED, ERROR))
