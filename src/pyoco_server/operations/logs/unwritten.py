"""Logs of which no line is stored: the run printed nothing, and its lines are made from its events when read.

The end of such a run says so (`notices` of `RunCompleted` and `RunFailed`). It is committed before any line
of the log can be read, and no process writes to the log afterwards, so the lines and their numbers do not
change. If there are stored chunks, they are the log.
"""

from __future__ import annotations

from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import Driver, RunStatus
from pyoco_server.operations.logs.notice_lines import unwritten_lines
from pyoco_server.store.logs.chunks import Chunk
from pyoco_server.store.logs.reader import Span
from pyoco_server.store.logs.writer import LogEntry, decode_lines, encode_lines
from pyoco_server.store.store import Store

# The chunk of an unwritten log has no sequence in the stream.
NOT_STORED = 0


async def log_span(store: Store, run: Run, *, at_leader: bool) -> Span | None:
    """The extent of the log. A span that is not stored is one chunk, which `from_place` needs not read."""
    span = await store.log_reader.span(run.run_id, at_leader=at_leader)
    if span is not None:
        return span
    chunk = await unwritten_chunk(store, run)
    return None if chunk is None else Span(chunk, chunk)


async def unwritten_chunk(store: Store, run: Run) -> Chunk | None:
    """The whole log of a run that has no stored chunk; None if it has no lines, or they have expired."""
    if not _may_be_unwritten(run):
        return None
    commits = await store.runs.history(run.run_id, at_leader=True)
    lines = unwritten_lines(event for commit in commits for event in commit.events)
    if not lines:
        return None
    data, text_size = encode_lines(lines, 1)
    return Chunk(
        seq=NOT_STORED,
        fence=run.fence,
        line=1,
        lines=len(lines),
        byte=0,
        text=0,
        text_size=text_size,
        omitted=0,
        data=data,
    )


async def log_entries(store: Store, run_id: str) -> list[LogEntry]:
    """The whole log at once. To read a part of a long one, use `log_span` and `LogReader.from_place`."""
    stored = await store.runs.load(run_id, at_leader=True)
    entries = await store.logs.entries(run_id)
    if entries or stored is None:
        return entries
    chunk = await unwritten_chunk(store, stored.run)
    return [] if chunk is None else decode_lines(chunk.data)


def _may_be_unwritten(run: Run) -> bool:
    """Saves reading the events of other runs."""
    by_its_worker = run.driver is Driver.WORKER and run.fence == 1
    return by_its_worker and run.ended in (RunStatus.COMPLETED, RunStatus.FAILED)
