"""The scope that a request needs, by the first step of its path and by whether it only reads.

One table for all faces, checked before any route. `tests/http_api/routing/test_route_classes.py` compares it
with the routes that exist: each is public, of the caller's tenant, or needs a scope that is given by name.
"""

from __future__ import annotations

from pyoco_server.operations.identity.callers import Caller, Scope

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# to read, to write
_RUNS = (Scope.RUNS_READ, Scope.RUNS_WRITE)
_NEEDED: dict[str, tuple[Scope, Scope]] = {
    "runs": _RUNS,
    "jobs": _RUNS,
    # A ticket is for an address that its caller may read.
    "tickets": (Scope.RUNS_READ, Scope.RUNS_READ),
    "schedules": _RUNS,
    "batches": _RUNS,
    "dlq": _RUNS,
    "approvals": _RUNS,
    "executions": _RUNS,
    "graphs": _RUNS,
    "wheels": (Scope.OPS_READ, Scope.WHEELS_WRITE),
    "workers": (Scope.OPS_READ, Scope.ADMIN),
    "metrics": (Scope.OPS_READ, Scope.ADMIN),
    "flows": _RUNS,
    # A topic that needs another scope checks it.
    "stream": _RUNS,
    "system": (Scope.OPS_READ_ALL, Scope.ADMIN),
}
# Each caller sees its own data only.
_OWN = frozenset({"idempotency", "caller"})


def check_scope(caller: Caller, method: str, path: str) -> None:
    """Raises Forbidden when the caller lacks the scope."""
    first, is_safe = path[1:].partition("/")[0], method in SAFE_METHODS
    if first in _OWN and is_safe:
        return
    needed = _NEEDED.get(first)
    if needed is not None:
        caller.require(needed[0] if is_safe else needed[1])
    elif caller.scopes is not None:
        # There is no such route. A key without scopes gets 404; a limited one gets 403.
        caller.require(Scope.ADMIN)
