"""An SQLite file that may be lost at any time: opened if it is ours and sound, created again otherwise.

Durability would be wasted on a copy of what the broker has, so it does without: `synchronous=OFF`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class DisposableTables:
    """`schema`: of another one nothing is read. `create`: what makes the tables, `meta` among them."""

    def __init__(self, path: Path | None, schema: str, create: str) -> None:
        self._path = path
        self._schema = schema
        self._create = create
        self._db = self._open()

    @property
    def connection(self) -> sqlite3.Connection:
        """Of the current file: `wipe` opens another one."""
        return self._db

    def close(self) -> None:
        self._db.close()

    def wipe(self) -> None:
        """Begin with nothing, in a new file: the old one may be of another schema, or broken."""
        self._db.close()
        if self._path is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._db = self._connect()
        self._db.executescript(self._create)
        self._db.execute("INSERT INTO meta VALUES ('schema', ?)", (self._schema,))

    def meta(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT key, value FROM meta"))

    def write_meta(self, meta: Mapping[str, str]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything that is written inside is stored together. After an error nothing of it is stored."""
        with self._db:
            self._db.execute("BEGIN")
            yield

    def _open(self) -> sqlite3.Connection:
        self._db = self._connect()
        try:
            if self.meta().get("schema") == self._schema and self._is_sound():
                return self._db
        except sqlite3.DatabaseError:
            pass  # new, of another schema, or not a database: all the same to us
        self.wipe()
        return self._db

    def _is_sound(self) -> bool:
        """Written without fsync, it may not survive a power cut. Looking costs about 1 ms per MB."""
        return bool(self._db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))

    def _connect(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Every tenant's runs are in it. Its companions (-wal, -shm) get the same mode.
            self._path.touch(mode=0o600)
        db = sqlite3.connect(self._path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=OFF")
        except sqlite3.DatabaseError:
            pass  # not a database: the next read finds that out and replaces it
        return db
