"""Workers: take a job from the queue, run its flow, record what happened, settle the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.worker.worker import PyocoNatsWorker

__all__ = ["PyocoNatsWorker"]


def __getattr__(name: str) -> object:
    """Imported at the first use: slots import this package too, and do not need the broker's client."""
    if name != "PyocoNatsWorker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyoco_server.worker.worker import PyocoNatsWorker

    return PyocoNatsWorker
