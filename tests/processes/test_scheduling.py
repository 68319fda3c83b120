"""Which scheduling class a configuration asks for, and what happens where the system forbids it."""

from __future__ import annotations

import errno
import logging
import os
import sys
from typing import Any, NoReturn

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.processes.scheduling import choose_scheduling, use_normal_scheduling, wants_batch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scheduling classes of Linux")


@pytest.mark.parametrize(
    ("scheduling", "durability", "is_batch", "is_batch_worker"),
    [
        ("auto", "interval", True, True),
        ("auto", "always", False, True),
        ("batch", "always", True, True),
        ("normal", "interval", False, False),
    ],
)
def test_the_setting_and_the_durability_of_the_own_broker_decide(
    scheduling: Any, durability: Any, is_batch: bool, is_batch_worker: bool
) -> None:
    config = NatsBackendConfig(cpu_scheduling=scheduling, durability=durability)
    assert wants_batch(config, has_broker=True) is is_batch
    assert wants_batch(config, has_broker=False) is is_batch_worker


def test_a_system_that_forbids_it_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with caplog.at_level(logging.DEBUG):
        choose_scheduling(NatsBackendConfig(cpu_scheduling="batch"), has_broker=True)
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


def test_a_system_that_forbids_to_ask_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_getscheduler", refuse)
    use_normal_scheduling()
