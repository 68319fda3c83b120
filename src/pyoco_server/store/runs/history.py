"""Read the event log: the commits of one run, and the ids of all runs. The base of `log.Runs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.api import JetStream
from pyoco_server.jetstream.confirmed_reads import MARK
from pyoco_server.jetstream.errors import AnswerLost
from pyoco_server.lifecycle.events import Event, RunSubmitted
from pyoco_server.names import is_run_id
from pyoco_server.store.runs.codec import Commit, commits_of, decode_commit

# Decoding more than this takes long enough to delay other requests, so it runs in a thread.
DECODE_IN_THREAD_BYTES = 1_048_576


class EventLogReader:
    def __init__(self, jetstream: JetStream, config: NatsBackendConfig) -> None:
        self._jetstream = jetstream
        self._stream = config.events_stream
        self._prefix = config.events_subject_prefix

    async def events(self, run_id: str) -> list[tuple[int, list[Event]]]:
        """The whole log of a run: sequence and events of each commit."""
        messages = await self._jetstream.after(self._stream, self._subject(run_id), 0)
        return [(message.seq, decode_commit(message.data)) for message in messages]

    async def history(
        self, run_id: str, after_log_seq: int = 0, *, at_leader: bool = False, upto: int = 0
    ) -> list[Commit]:
        """Commits after this sequence, oldest first. Without `at_leader` the latest ones may be missing.

        `upto`: a sequence that is known to be in the log. Raises AnswerLost if the leader lacks it.
        """
        if not is_run_id(run_id):
            return []
        subject = self._subject(run_id)
        messages = await self._jetstream.after(self._stream, subject, after_log_seq)
        if at_leader:
            seen = messages[-1].seq if messages else after_log_seq
            messages += await self._jetstream.after_at_leader(self._stream, subject, seen)
            if upto > (messages[-1].seq if messages else after_log_seq):
                raise AnswerLost(subject)
        if sum(len(message.data) for message in messages) > DECODE_IN_THREAD_BYTES:
            return await asyncio.to_thread(commits_of, messages)
        return commits_of(messages)

    async def has(self, run_id: str, log_seq: int, commit_id: str) -> bool:
        return await has_commit(self._jetstream, self._stream, self._subject(run_id), log_seq, commit_id)

    async def find_commit(self, run_id: str, commit_id: str) -> Commit | None:
        """The commit with this id; None only if the leader has none."""
        found = (one for one in await self.history(run_id, at_leader=True) if one.commit_id == commit_id)
        return next(found, None)

    async def ids(self) -> AsyncIterator[str]:
        """The ids of all runs that have a log, in no order."""
        offset, total = 0, 1
        while offset < total:
            asked = {"subjects_filter": f"{self._prefix}.>", "offset": offset}
            info = await self._jetstream.stream_info(self._stream, asked)
            subjects = info.state.subjects or {}
            for subject in subjects:
                if not subject.endswith(MARK):
                    yield subject.removeprefix(f"{self._prefix}.")
            offset, total = offset + len(subjects), info.total if subjects else 0

    async def submission(self, run_id: str) -> RunSubmitted | None:
        """The first event, which alone has the whole submission. None only if the leader has none."""
        subject = self._subject(run_id)
        first = await self._jetstream.first(self._stream, subject)
        if first is None:  # the copy that answered may lag
            first = await self._jetstream.next_at_leader(self._stream, subject, 0)
        begun = next(iter(decode_commit(first.data)), None) if first else None
        return begun if isinstance(begun, RunSubmitted) else None

    def _subject(self, run_id: str) -> str:
        return f"{self._prefix}.{run_id}"


async def has_commit(jetstream: JetStream, stream: str, subject: str, seq: int, commit_id: str) -> bool:
    """Whether this commit of a run is in the log, or was replaced by a later one, as by an erasure."""
    found = await jetstream.at_leader(stream, seq)
    if found is not None:
        return found.header(b"Pyoco-Commit") == commit_id
    last = await jetstream.last_at_leader(stream, subject)
    return last is not None and last.seq > seq
