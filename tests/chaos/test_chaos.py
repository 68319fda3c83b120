"""Faults by a fixed seed, on one broker and on three, and then the audit: a short form of `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import audit
from tests.chaos.run import Outcome, one_broker, three_brokers

LASTING_SEC = 25.0
SEED = 4
# Consumers without a listener and notes of what was erased take a minute to go, in a cluster several.
QUICK = tuple(check for check in audit.CHECKS if check is not audit.no_stream_or_consumer_is_left_behind)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_every_promise_holds_after_faults_of_one_broker_and_its_clients(tmp_path: Path) -> None:
    outcome = await one_broker(SEED, LASTING_SEC, tmp_path, QUICK)
    _expect_none(outcome, "BROKERS=1")


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_every_promise_holds_after_faults_of_a_cluster_and_its_clients(tmp_path: Path) -> None:
    outcome = await three_brokers(SEED, LASTING_SEC, tmp_path, QUICK)
    _expect_none(outcome, "BROKERS=3")


def _expect_none(outcome: Outcome, brokers: str) -> None:
    again = f"make chaos MINUTES={LASTING_SEC / 60:g} SEED={SEED} {brokers}"
    assert not outcome.violations, "\n".join(["", *map(str, outcome.violations), f"Once more: {again}"])
    # Else nothing was shown: there were faults, and there was work of every kind.
    told = outcome.evidence
    assert len(outcome.happened) >= 5
    assert all((told.created, told.cancelled, told.approved, told.erased, told.reported))
