"""One module per emitter; a module whose name starts with ``_`` holds no parser.

To add a format, add a module with a module-level ``PARSER`` and a fixture; nothing else has to be edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from correlator.events import Parser


def iter_parsers() -> Iterator[Parser]:
    """The ``PARSER`` of every public module of this package, by module name."""
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda i: i.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{__name__}.{info.name}").PARSER
