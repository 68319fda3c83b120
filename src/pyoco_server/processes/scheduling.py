"""The scheduling class of our processes: batch, where fewer switches are worth more than an early wake-up.

A process of class SCHED_BATCH that is woken does not interrupt the process that woke it. A run wakes broker,
gateway, worker and slot in turn, so on few cores each message would otherwise interrupt its own sender. Only
on Linux; needs no privilege. Children inherit it; user code gets the normal class back.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slots import this module, and do not need the settings
    from pyoco_server.config import NatsBackendConfig

log = logging.getLogger(__name__)


def choose_scheduling(config: NatsBackendConfig, *, has_broker: bool) -> None:
    """For this process and those that it starts. Call it before any thread is started."""
    if wants_batch(config, has_broker=has_broker):
        _set_class("batch")


def wants_batch(config: NatsBackendConfig, *, has_broker: bool) -> bool:
    """`auto`: not for a broker with durability `always`. Each run waits for its disk, and an early wake-up
    shortens that. A worker does not know the durability of its broker, and loses nothing in either case.
    """
    if config.cpu_scheduling == "auto":
        return not has_broker or config.durability == "interval"
    return config.cpu_scheduling == "batch"


def use_normal_scheduling() -> None:
    """For a process that executes user code, and for the processes that this code starts.

    Classes other than ours stay: an operator may have chosen one for the whole program.
    """
    _set_class("normal")


def _set_class(name: str) -> None:
    """A container may forbid it; the only loss is speed."""
    if sys.platform != "linux":
        return
    policy = os.SCHED_BATCH if name == "batch" else os.SCHED_OTHER
    try:
        if name == "batch" or os.sched_getscheduler(0) == os.SCHED_BATCH:
            os.sched_setscheduler(0, policy, os.sched_param(0))
    except OSError as error:
        log.debug("scheduling class not set", extra={"scheduling": name, "error": str(error)})
