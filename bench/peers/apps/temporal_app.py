"""The Temporal worker: its workflows and activities."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.peers.events import END, START, record
from bench.peers.system import NAP_SEC

# Without a heartbeat, this timeout is what detects a killed worker.
TIMEOUT = timedelta(seconds=10)


@activity.defn
def one(number: int) -> int:
    return number + 1


@activity.defn
def sleep(number: int) -> None:
    record(START, number)
    time.sleep(NAP_SEC)
    record(END, number)


@workflow.defn(name="noop")
class Noop:
    @workflow.run
    async def run(self, number: int) -> int:
        return await workflow.execute_activity(one, number, start_to_close_timeout=TIMEOUT)


@workflow.defn(name="chain")
class Chain:
    @workflow.run
    async def run(self, length: int) -> int:
        number = 0
        for _ in range(length):
            number = await workflow.execute_activity(one, number, start_to_close_timeout=TIMEOUT)
        return number


@workflow.defn(name="fan")
class Fan:
    @workflow.run
    async def run(self, width: int) -> int:
        ones = [workflow.execute_activity(one, 0, start_to_close_timeout=TIMEOUT) for _ in range(width)]
        return sum(await asyncio.gather(*ones))


@workflow.defn(name="nap")
class Nap:
    @workflow.run
    async def run(self, number: int) -> None:
        await workflow.execute_activity(sleep, number, start_to_close_timeout=TIMEOUT)


async def main(address: str, slots: int) -> None:
    client = await Client.connect(address)
    with ThreadPoolExecutor(slots) as executor:
        worker = Worker(
            client,
            task_queue="bench",
            workflows=[Noop, Chain, Fan, Nap],
            activities=[one, sleep],
            activity_executor=executor,
            max_concurrent_activities=slots,
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
