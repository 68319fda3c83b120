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
    ("scheduling", "durability", "is_batch"),
    [
        ("auto", "interval", True),
        ("auto", "always", False),
        ("batch", "always", True),
        ("normal", "interval", False),
    ],
)
def test_the_setting_and_the_durability_decide(scheduling: Any, durability: Any, is_batch: bool) -> None:
    config = NatsBackendConfig(cpu_scheduling=scheduling, durability=durability)
    assert wants_batch(config) is is_batch


def test_a_system_that_forbids_it_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with caplog.at_level(logging.DEBUG):
        choose_scheduling(NatsBackendConfig(cpu_scheduling="batch"))
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


def test_a_system_that_forbids_to_ask_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_getscheduler", refuse)
    use_normal_scheduling()
