"""Start a server and wait until it is ready. A server that does not become ready is ended."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from pyoco_server.broker.errors import BrokerFailedToStart, PortTaken
from pyoco_server.broker.prepare import ServerPlan
from pyoco_server.broker.probe import greeting_at
from pyoco_server.broker.process import ServerProcess

READY_STEP_SEC = 0.005  # a server with a small store is ready in 10 to 30 ms


async def launch(
    plan: ServerPlan, *, ready_timeout_sec: float, given_up: Callable[[], bool]
) -> ServerProcess:
    """A server that answers with JetStream on; raises BrokerFailedToStart."""
    server = await ServerProcess.spawn(plan.binary, plan.conf, lock_fd=plan.lock_fd)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(server.end)  # also after a cancel: the caller does not have the server
        await _wait_until_ready(server, plan, ready_timeout_sec, given_up)
        undo.pop_all()
    return server


async def _wait_until_ready(
    server: ServerProcess, plan: ServerPlan, timeout_sec: float, given_up: Callable[[], bool]
) -> None:
    deadline = time.monotonic() + timeout_sec
    while not await _answers(plan):
        if not server.running:
            raise await _explained_exit(server, plan)
        if given_up():
            raise BrokerFailedToStart("The nats-server was stopped before it was ready.")
        if time.monotonic() > deadline:
            raise BrokerFailedToStart(
                f"The nats-server was not ready within {timeout_sec:g} s (a big store may need a longer "
                f"timeout). It said:\n{server.log.explanation()}"
            )
        await asyncio.sleep(READY_STEP_SEC)


async def _answers(plan: ServerPlan) -> bool:
    greeting = await greeting_at(plan.host, plan.port)
    return greeting is not None and greeting.server_name == plan.server_name and greeting.jetstream


async def _explained_exit(server: ServerProcess, plan: ServerPlan) -> BrokerFailedToStart:
    code = await server.wait()
    if server.log.mentions("address already in use"):
        return PortTaken(f"Port {plan.port} on {plan.host} is taken by another program: choose another port.")
    return BrokerFailedToStart(
        f"The nats-server exited with code {code}. It said:\n{server.log.explanation()}"
    )
