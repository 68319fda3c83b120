"""Runs that began a short time ago, with all their commits as the feed delivered them.

A run is kept from its first commit on, as bytes; it is decoded only if a request waits for it. So
other runs cost an append for each commit, and the limit in bytes is exact. What is found here is as new as
the feed: the caller confirms that nothing newer was stored (`operations.live.freshness`).
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain

from pyoco_server.lifecycle.reduce import fold_unmeasured
from pyoco_server.store.runs.codec import decode_commit
from pyoco_server.store.runs.stored_run import StoredRun

KEPT_RUNS_MAX = 10_000
KEPT_BYTES_MAX = 16 * 1024 * 1024
# A larger run is read from its snapshot, which is cheaper than to decode all its commits.
RUN_BYTES_MAX = 256 * 1024
# Memory of one commit in addition to its bytes.
COMMIT_BYTES = 200


class _Commits:
    __slots__ = ("bytes", "has_ended", "last_seq", "payloads")

    def __init__(self) -> None:
        self.has_ended = False
        self.payloads: list[bytes] = []
        self.last_seq = 0
        self.bytes = 0


class RecentRuns:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Commits] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._kept

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def add(self, run_id: str, seq: int, number: int, data: bytes) -> None:
        """A commit of the feed. `number`: among the commits of its run; 0: not known."""
        kept = self._kept.get(run_id)
        if kept is None:
            if number != 1:
                return
            kept = self._kept[run_id] = _Commits()
        elif number != len(kept.payloads) + 1:
            self.drop(run_id)  # erased and submitted again, or of another producer
            return
        else:
            self._kept.move_to_end(run_id)
        kept.payloads.append(data)
        kept.last_seq = seq
        kept.bytes += len(data) + COMMIT_BYTES
        self._bytes += len(data) + COMMIT_BYTES
        if kept.bytes > RUN_BYTES_MAX:
            self.drop(run_id)
        while self._bytes > KEPT_BYTES_MAX or len(self._kept) > KEPT_RUNS_MAX:
            self.drop(next(iter(self._kept)))

    def note_end(self, run_id: str) -> None:
        """Its last commit has ended the run, or came after its end."""
        if (kept := self._kept.get(run_id)) is not None:
            kept.has_ended = True

    def has_ended(self, run_id: str) -> bool:
        """Whether all commits of the run are kept, and it has ended. Nothing is decoded for this."""
        kept = self._kept.get(run_id)
        return kept is not None and kept.has_ended

    def find(self, run_id: str) -> StoredRun | None:
        """The run with all its tasks, but without sizes; None if it is not kept, or was erased."""
        kept = self._kept.get(run_id)
        if kept is None:
            return None
        run = fold_unmeasured(None, chain.from_iterable(map(decode_commit, kept.payloads)))
        if run is None or run.gone:
            return None
        return StoredRun(run=run, commits=len(kept.payloads), log_seq=kept.last_seq, revision=0)

    def drop(self, run_id: str) -> None:
        if (dropped := self._kept.pop(run_id, None)) is not None:
            self._bytes -= dropped.bytes

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0
