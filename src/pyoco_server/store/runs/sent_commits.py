"""The order of commits that this process has sent, with the sequences that the log gave them.

If a commit that was sent after some moment got the sequence S, then every commit that was stored before that
moment has a smaller one. So a reader that has a later commit than S has everything from before that moment,
and no request to the broker is needed to know it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

# Of older moments the first commit that was sent after them is not known any more.
KEPT_MAX = 256


class SendMark(NamedTuple):
    """A moment: the number of commits that were sent before it, on a connection."""

    connection: int
    number: int


class SentCommits:
    def __init__(self) -> None:
        self._connection = 0
        self._sent = 0
        self._stored: deque[tuple[int, int]] = deque(maxlen=KEPT_MAX)

    def mark(self) -> SendMark:
        return SendMark(self._connection, self._sent)

    def send(self) -> SendMark:
        """A commit is sent now. Pass the result to `store` when it is acknowledged."""
        self._sent += 1
        return SendMark(self._connection, self._sent)

    def store(self, sent: SendMark, seq: int) -> None:
        if sent.connection == self._connection:
            self._stored.append((sent.number, seq))

    def is_same_connection(self, mark: SendMark) -> bool:
        return mark.connection == self._connection

    def has_sent_after(self, mark: SendMark) -> bool:
        return self._sent > mark.number

    def stored_after(self, mark: SendMark) -> int | None:
        """The sequence of a commit that was sent after the mark; None if none is known.

        The smallest one, unless acknowledgements came out of order. Each of them is a proof.
        """
        if mark.connection != self._connection:
            return None
        found = None
        for number, seq in reversed(self._stored):
            if number <= mark.number:
                break
            found = seq if found is None else min(found, seq)
        return found

    def forget(self) -> None:
        """The connection was lost. Another broker, or one with an older disk, may give smaller sequences."""
        self._connection += 1
        self._stored.clear()
