"""A route of this face: an operation, to whom it is open, and which limit it counts for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request

from pyoco_server.http_api.faces.recheck.access import Access
from pyoco_server.http_api.routing.operation import Operation

READS, RECHECK, RECHECK_ALL = "reads", "recheck", "recheck_all"


@dataclass(frozen=True, slots=True)
class RecheckRoute:
    """`access` None: the address is its own proof, and `proof` raises Forbidden where it is not one."""

    operation: Operation
    access: Access | None
    limit: str = READS
    proof: Callable[[Request], Awaitable[None]] | None = None

    @property
    def method(self) -> str:
        return self.operation.method

    @property
    def path(self) -> str:
        return self.operation.path
