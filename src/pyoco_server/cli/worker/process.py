"""The life of a worker process: connect, serve until a signal, drain, close, leave."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from pyoco_server.cli.entry import CliRefusal, WrongArguments, say
from pyoco_server.cli.loop import run_in_loop
from pyoco_server.config import NatsBackendConfig
from pyoco_server.log_context import set_context
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.flows.reload import Reload
from pyoco_server.worker.slots.slot import ResolverBroken

log = logging.getLogger(__name__)

KILLED = 130
# What cannot be finished is stopped and handed back, which takes a signal and a commit each.
HAND_BACK_SEC = 5.0
RESOLVER_EXAMPLE = "pyoco-worker --flow-resolver my_flows.py:resolve --tags default"

# Between two looks of the collector. With Python's own 700 it had 3 % of the worker's time; now half of that.
YOUNG_OBJECTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker process is to do. `run_once_sec`: one job at most, waiting this long for it.

    `reload`: when the files of its flows change, the next runs use what they say then.
    """

    config: NatsBackendConfig
    resolver: str  # where a slot finds it: module:function or file.py:function
    worker_id: str
    tags: list[str]
    run_once_sec: float | None = None
    reload: bool = False


def live(work: Work) -> NoReturn:
    code = 1
    try:
        run_in_loop(_live(work))
        code = 0
    except CliRefusal as refusal:
        code = say(refusal)
    except Exception:  # process boundary: the log has the error that ended the worker
        log.exception("worker broke", extra={"worker_id": work.worker_id})
    finally:
        _leave(code)


async def _live(work: Work) -> None:
    set_context(lambda: {"worker_id": work.worker_id})
    stop = asyncio.Event()
    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, _on_signal, stop)
    reload = Reload(work.resolver) if work.reload else None
    worker = await _connect(work, stop)
    if worker is None:
        return
    gc.freeze()  # what is alive now lives for ever: the collector need not look at it again
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    if reload is not None:
        reload.start(worker.renew)
    try:
        await (_serve(worker, work, stop) if work.run_once_sec is None else _serve_one(worker, work, stop))
    finally:
        if reload is not None:
            await reload.stop()
        await worker.close()


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():  # asked twice: at once
        _leave(KILLED)
    log.info("stopping: no more jobs are taken")
    stop.set()


async def _connect(work: Work, stop: asyncio.Event) -> PyocoNatsWorker | None:
    """The worker, or None when we were told to stop while the broker was away."""
    connecting = asyncio.ensure_future(
        PyocoNatsWorker.connect(
            work.config, resolver_spec=work.resolver, worker_id=work.worker_id, tags=work.tags
        )
    )
    await _first_of(connecting, stop)
    try:
        return await connecting if connecting.done() else None
    except ResolverBroken as wrong:
        raise WrongArguments(f"--flow-resolver: {wrong}", hint=RESOLVER_EXAMPLE) from wrong


async def _serve(worker: PyocoNatsWorker, work: Work, stop: asyncio.Event) -> None:
    serving = asyncio.ensure_future(worker.serve())
    await _first_of(serving, stop)
    worker.stop()
    drain_sec = work.config.drain_timeout_sec
    await asyncio.wait({serving}, timeout=drain_sec)
    if serving.done():
        serving.result()
    else:
        log.warning("runs are still going and are given back", extra={"drain_sec": drain_sec})
        await worker.hand_back()
        await asyncio.wait({serving}, timeout=HAND_BACK_SEC)


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
