"""Dramatiq with Redis: one worker process with a thread per slot."""

from __future__ import annotations

import os
from typing import Any

from bench.peers.services import free_port, redis_command, wait_for_port
from bench.peers.system import CHAIN, FAN, Handle, Kind, System

APP = "bench.peers.apps.dramatiq_app"


class DramatiqRedis(System):
    title = "Dramatiq"
    packages = ("dramatiq[redis]",)
    debian = (("redis-server", "redis-server"),)
    driven = "a message, pipeline or group; send, get_result(block=True)"
    durability = "Redis log on disk, flushed every second"

    def start_server(self) -> None:
        port = free_port()
        self.run_server("redis", redis_command(self.folder, port))
        wait_for_port(port)
        os.environ["BENCH_REDIS"] = f"redis://127.0.0.1:{port}/0"

    def start_worker(self, slots: int) -> None:
        self.run_worker([self.program("dramatiq"), APP, "--processes", 1, "--threads", slots])

    def connect(self) -> None:
        from bench.peers.apps import dramatiq_app

        self.app: Any = dramatiq_app

    def submit(self, kind: Kind, number: int) -> Handle:
        from dramatiq import group, pipeline

        step = self.app.step
        match kind:
            case Kind.NOOP:
                return self.app.noop.send()
            case Kind.CHAIN:
                return pipeline([step.message(0), *(step.message() for _ in range(CHAIN - 1))]).run()
            case Kind.FAN:
                return group([step.message(each) for each in range(FAN)]).run()
            case Kind.NAP:
                return self.app.nap.send(number)

    def wait(self, handle: Handle, seconds: float) -> bool:
        from dramatiq.results import ResultTimeout
        from redis.exceptions import TimeoutError as RedisTimeout

        limit = {"block": True, "timeout": int(seconds * 1000)}
        try:
            if hasattr(handle, "get_results"):
                list(handle.get_results(**limit))
            else:
                handle.get_result(**limit)
        except (ResultTimeout, RedisTimeout):
            return False
        return True
