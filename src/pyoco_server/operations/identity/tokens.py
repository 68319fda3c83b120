"""The names of JWTs that other modules use. The check and the libraries it needs are in `authenticate_jwt`.

Those libraries take a tenth of the time in which a gateway is imported, so only gateways that check tokens
load them.
"""

from __future__ import annotations

from pyoco_server.errors import Unauthenticated

# The two audiences of the recheck face; all other faces use PYOCO_JWT_AUDIENCE.
RECHECK, GUI = "pdca", "pdca.gui"


class InvalidToken(Unauthenticated):
    """The request has a token that is not valid."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} Get a new token.", err_id="")
