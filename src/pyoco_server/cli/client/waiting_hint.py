"""What a run waits for, said while a command waits for the run.

Asks the gateway in a thread with a connection of its own, because the command is busy with reading. A run
that is executed at once costs no request. Lines go to stderr; the live view draws `sentence` itself.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Event, Lock, Thread

import typer

from pyoco_server.cli.client.connection import Connection, chosen_connection
from pyoco_server.cli.entry import CliRefusal
from pyoco_server.printable import one_line

FIRST_ASK_SEC = 1.0
ASK_SEC_MAX = 10.0
GROWTH = 1.5
# It makes progress, or has ended: the command itself shows that.
EXECUTED = ("AT_WORKER", "RUNNING")
ENDED = ("COMPLETED", "CANCELED", "FAILED", "FORGIVEN", "NODE_FAILED")
# The numbers in these sentences change often: one line is enough.
SAID_ONCE = ("QUEUED",)


class WaitingHint:
    """`with WaitingHint(ctx, run_id):` around the wait. `is_drawn`: another part shows `sentence`."""

    def __init__(self, ctx: typer.Context, run_id: str, *, is_drawn: bool = False) -> None:
        self.sentence = ""
        self._connection: Connection = chosen_connection(ctx.obj)
        self._run_id = run_id
        self._is_drawn = is_drawn
        self._said: tuple[str, str] | None = None
        self._over = Event()
        self._writing = Lock()

    def __enter__(self) -> WaitingHint:
        # A daemon, and not joined: the command must not wait for a gateway that does not answer.
        Thread(target=self._ask_until_over, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._writing:  # nothing is written after the wait
            self._over.set()

    def _ask_until_over(self) -> None:
        pause_sec = FIRST_ASK_SEC
        while not self._over.wait(pause_sec):
            with suppress(CliRefusal):  # the wait itself reports a gateway that does not answer
                self._show(*self._ask())
            pause_sec = min(pause_sec * GROWTH, ASK_SEC_MAX)

    def _ask(self) -> tuple[str, str]:
        from pyoco_server.cli.client.gateway import gateway_client

        with gateway_client(self._connection) as client:
            found = client.why(self._run_id)
        reasons = found["reasons"]
        return (reasons[0]["reason"] if reasons else ""), one_line(found["summary"])

    def _show(self, reason: str, sentence: str) -> None:
        is_standing = bool(reason) and reason not in EXECUTED + ENDED
        self.sentence = sentence if is_standing else ""
        if self._is_drawn or not self._is_news(reason, sentence, is_standing=is_standing):
            return
        self._said = (reason, sentence)
        with self._writing:
            if not self._over.is_set():
                sys.stderr.write(f"{sentence}\n")
                sys.stderr.flush()

    def _is_news(self, reason: str, sentence: str, *, is_standing: bool) -> bool:
        """That a worker executes it is news only after a line that it waits."""
        if self._said is None:
            return is_standing
        if reason in ENDED or self._said == (reason, sentence):
            return False
        return not (reason in SAID_ONCE and self._said[0] == reason)
