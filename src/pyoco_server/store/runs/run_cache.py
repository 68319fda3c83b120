"""The last few runs that were read whole because their snapshot leaves something out.

A client that drives a large graph needs the whole run for every command; without this cache each would read
the log from its beginning. A cached run is only a base to fold newer commits on.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from pyoco_server.jetstream.api import StoredMessage
from pyoco_server.store.runs.commits import commit_no
from pyoco_server.store.runs.stored_run import StoredRun

RUNS_MAX = 32
RUN_BYTES_MAX = 4 * 1024 * 1024
# Far less than the lifetime of the mark of an erased run: no entry outlives its run.
KEPT_SEC_MAX = 3600.0


class WholeRunCache:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[StoredRun, float]] = OrderedDict()

    def before(self, run_id: str, last: StoredMessage) -> StoredRun | None:
        """The cached run at `last` or before it."""
        stored, kept_at = self._kept.get(run_id, (None, 0.0))
        if stored is None or time.monotonic() - kept_at > KEPT_SEC_MAX:
            return None
        number = commit_no(last)
        is_there = stored.commits == number and stored.log_seq == last.seq
        is_before = stored.commits < number and stored.log_seq < last.seq
        return stored if is_there or is_before else None

    def keep(self, stored: StoredRun) -> None:
        run_id = stored.run.run_id
        self._kept.pop(run_id, None)
        if stored.run.is_terminal or stored.run.bytes_full > RUN_BYTES_MAX:
            return
        self._kept[run_id] = (stored, time.monotonic())
        if len(self._kept) > RUNS_MAX:
            self._kept.popitem(last=False)
