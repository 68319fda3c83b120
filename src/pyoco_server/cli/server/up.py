"""`pyoco-server up`: open the port, start broker, worker and gateway, print, wait, stop in reverse order.

Each step pushes its undo on an exit stack. The worker's process starts while the gateway is imported, so that
both are ready at about the same time.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from pyoco_server.broker import BrokerCredentials, BrokerError, EmbeddedBroker, foreign_nats
from pyoco_server.cli.entry import CANNOT, INTERRUPTED, CliRefusal
from pyoco_server.cli.loop import run_in_loop
from pyoco_server.cli.server.gateway import GatewayServer
from pyoco_server.cli.server.listening import check_reach, listen
from pyoco_server.cli.server.up_plan import UpPlan
from pyoco_server.cli.server.up_screen import Screen
from pyoco_server.cli.server.worker_process import WorkerProcess
from pyoco_server.cli.settings import write_logs
from pyoco_server.config import NatsBackendConfig
from pyoco_server.logging_config import HTTP_SERVICE
from pyoco_server.processes.scheduling import choose_scheduling

SHOW_REASONS_AFTER_SEC = 3.0


def up(plan: UpPlan) -> int:
    """Run until a signal or the end of a part. Returns the exit code."""
    write_logs(HTTP_SERVICE, plan.config)
    choose_scheduling(plan.config, has_broker=True)
    return run_in_loop(_up(plan, Screen()))


async def _up(plan: UpPlan, screen: Screen) -> int:
    stop = _stop_on_signals()
    async with AsyncExitStack() as held:
        check_reach(plan.config)
        listening = listen(plan.config.http_host, plan.config.http_port)
        held.callback(listening.close)
        plan, broker = await _start_broker(plan, held, screen)
        worker = await _start_worker(plan, held)
        gateway = GatewayServer(plan.config, listening, broker=broker)
        held.push_async_callback(gateway.stop)
        gateway.start()
        ended = [gateway.ended, *([worker.refused] if worker else [])]
        if await _until_ready(gateway, ended, stop, screen):
            screen.ready(plan, listening)
        await _first(stop, *ended)
        screen.stopping(by_signal=stop.is_set())
    return 0 if stop.is_set() else CANNOT


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()

    def request_stop() -> None:
        if stop.is_set():  # the second signal: exit at once; the kernel ends the children too
            os._exit(INTERRUPTED)
        stop.set()

    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, request_stop)
    return stop


async def _start_broker(
    plan: UpPlan, held: AsyncExitStack, screen: Screen
) -> tuple[UpPlan, EmbeddedBroker | None]:
    """The plan with the broker's address, and the broker if it is embedded."""
    if not plan.embedded:
        return plan, None
    broker = EmbeddedBroker(
        data_dir=Path(plan.config.data_dir),
        durability=plan.config.durability,
        preferred_port=plan.broker_port,
        asks_for_credentials=bool(plan.config.auth_methods),
        credentials=_named_credentials(plan.config),
    )
    try:
        await held.enter_async_context(broker)
    except BrokerError as error:
        raise CliRefusal(str(error)) from error
    if broker.port != plan.broker_port:
        await _report_taken_port(plan, screen)
    config = replace(plan.config, nats_url=broker.url)
    if broker.credentials is not None:
        # Not among `changed`, which a process list shows: the worker finds them in the data folder.
        user, password = broker.credentials
        config = replace(config, nats_user=user, nats_password=password)
    return replace(plan, config=config, changed=plan.changed | {"nats_url": broker.url}), broker


def _named_credentials(config: NatsBackendConfig) -> BrokerCredentials | None:
    return BrokerCredentials(config.nats_user, config.nats_password) if config.nats_user else None


async def _report_taken_port(plan: UpPlan, screen: Screen) -> None:
    other = await asyncio.to_thread(foreign_nats, "127.0.0.1", plan.broker_port)
    if plan.broker_port_is_fixed:
        raise CliRefusal(
            f"Port {plan.broker_port} is taken by {other or 'another program'}: stop it, "
            "or leave out --with-nats-bootstrap to use it."
        )
    if other:
        screen.other_broker(other, f"nats://127.0.0.1:{plan.broker_port}")


async def _start_worker(plan: UpPlan, held: AsyncExitStack) -> WorkerProcess | None:
    if plan.worker is None:
        return None
    worker = WorkerProcess(plan.worker, plan.changed, drain_sec=plan.config.drain_timeout_sec)
    held.push_async_callback(worker.stop)
    await worker.start()
    return worker


async def _until_ready(
    gateway: GatewayServer, ended: list[asyncio.Event], stop: asyncio.Event, screen: Screen
) -> bool:
    """True when `/ready` answers ready. Prints the reasons if that takes long."""
    ready = asyncio.ensure_future(gateway.wait_until_ready())
    over = asyncio.ensure_future(_first(stop, *ended))
    await asyncio.wait({ready, over}, timeout=SHOW_REASONS_AFTER_SEC, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done() and not over.done():
        screen.waiting(gateway.reasons)
    await asyncio.wait({ready, over}, return_when=asyncio.FIRST_COMPLETED)
    gateway.give_up_waiting()
    over.cancel()
    return await ready and not any(event.is_set() for event in ended)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
