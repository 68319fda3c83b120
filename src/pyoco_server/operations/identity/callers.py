"""The caller of a request: an API key, a token, or anonymous. It decides what may be seen and done."""

from __future__ import annotations

import math
from enum import StrEnum
from urllib.parse import quote

import msgspec

from pyoco_server.errors import Forbidden

# The tenant of callers without one.
DEFAULT_TENANT = "default"
API_KEY_PRINCIPAL = "api_key:"


class Scope(StrEnum):
    """The permissions of a caller. Within its tenant, except for those in `BY_NAME`."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    WHEELS_WRITE = "wheels:write"
    OPS_READ = "ops:read"
    OPS_READ_ALL = "ops:read_all"
    PDCA_READ = "pdca:read"
    PDCA_RECHECK = "pdca:recheck"
    PDCA_RECHECK_ALL = "pdca:recheck_all"
    PDCA_DOWNLOAD = "pdca:download"
    PDCA_ADMIN = "pdca:admin"
    ADMIN = "admin"  # everything, also what is added later


# Scopes that reach beyond the caller's tenant: a wheel is code on workers that all tenants share. A key that
# was created without scopes has none of these.
BY_NAME = frozenset({Scope.WHEELS_WRITE, Scope.OPS_READ_ALL, Scope.ADMIN})
_INCLUDED_IN: dict[str, str] = {Scope.OPS_READ: Scope.OPS_READ_ALL}


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`tenant_id` None: authentication is off and there is one tenant. `id`: a key's id or a token's sub.

    `audiences`: the known audiences of a token; None for a caller without a token. `issuer`: of the token.
    """

    tenant_id: str | None = None
    id: str | None = None
    scopes: frozenset[str] | None = None  # None: everything within the tenant
    audiences: frozenset[str] | None = None
    issuer: str | None = None
    signed_by: str | None = None  # the key (kid) of a token
    good_until: float = math.inf

    @property
    def principal(self) -> str | None:
        """A unique name of the caller: a token whose sub equals a key's id is another principal."""
        if self.id is None:
            return None
        if self.audiences is None:
            return API_KEY_PRINCIPAL + self.id
        return f"jwt:{quote(self.issuer or '', safe='/')}:{self.id}"

    @property
    def api_key_id(self) -> str | None:
        """What a run stores of its submitter: the key's id, or the principal of a token (with a colon)."""
        return self.id if self.audiences is None else self.principal

    def may(self, scope: str) -> bool:
        if self.scopes is None:
            return self.tenant_id is None or scope not in BY_NAME
        held = self.scopes
        return scope in held or Scope.ADMIN in held or _INCLUDED_IN.get(scope) in held

    def require(self, scope: str) -> None:
        if not self.may(scope):
            # No error id of the specification fits: the key is valid, but has not this scope.
            raise Forbidden(f"This needs the scope {scope}, which this caller does not have.", err_id="")


ANONYMOUS = Caller()


def principal_of(api_key_id: str | None) -> str | None:
    """The principal of a run's submitter, from what the run stores of it (`Caller.api_key_id`)."""
    is_key = api_key_id is not None and ":" not in api_key_id
    return f"{API_KEY_PRINCIPAL}{api_key_id}" if is_key else api_key_id
