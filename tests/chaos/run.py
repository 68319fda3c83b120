"""Minutes of faults by a seed under keyed load on all faces, then the audit: `python -m tests.chaos.run`.

The schedule of faults follows from the seed alone. What happens at the same instant does not: a violation may
need more than one run of the same command to be seen again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyoco_server.store.store import Store
from tests.chaos.audit import CHECKS, Check, Violation, audit
from tests.chaos.evidence import Evidence
from tests.chaos.load import Load
from tests.chaos.scene import GATEWAYS, WORKERS, Scene, scene
from tests.chaos.schedule import OF_NODES, OF_ONE_BROKER, OF_PROCESSES, Kind, schedule
from tests.conftest import NatsServer, config_for, free_port
from tests.faults.cluster.routed_cluster import routed_cluster
from tests.promises.cluster.test_lost_leader import config_at

STORY_EVERY_SEC = 0.4
SAY_EVERY_SEC = 60.0
CATALOGUE = "strategies:\n  - {id: strat.a, title: A, instrument: USDJPY, tags: [daily]}\n"


class Outcome(NamedTuple):
    violations: list[Violation]
    evidence: Evidence
    happened: list[str]


async def one_broker(
    seed: int, lasting_sec: float, folder: Path, checks: Sequence[Check] = CHECKS
) -> Outcome:
    server = NatsServer(_made(folder / "nats"), free_port())
    server.start()
    try:
        config = config_for(server, **settings(folder))
        async with scene(config, {"broker": server}, folder) as staged:
            return await played(staged, seed, lasting_sec, OF_ONE_BROKER, checks)
    finally:
        server.resume()
        server.stop()


async def three_brokers(
    seed: int, lasting_sec: float, folder: Path, checks: Sequence[Check] = CHECKS
) -> Outcome:
    async with routed_cluster(_made(folder / "cluster")) as brokers:
        await brokers.ready()
        config = config_at(brokers.url, **settings(folder))
        members = {member.name: member for member in brokers.members}
        async with scene(config, members, folder, brokers) as staged:
            return await played(staged, seed, lasting_sec, OF_NODES, checks)


async def played(
    staged: Scene, seed: int, lasting_sec: float, of_brokers: Sequence[Kind], checks: Sequence[Check]
) -> Outcome:
    evidence = Evidence()
    urls = [gateway.url for gateway in staged.gateways.values()]
    load = Load(urls, evidence, seed)
    try:
        await load.prepare()
        load.start(STORY_EVERY_SEC)
        at_processes = schedule(seed, lasting_sec, (*GATEWAYS, *WORKERS), OF_PROCESSES)
        at_brokers = schedule(seed + 1, lasting_sec, tuple(staged.brokers), of_brokers)
        async with _progress(staged, evidence):
            await asyncio.gather(staged.play(at_processes), staged.play(at_brokers))
            await staged.ready()
            await load.finish()
            found = await _audited(staged, evidence, urls, checks)
    finally:
        await load.close()
    return Outcome(found, evidence, staged.happened)


def settings(folder: Path) -> dict[str, Any]:
    catalogue = folder / "strategies.yaml"
    catalogue.write_text(CATALOGUE)
    return {
        "strategies_file": str(catalogue),
        "recheck_per_min": 10_000,
        "recheck_reads_per_min": 100_000,
        # Jobs that were lost with a process are published again within the time to settle.
        "owed_job_after_sec": 10.0,
        "cancel_grace_period_sec": 5.0,
    }


async def _audited(
    staged: Scene, evidence: Evidence, urls: list[str], checks: Sequence[Check]
) -> list[Violation]:
    store = await Store.connect(staged.config, name="audit")
    try:
        return await audit(store, evidence, urls, staged.marks, checks=checks)
    finally:
        await store.close()


@asynccontextmanager
async def _progress(staged: Scene, evidence: Evidence) -> AsyncIterator[None]:
    async def say() -> None:
        while True:
            await asyncio.sleep(SAY_EVERY_SEC)
            _say(f"{len(staged.happened)} faults, {told(evidence)}")

    saying = asyncio.create_task(say())
    try:
        yield
    finally:
        saying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await saying


def told(evidence: Evidence) -> str:
    answers = ", ".join(f"{count} × {status or 'no answer'}" for status, count in evidence.statuses.items())
    return (
        f"{len(evidence.created)} runs, {len(evidence.cancelled)} cancelled, "
        f"{len(evidence.approved)} approved, {len(evidence.erased)} erased; answers: {answers}"
    )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--keep", type=Path, help="folder for the logs of all processes; it must not exist")
    asked = parser.parse_args()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as temporary:
        folder = _made(asked.keep) if asked.keep else Path(temporary)
        scenario = one_broker if asked.brokers == 1 else three_brokers
        outcome = asyncio.run(scenario(asked.seed, asked.minutes * 60, folder))
    _say(f"{len(outcome.happened)} faults; {told(outcome.evidence)}")
    if not outcome.violations:
        _say("The audit found nothing.")
        return 0
    for violation in outcome.violations:
        _say(str(violation))
    _say(f"{len(outcome.violations)} violations. Once more: make chaos {_asked_again(asked)}")
    return 1


def _asked_again(asked: argparse.Namespace) -> str:
    return f"MINUTES={asked.minutes:g} SEED={asked.seed} BROKERS={asked.brokers}"


if __name__ == "__main__":
    sys.exit(main())
