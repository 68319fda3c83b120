"""Celery tasks. Messages are acknowledged early, as by default: a killed worker loses what it has."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from celery import Celery

from bench.peers.events import END, START, record
from bench.peers.system import NAP_SEC

app = Celery("bench", broker=os.environ["BENCH_REDIS"], backend=os.environ["BENCH_REDIS"])
app.conf.update(broker_connection_retry_on_startup=True)


@app.task
def noop() -> None:
    return None


@app.task
def step(number: int) -> int:
    return number + 1


@app.task
def join(numbers: Sequence[int]) -> int:
    return len(numbers)


@app.task
def nap(number: int) -> None:
    record(START, number)
    time.sleep(NAP_SEC)
    record(END, number)
