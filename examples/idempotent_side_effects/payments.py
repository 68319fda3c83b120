"""A payment provider that knows idempotency keys, as real ones do: the same key is one payment."""

import sqlite3
from contextlib import closing


def charge(database: str, key: str, cents: int) -> str:
    """Returns the id of the payment. A second call with the key returns the same payment."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, cents INTEGER)")
        connection.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT)")
        connection.execute("INSERT INTO calls VALUES (?)", (key,))
        connection.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", (key, cents))
    return f"payment-{key}"
