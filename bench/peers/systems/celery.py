"""Celery with Redis as broker and result backend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from bench.peers.services import free_port, redis_command, wait_for_port
from bench.peers.system import CHAIN, FAN, Handle, Kind, System

APP = "bench.peers.apps.celery_app"


class CeleryRedis(System):
    title = "Celery"
    packages = ("celery[redis]",)
    debian = (("redis-server", "redis-server"),)
    driven = "a task, chain or chord; apply_async, AsyncResult.get"
    durability = "Redis log on disk, flushed every second"

    def start_server(self) -> None:
        port = free_port()
        self.run_server("redis", redis_command(self.folder, port))
        wait_for_port(port)
        os.environ["BENCH_REDIS"] = f"redis://127.0.0.1:{port}/0"

    def start_worker(self, slots: int) -> None:
        command = [self.program("celery"), "-A", APP, "worker", "-c", slots, "-l", "warning"]
        self.run_worker([*command, "--without-gossip", "--without-mingle"])

    def connect(self) -> None:
        from bench.peers.apps import celery_app

        self.app: Any = celery_app

    def submit(self, kind: Kind, number: int) -> Handle:
        from celery import chain, chord

        step = self.app.step
        match kind:
            case Kind.NOOP:
                return self.app.noop.apply_async()
            case Kind.CHAIN:
                return chain(step.s(0), *(step.s() for _ in range(CHAIN - 1))).apply_async()
            case Kind.FAN:
                return chord([step.s(each) for each in range(FAN)])(self.app.join.s())
            case Kind.NAP:
                return self.app.nap.apply_async((number,))

    def wait(self, handle: Handle, seconds: float) -> bool:
        from celery.exceptions import TimeoutError as TooLate

        try:
            handle.get(timeout=seconds)
        except TooLate:
            return False
        return True

    def wait_all(self, handles: Sequence[Handle], seconds: float) -> int:
        """Results are pushed to one consumer, which threads must not share."""
        return sum(self.wait(handle, seconds) for handle in handles)
