"""The systems that are measured, by the name that the command takes. Ours are first."""

from __future__ import annotations

from bench.peers.system import System
from bench.peers.systems.celery import CeleryRedis
from bench.peers.systems.dbos import DbosPostgres
from bench.peers.systems.dramatiq import DramatiqRedis
from bench.peers.systems.pyoco import Pyoco, PyocoAlways
from bench.peers.systems.restate import Restate
from bench.peers.systems.taskiq import TaskiqNats
from bench.peers.systems.temporal import Temporal

OURS = "pyoco"

SYSTEMS: dict[str, type[System]] = {
    OURS: Pyoco,
    "restate": Restate,
    "celery": CeleryRedis,
    "dramatiq": DramatiqRedis,
    "taskiq": TaskiqNats,
    "dbos": DbosPostgres,
    "temporal": Temporal,
    "pyoco-always": PyocoAlways,
}
# Measured if no system is named.
USUAL = [name for name in SYSTEMS if name not in (OURS, "pyoco-always")]
