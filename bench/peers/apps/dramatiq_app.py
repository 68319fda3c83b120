"""Dramatiq actors, with results."""

from __future__ import annotations

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.peers.events import END, START, record
from bench.peers.system import NAP_SEC

DAY_MS = 86_400_000

broker = RedisBroker(url=os.environ["BENCH_REDIS"])
backend = RedisBackend(url=os.environ["BENCH_REDIS"])
broker.add_middleware(Results(backend=backend, store_results=True, result_ttl=DAY_MS))
dramatiq.set_broker(broker)


@dramatiq.actor
def noop() -> None:
    return None


@dramatiq.actor
def step(number: int) -> int:
    return number + 1


@dramatiq.actor
def nap(number: int) -> None:
    record(START, number)
    time.sleep(NAP_SEC)
    record(END, number)
