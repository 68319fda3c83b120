"""Which deliveries a puller has requested, by subject, and where it must request more. Pure: sends nothing.

A worker may pull from a thousand tags, and nearly all of them are quiet while a few have jobs. So nothing
here looks at every subject for each job: subjects are filed by the number of waiters from which on they need
another pull.

A subject that has delivered since its last pull gets as many requests as there are waiters. A quiet one is
left alone until it has less than half of them: the number of waiters changes all the time, and each pull is
two messages.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count

ENDS_SPARE_MAX = 64


class OpenPull:
    """A request for deliveries that is open at one consumer."""

    __slots__ = ("left", "subject", "until")

    def __init__(self, subject: str, left: int, until: float) -> None:
        self.subject = subject
        self.left = left
        self.until = until


class _Requested:
    """What is requested at one subject. `left`: deliveries that its pulls may still bring."""

    __slots__ = ("has_delivered", "left", "needs_pull_from", "taken_no", "tokens")

    def __init__(self) -> None:
        self.left = 0
        self.has_delivered = False
        self.needs_pull_from = 1
        self.taken_no = 0
        self.tokens: dict[bytes, None] = {}


class OpenPulls:
    def __init__(self, subjects: list[str]) -> None:
        self._pulls: dict[bytes, OpenPull] = {}
        self._by_subject = {subject: _Requested() for subject in subjects}
        # The subjects that need another pull from so many waiters on.
        self._needy: dict[int, dict[str, None]] = {1: dict.fromkeys(subjects)}
        self._ends: list[tuple[float, bytes]] = []
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._pulls)

    def at(self, subject: str) -> list[OpenPull]:
        """The oldest first."""
        return [self._pulls[token] for token in self._by_subject[subject].tokens]

    def add(self, token: bytes, subject: str, deliveries: int, until: float) -> None:
        self._pulls[token] = OpenPull(subject, deliveries, until)
        heappush(self._ends, (until, token))
        requested = self._by_subject[subject]
        requested.tokens[token] = None
        requested.left += deliveries
        requested.has_delivered = False
        self._file(subject, requested)

    def count_delivery(self, subject: str) -> None:
        """One delivery of this subject has arrived. The broker serves the oldest pull first."""
        requested = self._by_subject.get(subject)
        if requested is None or not requested.tokens:
            return
        token = next(iter(requested.tokens))
        pull = self._pulls[token]
        pull.left -= 1
        requested.left -= 1
        requested.has_delivered = True
        if pull.left <= 0:
            self._forget(token)
        self._file(subject, requested)

    def note_taken(self, subject: str) -> None:
        """A waiter got a delivery of this subject. Those that were served longest ago are pulled first."""
        requested = self._by_subject.get(subject)
        if requested is not None:
            requested.taken_no = next(self._numbers)

    def end(self, token: bytes) -> str | None:
        """The broker has ended this pull. Its subject; None if the pull was not open."""
        pull = self._pulls.get(token)
        if pull is None:
            return None
        self._forget(token)
        requested = self._by_subject[pull.subject]
        requested.left -= pull.left
        self._file(pull.subject, requested)
        return pull.subject

    def end_expired(self, now: float) -> None:
        while self._ends and self._ends[0][0] < now:
            self.end(heappop(self._ends)[1])

    def clear(self) -> None:
        for token in tuple(self._pulls):
            self.end(token)
        self._ends.clear()

    def missing(self, waiters: int) -> list[tuple[str, int]]:
        """Where to pull, and how many deliveries."""
        needy = [subject for level in range(1, waiters + 1) for subject in self._needy.get(level, ())]
        needy.sort(key=lambda subject: self._by_subject[subject].taken_no)
        return [(subject, waiters - self._by_subject[subject].left) for subject in needy]

    def needs_pull(self, subject: str, waiters: int) -> bool:
        requested = self._by_subject.get(subject)
        return requested is not None and requested.needs_pull_from <= waiters

    def _forget(self, token: bytes) -> None:
        """Its entry in `_ends` stays until its time, or until most entries there are of ended pulls."""
        pull = self._pulls.pop(token)
        del self._by_subject[pull.subject].tokens[token]
        if len(self._ends) > 2 * len(self._pulls) + ENDS_SPARE_MAX:
            self._ends = [(kept.until, token) for token, kept in self._pulls.items()]
            heapify(self._ends)

    def _file(self, subject: str, requested: _Requested) -> None:
        level = requested.left + 1 if requested.has_delivered else max(1, 2 * requested.left)
        if level == requested.needs_pull_from:
            return
        old = self._needy[requested.needs_pull_from]
        del old[subject]
        if not old:
            del self._needy[requested.needs_pull_from]
        self._needy.setdefault(level, {})[subject] = None
        requested.needs_pull_from = level
