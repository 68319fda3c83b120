"""Which scope a request needs: by the first part of its path, and by whether it only looks.

One table for all faces, so that nobody has to remember to ask. What is not in it is the administrator's.
"""

from __future__ import annotations

from pyoco_server.operations.callers import Scope

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# to look, to do
_RUNS = (Scope.RUNS_READ, Scope.RUNS_WRITE)
_NEEDED: dict[str, tuple[Scope, Scope]] = {
    "runs": _RUNS,
    "jobs": _RUNS,
    # For an address that its caller may look at.
    "tickets": (Scope.RUNS_READ, Scope.RUNS_READ),
    "schedules": _RUNS,
    "dlq": _RUNS,
    "approvals": _RUNS,
    "executions": _RUNS,
    "graphs": _RUNS,
    "wheels": (Scope.OPS_READ, Scope.WHEELS_WRITE),
    "workers": (Scope.OPS_READ, Scope.ADMIN),
    "metrics": (Scope.OPS_READ, Scope.ADMIN),
    "flows": _RUNS,
    # A topic that needs more asks for it.
    "stream": _RUNS,
    "system": (Scope.OPS_READ, Scope.ADMIN),
}
# Shows callers nothing but what they were told before.
_OWN = frozenset({"idempotency", "caller"})
_NOT_LISTED = (Scope.ADMIN, Scope.ADMIN)


def scope_needed(method: str, path: str) -> Scope | None:
    """None: any caller may."""
    first = path[1:].partition("/")[0]
    if first in _OWN and method in SAFE_METHODS:
        return None
    look, do = _NEEDED.get(first, _NOT_LISTED)
    return look if method in SAFE_METHODS else do
