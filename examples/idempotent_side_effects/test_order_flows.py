"""The worker is lost after the charge and before its record: two calls, one payment."""

import sqlite3
from pathlib import Path

from order_flows import order

from pyoco_server.testing import run_flow, succeeded

PARAMS = {"items": {"book": 1990, "pen": 250}}


def test_a_lost_worker_does_not_charge_twice(tmp_path: Path) -> None:
    database = str(tmp_path / "payments.db")
    run = run_flow(order, PARAMS | {"database": database}, lose_worker_before=succeeded("charge"))
    assert run.status == "COMPLETED"
    assert run.task("charge").attempt == 2
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (2,)
        assert connection.execute("SELECT cents FROM payments").fetchall() == [(2240,)]
