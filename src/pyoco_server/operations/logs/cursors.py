"""Tokens for positions in a log: the last line that was read, valid for this run only.

A position has the sequence of the chunk with its line, so that the chunk is not searched for again. Lines
keep their numbers for as long as the run exists, so a token never leads back.
"""

from __future__ import annotations

from typing import NamedTuple

from pyoco_server.cursors import TokenRefused, sealer, unseal
from pyoco_server.errors import Invalid

KIND = "log"


class BadToken(Invalid):
    """Not a token of this log."""


class LogPosition(NamedTuple):
    """After line `line`, which is in the chunk at `seq`. The start is (0, 0)."""

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
