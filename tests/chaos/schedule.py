"""Which fault begins when, at whom, and for how long: made from a seed before anything happens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    PARTITION = "partition"
    DEAF = "deaf"  # nothing reaches it
    MUTE = "mute"  # nothing it says arrives
    STALL = "stall"
    THROTTLE = "throttle"
    CUT = "cut"
    PAUSE = "pause"
    KILL = "kill"
    # Of a node of a cluster only
    KILL_LEADER = "kill the leader"
    ROUTES_CUT = "routes cut"
    ROUTES_SLOW = "routes slow"


OF_LINKS = (Kind.PARTITION, Kind.DEAF, Kind.MUTE, Kind.STALL, Kind.THROTTLE, Kind.CUT)
OF_PROCESSES = (*OF_LINKS, Kind.PAUSE, Kind.KILL)
OF_ONE_BROKER = (Kind.PAUSE, Kind.KILL)
OF_NODES = (Kind.PAUSE, Kind.KILL_LEADER, Kind.KILL, Kind.ROUTES_CUT, Kind.ROUTES_SLOW)

LASTING_SEC = (0.5, 2.0, 4.0, 7.0, 12.0)


class Fault(NamedTuple):
    after_sec: float  # of the one before it
    target: str
    kind: Kind
    lasting_sec: float

    def __str__(self) -> str:
        return f"{self.target}: {self.kind} for {self.lasting_sec:.1f} s"


def schedule(seed: int, lasting_sec: float, targets: Sequence[str], kinds: Sequence[Kind]) -> list[Fault]:
    """One after the other. Each lasts longer or shorter than a lease, by chance."""
    chance = random.Random(seed)
    at = 0.0
    found: list[Fault] = []
    while True:
        fault = Fault(
            after_sec=chance.uniform(0.5, 4.0),
            target=chance.choice(targets),
            kind=chance.choice(kinds),
            lasting_sec=chance.choice(LASTING_SEC),
        )
        at += fault.after_sec + fault.lasting_sec
        if at > lasting_sec:
            return found
        found.append(fault)
