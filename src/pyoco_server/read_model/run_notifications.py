"""Callbacks of the read model: on every new commit, on the commits of one run, and after a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.run import Run

# Sequence, number among the run's commits, events.
OnCommit = Callable[[int, int, Sequence[Event]], None]
# The run before (None: it begins) and after a commit, and its events.
OnNewCommit = Callable[[Run | None, Run, Sequence[Event]], None]


class RunNotifications:
    def __init__(self) -> None:
        self._on_new_commit: list[OnNewCommit] = []
        self._on_rebuilt: list[Callable[[], None]] = []
        self._followers: dict[str, set[OnCommit]] = {}
        self._notified_seq = 0

    def on_new_commit(self, callback: OnNewCommit) -> None:
        """Call this once with every commit made from now on, but not with commits that are read again."""
        self._on_new_commit.append(callback)

    def on_rebuilt(self, callback: Callable[[], None]) -> None:
        """Call this after a rebuild: the broker had lost commits, and the whole log was read again."""
        self._on_rebuilt.append(callback)

    def follow(self, run_id: str, on_commit: OnCommit) -> None:
        """Call this with every commit of the run from now on, also with those that are read again."""
        self._followers.setdefault(run_id, set()).add(on_commit)

    def unfollow(self, run_id: str, on_commit: OnCommit) -> None:
        followers = self._followers.get(run_id, set())
        followers.discard(on_commit)
        if not followers:
            self._followers.pop(run_id, None)

    def skip_to(self, seq: int) -> None:
        """Commits up to this sequence are not new."""
        self._notified_seq = seq

    def send_new_commit(self, seq: int, before: Run | None, run: Run, events: Sequence[Event]) -> None:
        if seq <= self._notified_seq:
            return
        self._notified_seq = seq
        for callback in self._on_new_commit:
            callback(before, run, events)

    def send_commit(self, run_id: str, seq: int, number: int, events: Sequence[Event]) -> None:
        for callback in tuple(self._followers.get(run_id, ())):
            callback(seq, number, events)

    def send_rebuilt(self) -> None:
        for callback in self._on_rebuilt:
            callback()
