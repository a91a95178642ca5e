"""A Dask cluster as the executor that reads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from correlator.errors import UsageError

_PATIENCE = "10s"


@contextmanager
def executor_at(address: str | None) -> Iterator[Executor | None]:
    """The workers of the cluster at ``address``; None without one.

    Raises UsageError when dask is not installed or nothing answers. The workers must see the logs under the same path.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise UsageError("--scheduler needs the extra `dask`: pip install 'rank-correlator[dask]'") from None
    connect: Any = Client  # not typed
    try:
        get_address_host_port(address)  # a client that finds out by itself is left half made, and complains at the end
        client = connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"no Dask scheduler answers at {address}: {reason}") from error
    with client:
        yield client.get_executor()
