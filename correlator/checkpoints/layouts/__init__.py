"""One module per on-disk layout. A module here with a ``LAYOUT`` is found by its presence; no list names it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from correlator.checkpoints.model import Layout


@lru_cache(maxsize=1)
def load_layouts() -> tuple[Layout, ...]:
    """All layouts in the order in which they are asked; modules whose name begins with ``_`` are none."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    found: list[Layout] = [importlib.import_module(f"{__name__}.{name}").LAYOUT for name in names]
    return tuple(sorted(found, key=lambda layout: (layout.order, layout.name)))
