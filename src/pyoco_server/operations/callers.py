"""Who asks: a key, a token, or nobody in particular. What they may see and do follows from this alone."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from pyoco_server.errors import Forbidden

# Whose things are those of a caller who names no tenant.
DEFAULT_TENANT = "default"


class Scope(StrEnum):
    """What a caller may be limited to, always within its tenant. Few, and named after what they are for."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    WHEELS_WRITE = "wheels:write"
    OPS_READ = "ops:read"
    PDCA_READ = "pdca:read"
    PDCA_RECHECK = "pdca:recheck"
    PDCA_RECHECK_ALL = "pdca:recheck_all"
    PDCA_DOWNLOAD = "pdca:download"
    PDCA_ADMIN = "pdca:admin"
    ADMIN = "admin"  # everything, also what is added later


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`tenant_id` None: authentication is off, and there is only one tenant. `id`: of the key or token.

    `audiences`: those of a token that are known here; None for whoever has no token.
    """

    tenant_id: str | None = None
    id: str | None = None
    scopes: frozenset[str] | None = None  # None: everything
    audiences: frozenset[str] | None = None
    good_until: float = math.inf

    def may(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: str) -> None:
        if not self.may(scope):
            # No id of the specification fits: the key is valid, it is just not for this.
            raise Forbidden(f"This needs the scope {scope}, which this caller does not have.", err_id="")


ANYBODY = Caller()
