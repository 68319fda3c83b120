"""The DBOS worker: its workflows, and the queue that it listens on."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

from dbos import DBOS

from bench.peers.events import END, START, record
from bench.peers.system import NAP_SEC

DBOS(
    config={
        "name": "bench",
        "system_database_url": os.environ["BENCH_DBOS"],
        "application_version": "1",
        "executor_id": "worker",
        "log_level": "WARNING",
        "run_admin_server": False,
    }
)


@DBOS.step()
def one() -> int:
    return 1


@DBOS.step()
async def one_of_many() -> int:
    return 1


@DBOS.step()
def sleep(number: int) -> None:
    record(START, number)
    time.sleep(NAP_SEC)
    record(END, number)


@DBOS.workflow(name="noop")
def noop() -> int:
    return one()


@DBOS.workflow(name="chain")
def chain(length: int) -> int:
    return sum(one() for _ in range(length))


@DBOS.workflow(name="fan")
async def fan(width: int) -> int:
    return sum(await asyncio.gather(*(one_of_many() for _ in range(width))))


@DBOS.workflow(name="nap")
def nap(number: int) -> None:
    sleep(number)


if __name__ == "__main__":
    slots, poll_sec = int(sys.argv[1]), float(sys.argv[2])
    DBOS.launch()
    DBOS.register_queue(
        "bench", worker_concurrency=slots, polling_interval_sec=poll_sec, on_conflict="always_update"
    )
    threading.Event().wait()
