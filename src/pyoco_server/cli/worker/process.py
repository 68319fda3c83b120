"""A worker process: connect, serve until a signal, drain, close, exit."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from pyoco_server.cli.entry import CANNOT, CliRefusal, WrongArguments, print_refusal
from pyoco_server.cli.loop import run_in_loop
from pyoco_server.config import NatsBackendConfig
from pyoco_server.log_context import set_context
from pyoco_server.supervision import contain
from pyoco_server.worker import PyocoNatsWorker
from pyoco_server.worker.flows.reload import Reload
from pyoco_server.worker.slots.edition import ResolverBroken
from pyoco_server.worker.slots.zygote_spawn import SpawnedZygote

log = logging.getLogger(__name__)

KILLED = 130
# Runs that do not finish are stopped and handed back, which takes a signal and a commit each.
HAND_BACK_SEC = 5.0
RESOLVER_EXAMPLE = "pyoco-worker --flow-resolver my_flows.py:resolve --tags default"

# Threshold of the garbage collector. Python's default of 700 costs 3 % of the worker's time; this half of it.
YOUNG_OBJECTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Work:
    """The task of a worker process. `run_once_sec`: take one job at most, and wait this long for it.

    `reload`: when the files of its flows change, the next runs use the new flows.
    """

    config: NatsBackendConfig
    resolver: str  # where a slot finds it: module:function or file.py:function
    worker_id: str
    tags: list[str]
    run_once_sec: float | None = None
    reload: bool = False
    zygote: SpawnedZygote | None = None  # started in advance


def run_worker(work: Work) -> NoReturn:
    code = CANNOT
    try:
        with contain("worker", "the worker failed", worker_id=work.worker_id):
            code = _exit_code(work)
    finally:
        _exit(code)


def _exit_code(work: Work) -> int:
    try:
        run_in_loop(_run(work))
    except CliRefusal as refusal:
        return print_refusal(refusal)
    return 0


async def _run(work: Work) -> None:
    set_context(lambda: {"worker_id": work.worker_id})
    stop = asyncio.Event()
    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, _on_signal, stop)
    reload = Reload(work.resolver) if work.reload else None
    worker = await _connect(work, stop)
    if worker is None:
        return
    gc.freeze()  # objects of the start live as long as the process: the collector can skip them
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
    if stop.is_set():  # the second signal: exit at once
        _exit(KILLED)
    log.info("stopping: no more jobs are taken")
    stop.set()


async def _connect(work: Work, stop: asyncio.Event) -> PyocoNatsWorker | None:
    """The worker, or None after a signal while the broker was unavailable."""
    connecting = asyncio.ensure_future(
        PyocoNatsWorker.connect(
            work.config,
            resolver_spec=work.resolver,
            worker_id=work.worker_id,
            tags=work.tags,
            zygote=work.zygote,
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
        log.warning("runs did not finish in time and are handed back", extra={"drain_sec": drain_sec})
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


def _exit(code: int) -> NoReturn:
    """Without joining threads: a task that does not end must not keep the process alive."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
