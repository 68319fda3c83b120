"""The chores of a housekeeper, done one after the other and isolated from each other.

A chore that raises or takes too long is counted and the next one begins. One that fails several rounds in a
row is reported: in the log, in the lease of the housekeeper, and in `/ready`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from pyoco_server.errors import PyocoError
from pyoco_server.supervision import count_failure

log = logging.getLogger(__name__)

# So many rounds in a row are no longer a blink of the broker.
FAILING_AFTER_ROUNDS = 3
CHORE_SEC_MAX = 30.0
LIST_OF_RUNS = "list of runs"


class Chore(NamedTuple):
    name: str
    do: Callable[[], Awaitable[object]]
    # Acts on the list of runs, and so waits until the list is current.
    needs_list: bool = True


class _Failure(NamedTuple):
    rounds: int
    error: str


class Chores:
    def __init__(self, chores: Sequence[Chore], list_is_current: Callable[[], Awaitable[object]]) -> None:
        self._chores = chores
        self._list_is_current = Chore(LIST_OF_RUNS, list_is_current)
        self._failures: dict[str, _Failure] = {}

    async def do_all(self, may_go_on: Callable[[], bool]) -> None:
        is_current = await self.do(self._list_is_current)
        for chore in self._chores:
            if not may_go_on():
                return
            if is_current or not chore.needs_list:
                await self.do(chore)

    async def do(self, chore: Chore) -> bool:
        """One of them, also outside of a round. False: it failed, and that is counted."""
        try:
            async with asyncio.timeout(CHORE_SEC_MAX):
                await chore.do()
        except PyocoError as error:
            self._note(chore.name, error.public_message, inside=error.message)
        except TimeoutError:
            self._note(chore.name, f"not done within {CHORE_SEC_MAX:g} s")
        except Exception as error:  # a defect of one chore; the others must get their turn
            log.exception("a chore failed", extra={"chore": chore.name})
            self._note(chore.name, f"{type(error).__name__}")
        else:
            self._note_success(chore.name)
            return True
        return False

    def failing(self) -> list[str]:
        """Names of the chores that fail again and again."""
        return [name for name, failure in self._failures.items() if failure.rounds >= FAILING_AFTER_ROUNDS]

    def described(self) -> str:
        return "; ".join(f"{name} ({self._failures[name].error})" for name in self.failing())

    def forget_failures(self) -> None:
        self._failures.clear()

    def _note(self, name: str, error: str, *, inside: str | None = None) -> None:
        """`inside`: what only the log is told."""
        count_failure(f"housekeeping.{name}")
        rounds = self._failures[name].rounds + 1 if name in self._failures else 1
        self._failures[name] = _Failure(rounds, error)
        level = logging.WARNING if rounds == FAILING_AFTER_ROUNDS else logging.DEBUG
        fields = {"chore": name, "rounds": rounds, "error": inside or error}
        log.log(level, "a chore cannot be done", extra=fields)

    def _note_success(self, name: str) -> None:
        failure = self._failures.pop(name, None)
        if failure is not None and failure.rounds >= FAILING_AFTER_ROUNDS:
            log.info("a chore is done again", extra={"chore": name, "rounds": failure.rounds})
