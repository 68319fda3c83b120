"""The life of a worker process: connect, serve until a signal, drain, close, leave."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from pyoco_server.cli.loop import run_in_loop
from pyoco_server.config import NatsBackendConfig
from pyoco_server.flows import FlowResolver
from pyoco_server.worker import PyocoNatsWorker

log = logging.getLogger(__name__)

KILLED = 130


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker process is to do. `run_once_sec`: one job at most, waiting this long for it."""

    config: NatsBackendConfig
    resolver: FlowResolver
    worker_id: str
    tags: list[str]
    run_once_sec: float | None = None


def live(work: Work) -> NoReturn:
    code = 1
    try:
        run_in_loop(_live(work))
        code = 0
    except Exception:  # the end of the process: whatever it was has to be in the log
        log.exception("worker broke", extra={"worker_id": work.worker_id})
    finally:
        _leave(code)


async def _live(work: Work) -> None:
    stop = asyncio.Event()
    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, _on_signal, stop)
    worker = await _connected(work, stop)
    if worker is None:
        return
    try:
        await (_serve(worker, work, stop) if work.run_once_sec is None else _serve_one(worker, work, stop))
    finally:
        await worker.close()


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():  # asked twice: at once
        _leave(KILLED)
    log.info("stopping: no more jobs are taken")
    stop.set()


async def _connected(work: Work, stop: asyncio.Event) -> PyocoNatsWorker | None:
    """The worker, or None when we were told to stop while the broker was away."""
    connecting = asyncio.ensure_future(
        PyocoNatsWorker.connect(
            work.config, flow_resolver=work.resolver, worker_id=work.worker_id, tags=work.tags
        )
    )
    await _first_of(connecting, stop)
    return await connecting if connecting.done() else None


async def _serve(worker: PyocoNatsWorker, work: Work, stop: asyncio.Event) -> None:
    serving = asyncio.ensure_future(worker.serve())
    await _first_of(serving, stop)
    worker.stop()
    drain_sec = work.config.drain_timeout_sec
    await asyncio.wait({serving}, timeout=drain_sec)
    if serving.done():
        serving.result()
    else:
        log.warning("runs are still going and are left to other workers", extra={"drain_sec": drain_sec})


async def _serve_one(worker: PyocoNatsWorker, work: Work, stop: asyncio.Event) -> None:
    assert work.run_once_sec is not None
    handling = asyncio.ensure_future(worker.run_once(timeout=work.run_once_sec))
    await _first_of(handling, stop)
    worker.stop()
    await asyncio.wait({handling}, timeout=work.config.drain_timeout_sec)
    if handling.done() and (run_id := handling.result()) is not None:
        sys.stdout.write(f"{run_id}\n")


async def _first_of(work: asyncio.Future[Any], stop: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


def _leave(code: int) -> NoReturn:
    """Without joining threads: a task that would not end must not keep the process."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
