"""taskiq tasks on JetStream."""

from __future__ import annotations

import asyncio
import os

from taskiq_nats import NATSObjectStoreResultBackend, PullBasedJetStreamBroker

from bench.peers.events import END, START, record
from bench.peers.system import NAP_SEC

SERVERS = [os.environ["BENCH_NATS"]]

broker = PullBasedJetStreamBroker(SERVERS, queue="bench").with_result_backend(
    NATSObjectStoreResultBackend(servers=SERVERS)
)


@broker.task(task_name="noop")
async def noop() -> int:
    return 1


@broker.task(task_name="step")
async def step(left: int) -> None:
    if left > 1:
        await step.kiq(left - 1)


@broker.task(task_name="nap")
async def nap(number: int) -> None:
    record(START, number)
    await asyncio.sleep(NAP_SEC)
    record(END, number)
