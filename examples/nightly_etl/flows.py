"""Load the orders of a day into a table: extract → clean → load → report.

A run for the same day replaces the rows of that day, so it can be repeated.
"""

import csv
import sqlite3
from contextlib import closing
from pathlib import Path

from pyoco import Flow, task

ORDERS = Path(__file__).parent / "orders"


def nightly() -> Flow:
    @task
    def extract(day: str) -> list[dict[str, str]]:
        with (ORDERS / f"{day}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        print(f"{len(rows)} rows for {day}")
        return rows

    @task
    def clean(extract: list[dict[str, str]]) -> list[dict[str, object]]:
        known = {row["order"]: row for row in extract if row["amount"].strip()}
        return [{"order": order, "cents": round(float(row["amount"]) * 100)} for order, row in known.items()]

    @task
    def load(clean: list[dict[str, object]], day: str, database: str = "warehouse.db") -> int:
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS orders (day TEXT, id TEXT, cents INTEGER)")
            connection.execute("DELETE FROM orders WHERE day = ?", (day,))
            connection.executemany(
                "INSERT INTO orders VALUES (?, ?, ?)", [(day, row["order"], row["cents"]) for row in clean]
            )
        return len(clean)

    @task
    def report(clean: list[dict[str, int]], load: int, day: str) -> str:
        return f"{day}: {load} orders, {sum(row['cents'] for row in clean) / 100:.2f} in total"

    extract.task.retries = 3  # the file may be written late
    flow: Flow = Flow("nightly") >> extract >> clean >> load >> report
    return flow


def resolve(name: str) -> Flow:
    return {"nightly": nightly}[name]()


resolve.flows = {"nightly": "Load the orders of a day"}  # type: ignore[attr-defined]
