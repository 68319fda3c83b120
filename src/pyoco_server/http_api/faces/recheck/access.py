"""Permissions of this face: the audience of a token, and the scopes of which one is enough."""

from __future__ import annotations

from typing import NamedTuple

from pyoco_server.errors import Forbidden
from pyoco_server.operations.identity.authenticate_jwt import GUI, RECHECK
from pyoco_server.operations.identity.callers import Caller, Scope

Need = tuple[str, ...]


class Access(NamedTuple):
    """Sufficient scopes by audience. A caller without a token needs any one of them."""

    needs: dict[str, Need]

    def check(self, caller: Caller) -> None:
        if caller.audiences is None:
            enough = tuple(dict.fromkeys(scope for need in self.needs.values() for scope in need))
        else:
            fitting = [need for audience, need in self.needs.items() if audience in caller.audiences]
            if not fitting:
                wanted = " or ".join(self.needs)
                raise Forbidden(f"This needs a token for the audience {wanted}.", err_id="")
            enough = tuple(dict.fromkeys(scope for need in fitting for scope in need))
        if not any(caller.may(scope) for scope in enough):
            raise Forbidden(f"This needs the scope {' or '.join(enough)}.", err_id="")


ASK = Access({RECHECK: (Scope.PDCA_RECHECK,)})
ASK_ALL = Access({RECHECK: (Scope.PDCA_RECHECK_ALL,)})
READ = Access({GUI: (Scope.PDCA_READ,)})
DOWNLOAD = Access({GUI: (Scope.PDCA_DOWNLOAD,)})
# A caller that may request a recheck may read its status too.
STATUS = Access(
    {RECHECK: (Scope.PDCA_RECHECK, Scope.PDCA_RECHECK_ALL, Scope.PDCA_READ), GUI: (Scope.PDCA_READ,)}
)
CHANGE = Access({RECHECK: (Scope.PDCA_ADMIN,), GUI: (Scope.PDCA_ADMIN,)})
