"""An SQLite file that can be rebuilt: opened if its schema fits and it is intact, else created again.

It is a copy of what the broker has, so it needs no durability: `synchronous=OFF`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class DisposableTables:
    """`schema`: a file with another one is replaced. `create`: creates the tables, `meta` among them."""

    def __init__(self, path: Path | None, schema: str, create: str) -> None:
        self._path = path
        self._schema = schema
        self._create = create
        self._db = self._open()

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to the current file. `wipe` opens another one."""
        return self._db

    def close(self) -> None:
        self._db.close()

    def wipe(self) -> None:
        """Replace the file by an empty one: the old one may have another schema, or be damaged."""
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
            pass  # new, of another schema, or not a database
        self.wipe()
        return self._db

    def _is_sound(self) -> bool:
        """Without fsync a power cut may damage the file. The check takes about 1 ms per MB."""
        return bool(self._db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))

    def _connect(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # It has the runs of all tenants. SQLite gives -wal and -shm the same mode.
            self._path.touch(mode=0o600)
        db = sqlite3.connect(self._path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=OFF")
        except sqlite3.DatabaseError:
            pass  # not a database: the next read detects it and replaces the file
        return db
