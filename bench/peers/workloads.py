"""What is measured, the same for every system. Each function returns the figures of one round.

W1 idle latency · W2 a burst of no-op runs · W3 chains of ten tasks · W4 fan-outs of a hundred · W5 kill -9 of
the worker while runs sleep, restarted at once · memory · start to first run · a list of 50 out of many.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.peers import events
from bench.peers.services import wait_until
from bench.peers.system import CHAIN, FAN, Kind, System
from bench.processes import Watch, busy_sec, pss_mb
from bench.summaries import median, percentile

SLOTS = 8
RUN_SEC_MAX = 120.0
BURST_SEC_MAX = 400.0
FILL_SEC_MAX = 180.0
IDLE_SEC = 5.0
LISTED, LISTS = 50, 30
# After the last run has ended: could one end twice?
SECOND_END_SEC = 3.0
QUIET_CORES = 0.35

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    idle: int = 200
    burst: int = 2000
    chains: int = 200
    fans: int = 20
    naps: int = 20
    stored: int = 20_000
    repetitions: int = 3
    recovery_sec_max: float = 90.0
    quiet_sec_max: float = 15.0

    def scaled(self, share: float) -> Sizes:
        """For a slow system. The sleeping runs stay, because their number is a result."""
        names = ("idle", "burst", "chains", "fans")
        return replace(self, **{name: max(2, int(getattr(self, name) * share)) for name in names})


SMALL = Sizes(
    idle=20,
    burst=100,
    chains=10,
    fans=3,
    naps=6,
    stored=500,
    repetitions=1,
    recovery_sec_max=60.0,
    quiet_sec_max=0.0,
)


class RunsMissing(Exception):
    """A system has not completed what it was given."""


def start(system: System, sizes: Sizes) -> Figures:
    """From nothing to the end of the first run."""
    wait_until_quiet(sizes.quiet_sec_max)
    begun = time.perf_counter()
    system.start_server()
    system.start_worker(SLOTS)
    system.connect()
    _complete(system, Kind.NOOP)
    return {"first_run_sec": time.perf_counter() - begun}


def memory(system: System, _sizes: Sizes) -> Figures:
    time.sleep(IDLE_SEC)
    pids = system.pids()
    return {"pss_mb": pss_mb(pids), "processes": len(pids)}


def idle_latency(system: System, sizes: Sizes) -> Figures:
    def measure() -> Figures:
        taken = []
        with Watch(system.roots()) as watch:
            for _ in range(sizes.idle):
                begun = time.perf_counter()
                _complete(system, Kind.NOOP)
                taken.append((time.perf_counter() - begun) * 1000)
        shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
        return {name: percentile(taken, share) for name, share in shares.items()} | costs(watch, sizes.idle)

    return _repeat(measure, sizes)


def burst(kind: Kind, count: Callable[[Sizes], int], tasks: int) -> Callable[[System, Sizes], Figures]:
    """Submit all runs, then wait for all of them; both count."""

    def repeat(system: System, sizes: Sizes) -> Figures:
        return _repeat(lambda: measure(system, count(sizes)), sizes)

    def measure(system: System, runs: int) -> Figures:
        with Watch(system.roots()) as watch:
            begun = time.perf_counter()
            handles = system.submit_many(kind, runs)
            submitted = time.perf_counter() - begun
            completed = system.wait_all(handles, BURST_SEC_MAX)
        if completed < runs:
            raise RunsMissing(f"{completed} of {runs} runs ({kind}) completed within {BURST_SEC_MAX:.0f} s")
        system.stored += runs
        rates = {"runs_per_sec": runs / watch.seconds, "tasks_per_sec": runs * tasks / watch.seconds}
        return rates | {"submits_per_sec": runs / submitted} | costs(watch, runs)

    return repeat


def recovery(system: System, sizes: Sizes) -> Figures:
    """All sleeping runs have a slot. Seconds from the kill until the last has ended; None if not all did."""
    system.stop_worker()
    system.start_worker(sizes.naps)
    _complete(system, Kind.NOOP)
    system.events.write_text("")
    handles = system.submit_many(Kind.NAP, sizes.naps)
    wait_until(lambda: _begun_enough(system, sizes.naps), RUN_SEC_MAX, 0.02)
    in_flight = len(_numbers(system, events.START) - _numbers(system, events.END))
    killed = time.time()
    system.kill_worker()
    system.start_worker(sizes.naps)
    all_ended = wait_until(
        lambda: len(_numbers(system, events.END)) >= sizes.naps, sizes.recovery_sec_max, 0.02
    )
    seconds = time.time() - killed
    time.sleep(SECOND_END_SEC)
    found = events.read(system.events)
    ended = [event.number for event in found if event.what == events.END]
    return {
        "seconds": seconds if all_ended else None,
        "runs": len(handles),
        "waited_sec": min(seconds, sizes.recovery_sec_max),
        "in_flight": in_flight,
        "completed": len(set(ended)),
        "begun_again": len([event for event in found if event.what == events.START]) - sizes.naps,
        "ended_twice": len(ended) - len(set(ended)),
    }


def listing(system: System, sizes: Sizes) -> Figures | None:
    if system.list_runs(1) is None:
        return None
    until = time.monotonic() + FILL_SEC_MAX
    while system.stored < sizes.stored and time.monotonic() < until:
        count = min(sizes.burst, sizes.stored - system.stored)
        system.stored += system.wait_all(system.submit_many(Kind.NOOP, count), BURST_SEC_MAX)
    taken = []
    for _ in range(LISTS):
        asked = time.perf_counter()
        listed = system.list_runs(LISTED)
        taken.append((time.perf_counter() - asked) * 1000)
    return {"p50_ms": percentile(taken, 0.5), "stored": system.stored, "listed": listed}


# In the order in which they are measured: the list adds many runs, and the kill comes last.
WORKLOADS: dict[str, Callable[[System, Sizes], Figures | None]] = {
    "start": start,
    "memory": memory,
    "w1": idle_latency,
    "w2": burst(Kind.NOOP, lambda sizes: sizes.burst, 1),
    "w3": burst(Kind.CHAIN, lambda sizes: sizes.chains, CHAIN),
    "w4": burst(Kind.FAN, lambda sizes: sizes.fans, FAN),
    "list": listing,
    "w5": recovery,
}


def costs(watch: Watch, runs: int) -> Figures:
    """Processor time and context switches of one run, together and by process."""
    roles = {
        name: {
            "cpu_us": role.cpu_sec / runs * 1e6,
            "voluntary": role.voluntary / runs,
            "forced": role.forced / runs,
        }
        for name, role in sorted(watch.roles.items())
    }
    totals = {"cpu_ms": watch.cpu_sec / runs * 1000, "client_cpu_ms": watch.client_sec / runs * 1000}
    return totals | {"others_cores": watch.others_cores, "roles": roles}


def medians(rounds: list[Figures]) -> Figures:
    """The median of each number; of the costs by process too. A process that a round lacks counts as zero."""
    names = {name: value for figures in rounds for name, value in figures.items()}
    merged: Figures = {}
    for name, value in names.items():
        values = [figures.get(name) for figures in rounds]
        if isinstance(value, dict):
            merged[name] = medians([each or dict.fromkeys(value, 0.0) for each in values])
        else:
            merged[name] = median(values)
    return merged


def wait_until_quiet(seconds: float) -> None:
    """Until other processes leave the machine nearly idle, or the time has passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = busy_sec()
        time.sleep(0.5)
        if (busy_sec() - before) / 0.5 < QUIET_CORES:
            return


def _repeat(measure: Callable[[], Figures], sizes: Sizes) -> Figures:
    found = []
    for _ in range(sizes.repetitions):
        wait_until_quiet(sizes.quiet_sec_max)
        found.append(measure())
    return medians(found)


def _complete(system: System, kind: Kind) -> None:
    if not system.wait(system.submit(kind, 0), RUN_SEC_MAX):
        raise RunsMissing(f"a run ({kind}) has not completed within {RUN_SEC_MAX:.0f} s")
    system.stored += 1


def _numbers(system: System, what: str) -> set[int]:
    return {event.number for event in events.read(system.events) if event.what == what}


def _begun_enough(system: System, count: int) -> bool:
    """All have begun, or a second has passed since the first: some systems begin them one by one."""
    begun = [event.at for event in events.read(system.events) if event.what == events.START]
    return len(begun) >= count or bool(begun and time.time() - min(begun) > 1.0)
