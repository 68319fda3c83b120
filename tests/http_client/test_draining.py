"""`PyocoHttpClient` drains a worker, and waits until it has no run left, told by the stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.workers import NotDrained
from tests.http_client.conftest import Stack

PATIENCE_SEC = 30.0


@pytest.fixture(autouse=True)
def resumed(client: PyocoHttpClient) -> Iterator[None]:
    yield
    client.patch_worker_draining("w", draining=False)


def test_who_waits_is_told_when_the_last_run_is_over(client: PyocoHttpClient) -> None:
    run_id = begun(client)
    asked = client.patch_worker_draining("w", draining=True)
    assert (asked["worker_id"], asked["draining"]) == ("w", True)
    with pytest.raises(TimeoutError, match="Worker w still has runs"):
        client.wait_drained("w", 0)
    later = client.submit_run("hello", tag="demo")["run_id"]
    client.cancel_run(run_id)
    drained = client.wait_drained("w", PATIENCE_SEC)
    assert (drained["state"], drained["draining"], drained["current_run_ids"]) == ("IDLE", True, [])
    assert client.get_run(run_id)["status"] == "CANCELLED"
    assert client.get_run(later)["status"] == "PENDING"
    assert client.get_workers()[0]["draining"] is True
    client.patch_worker_draining("w", draining=False)
    assert client.wait_run(later, PATIENCE_SEC)["status"] == "COMPLETED"


def test_who_waits_is_told_that_somebody_resumed_it(client: PyocoHttpClient, stack: Stack) -> None:
    run_id = begun(client)
    client.patch_worker_draining("w", draining=True)

    def resume() -> None:
        with PyocoHttpClient(stack.url) as other:
            other.patch_worker_draining("w", draining=False)

    resuming = threading.Thread(target=resume)
    resuming.start()
    with pytest.raises(NotDrained, match="not asked to drain any more"):
        client.wait_drained("w", PATIENCE_SEC)
    resuming.join()
    client.cancel_run(run_id, wait=True)


def test_nobody_can_be_waited_for_who_is_not_there(client: PyocoHttpClient) -> None:
    with pytest.raises(NotDrained, match="There is no worker nobody"):
        client.wait_drained("nobody", PATIENCE_SEC)
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.patch_worker_draining("nobody", draining=True)
    assert refused.value.response.status_code == 404


def begun(client: PyocoHttpClient) -> str:
    """A run that the worker has."""
    run_id: str = client.submit_run("ticker", {"seconds": 600}, tag="demo")["run_id"]
    for told in client.watch_run(run_id):
        if told["data"]["snapshot"]["status"] == "RUNNING":
            break
    return run_id
