"""Submit, read and cancel runs directly at the broker, without a gateway.

For programs with a connection to the broker. It uses the same operations as the gateway, so a run that is
submitted here has its log, its snapshot and its job like any other.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Invalid, NotFound, TooLarge
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.names import is_run_id
from pyoco_server.operations.runs import cancel, query, submit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store

ANSWER_BYTES_MAX = 2**62


class PyocoNatsClient:
    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    async def connect(cls, config: NatsBackendConfig | None = None) -> Self:
        """Waits for the broker if it is not up yet. `config` defaults to the environment."""
        return cls(await Store.connect(config or NatsBackendConfig.from_env(), name="pyoco-client"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._store.close()

    async def submit_run(
        self,
        flow_name: str,
        params: dict[str, Any] | None = None,
        tag: str | None = None,
        tags: list[str] | None = None,
    ) -> str:
        """The id of the stored and queued run. ValueError if the submission is not valid."""
        wanted = submit.Submission(flow_name=flow_name, params=params or {}, tag=tag, tags=tags)
        try:
            stored = await submit.submit(self._store, wanted)
        except (Invalid, TooLarge) as refused:
            raise ValueError(refused.message) from refused
        return stored.run.run_id

    async def get_run(self, run_id: str) -> dict[str, Any]:
        """The whole snapshot, also of a large run; KeyError if the run does not exist."""
        self._check(run_id)
        try:
            return _shown(await query.get_run(self._store, run_id, whole=True))
        except NotFound as unknown:
            raise KeyError(run_id) from unknown

    async def cancel_run(self, run_id: str) -> dict[str, Any]:
        """Ask the run to stop; returns its snapshot after that. KeyError if the run does not exist."""
        self._check(run_id)
        try:
            return _shown(cancel.as_requested(await cancel.cancel_run(self._store, run_id)))
        except NotFound as unknown:
            raise KeyError(run_id) from unknown

    def _check(self, run_id: str) -> None:
        """An invalid run id must not become part of a subject."""
        if not is_run_id(run_id):
            raise KeyError(run_id)


def _shown(stored: StoredRun) -> dict[str, Any]:
    """The whole run: only stored snapshots have a limit."""
    snapshot = snapshot_of(
        stored.run, max_bytes=ANSWER_BYTES_MAX, commits=stored.commits, log_seq=stored.log_seq
    )
    beating = replace(snapshot, heartbeat_at=max(snapshot.heartbeat_at, stored.heartbeat_at))
    shown: dict[str, Any] = msgspec.to_builtins(beating)
    return shown
