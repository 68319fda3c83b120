"""Run pyoco flows somewhere reliable. The public names of the package, loaded at their first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.config import NatsBackendConfig
    from pyoco_server.flows.waits import approval, sleep
    from pyoco_server.http_client import AsyncPyocoClient, PyocoHttpClient
    from pyoco_server.logging_config import configure_logging
    from pyoco_server.nats_client import PyocoNatsClient
    from pyoco_server.store.resources import ensure_resources
    from pyoco_server.worker import PyocoNatsWorker

__all__ = [
    "AsyncPyocoClient",
    "NatsBackendConfig",
    "PyocoHttpClient",
    "PyocoNatsClient",
    "PyocoNatsWorker",
    "approval",
    "configure_logging",
    "ensure_resources",
    "sleep",
]

_HOMES = {
    "AsyncPyocoClient": "http_client",
    "NatsBackendConfig": "config",
    "PyocoHttpClient": "http_client",
    "PyocoNatsClient": "nats_client",
    "PyocoNatsWorker": "worker",
    "approval": "flows.waits",
    "configure_logging": "logging_config",
    "ensure_resources": "store.resources",
    "sleep": "flows.waits",
}


def __getattr__(name: str) -> object:
    """Import lazily: the HTTP client must not import the client of the broker, a flow must import neither."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
