"""Writes logs line by line in chosen chunks, as a worker does."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.ids import new_token
from pyoco_server.store.logs.writer import LogEnd, LogLine, encode_lines
from pyoco_server.store.store import Store

AT = 1_800_000_000.25


class Writer:
    """`written` is the log as it should be read: its bytes, and its texts alone."""

    def __init__(self, store: Store, run_id: str, fence: int = 1) -> None:
        self._store = store
        self._run_id = run_id
        self._fence = fence
        self.end = LogEnd()
        self.written = b""
        self.texts = b""

    async def write(self, *texts: str, task: str | None = None, omitted: int = 0) -> None:
        lines = [LogLine(AT + self.end.lines + n, "stdout", text, task, 1) for n, text in enumerate(texts)]
        await self.write_lines(lines, omitted=omitted)

    async def write_lines(self, lines: Sequence[LogLine], *, omitted: int = 0) -> None:
        self.written += encode_lines(lines, self.end.lines + 1)[0]
        self.texts += b"".join(line.text.encode() + b"\n" for line in lines)
        self.end = await self._store.logs.append(
            self._run_id, self.end, lines, fence=self._fence, chunk_id=new_token(), omitted=omitted
        )

    async def cut_front(self, chunks: int) -> None:
        """Remove the oldest chunks, as retention does."""
        config = self._store.config
        subject = f"{config.logs_subject_prefix}.{self._run_id}"
        first = (await self._store.jetstream.after(config.logs_stream, subject, 0))[chunks]
        await self._store.jetstream.api(
            f"STREAM.PURGE.{config.logs_stream}", {"filter": subject, "seq": first.seq}
        )
