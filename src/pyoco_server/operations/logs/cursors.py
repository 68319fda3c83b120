"""Tokens of a log: after which line somebody has read, for this run and no other.

A place keeps the sequence of the chunk that has its line: it need not be searched for again.
Lines keep their numbers for as long as the run is there, so tokens never lead back.
"""

from __future__ import annotations

from typing import NamedTuple

from pyoco_server.cursors import TokenRefused, sealer, unseal
from pyoco_server.errors import Invalid

KIND = "log"


class BadToken(Invalid):
    """Not a token of this log."""


class LogPosition(NamedTuple):
    """After line `line`, which is in the chunk at `seq`. The beginning is (0, 0)."""

    line: int = 0
    seq: int = 0


class LogPositions:
    """Of one run's log."""

    def __init__(self, secret: bytes, run_id: str) -> None:
        self._secret = secret
        self._scope = {"run_id": run_id}
        self._seal = sealer(secret, KIND, self._scope)

    def token(self, place: LogPosition) -> str:
        return self._seal(place)

    def opened(self, token: str) -> LogPosition:
        try:
            return LogPosition(*unseal(self._secret, KIND, self._scope, token))
        except TokenRefused:
            message = "This token is not one of this log: pass it on unchanged, or begin without one."
            raise BadToken(message) from None
