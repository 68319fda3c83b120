"""The runs of a live list, and which of them its filter keeps."""

from __future__ import annotations

import pytest

from pyoco_server.cli.client.run_board import ListFilter, RunBoard


@pytest.mark.parametrize(
    ("status", "shown"),
    [("RUNNING", ["w", "e"]), ("WAITING", ["w"]), ("EXECUTING", ["e"]), ("PENDING", ["p"])],
)
def test_a_changed_run_is_kept_by_the_statuses_that_the_gateway_lists(status: str, shown: list[str]) -> None:
    waiting = {"run_id": "w", "status": "RUNNING", "waiting_for": ["approval"], "updated_at": 3.0}
    executing = {"run_id": "e", "status": "RUNNING", "updated_at": 2.0}
    pending = {"run_id": "p", "status": "PENDING", "updated_at": 1.0}
    board = RunBoard(ListFilter(status=status))
    board.apply([waiting, executing, pending], [])
    assert [run["run_id"] for run in board.runs] == shown
