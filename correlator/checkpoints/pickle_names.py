"""The names of classes and functions that may occur in the pickles of a checkpoint.

None of them is ever imported or called. The list tells a checkpoint from something else, and names that act on loading
from those that only hold values.
"""

from __future__ import annotations

ALLOWED = frozenset(
    {
        # modules whose classes are containers of values
        "argparse", "collections", "datetime", "enum", "numpy", "pathlib", "torch", "types", "uuid",
        # frameworks that store classes of their own in their checkpoints
        "accelerate", "apex", "composer", "deepspeed", "lightning", "lightning_fabric", "megatron", "nemo",
        "nvidia_resiliency_ext", "olmo", "olmo_core", "omegaconf", "pytorch_lightning", "torchtitan",
        "transformer_engine", "transformers",
    }
)  # fmt: skip
"""Top-level modules whose names may occur."""

VALUE_TYPES = (
    "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object", "set", "slice", "str",
    "tuple",
)  # fmt: skip

ALLOWED_NAMES = frozenset(
    {
        *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in VALUE_TYPES),
        "_codecs.encode",  # how Python 3 writes bytes in protocol 2
        "_io.BytesIO", "io.BytesIO", "copyreg._reconstructor", "copy_reg._reconstructor",
        "builtins.getattr",  # how CPython 3.11 pickles an enum member
        "functools.partial", "signal.Signals", "typing.Any",
    }
)  # fmt: skip
"""Single names that may occur besides."""

EXECUTING = frozenset(
    {
        "__builtin__", "_posixsubprocess", "builtins", "code", "commands", "ctypes", "importlib", "marshal", "nt",
        "operator", "os", "pickle", "posix", "pty", "requests", "runpy", "shutil", "socket", "subprocess", "sys",
        "urllib", "webbrowser",
        # parts of libraries that may occur otherwise: they run, compile, fetch or load what they are given
        "numpy.distutils", "numpy.f2py", "numpy.load", "numpy.testing", "torch._inductor", "torch.distributed.rpc",
        "torch.hub", "torch.jit", "torch.load", "torch.package", "torch.serialization.load",
        "torch.utils._config_module", "torch.utils.bottleneck", "torch.utils.collect_env", "torch.utils.cpp_extension",
        "torch.utils.model_zoo", "types.CodeType", "types.FunctionType",
    }
)  # fmt: skip
"""Modules and names through which a pickle does something when it is loaded."""
