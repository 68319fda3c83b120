"""`PyocoHttpClient` against a real gateway and worker."""

from __future__ import annotations

import ast
import subprocess
import sys

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.http_client.conftest import Stack

UNKNOWN = "00000000-0000-0000-0000-000000000000"


def test_a_submitted_run_completes_and_can_be_read(client: PyocoHttpClient) -> None:
    accepted = client.submit_run("hello", {"name": "you"}, tag="demo", tags=["demo", "greeting"])
    assert accepted["status"] == "PENDING"
    run = client.wait_run(accepted["run_id"], 20)
    assert (run["status"], run["flow_name"], run["params"]) == ("COMPLETED", "hello", {"name": "you"})
    assert run["tags"] == ["demo", "greeting"]
    assert "task_records" not in run
    records = client.get_run_with_records(run["run_id"])["task_records"]
    assert records["greet"]["output"] == "Hello, you!"
    assert client.get_tasks(run["run_id"])["task_records"] == records


def test_list_runs_filters(client: PyocoHttpClient) -> None:
    failed = client.submit_run("fails", tag="demo")["run_id"]
    client.wait_run(failed, 20)
    assert [run["run_id"] for run in client.list_runs(status="FAILED", flow="fails", limit=1)] == [failed]
    assert client.list_runs(tag="nobody") == []
    full = client.list_runs(flow="fails", tag="demo", full=True, limit=1)
    assert full[0]["task_records"]["explode"]["state"] == "FAILED"


def test_cancel_answers_at_once_and_waits_when_told_to(client: PyocoHttpClient) -> None:
    waiting = client.submit_run("hello", tag="nobody")["run_id"]
    assert client.cancel_run(waiting)["status"] == "CANCELLING"
    running = client.submit_run("ticker", tag="demo")["run_id"]
    assert client.cancel_run(running, wait=True, timeout_sec=20)["status"] == "CANCELLED"
    assert client.cancel_run(running, wait=True)["status"] == "CANCELLED"


def test_waiting_in_vain_is_a_timeout_error(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("hello", tag="nobody")["run_id"]
    with pytest.raises(TimeoutError, match="still PENDING"):
        client.wait_run(run_id, 0.05)


def test_a_refusal_is_an_http_status_error(client: PyocoHttpClient) -> None:
    for call in (client.get_run, client.get_tasks, client.cancel_run, client.get_run_with_records):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            call(UNKNOWN)
        assert refused.value.response.status_code == 404
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.submit_run("hello", tag="a.b")
    assert refused.value.response.status_code == 422


def test_a_strange_run_id_stays_inside_its_path(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.get_run("../health")
    assert refused.value.response.status_code == 404


def test_the_api_key_goes_into_its_header(stack: Stack) -> None:
    with PyocoHttpClient(stack.url + "/", api_key="secret", api_key_header="X-Key") as client:
        assert client._http.headers["X-Key"] == "secret"
        assert client.list_runs(tag="nobody", limit=1) is not None
    with PyocoHttpClient(stack.url) as client:
        assert "X-API-Key" not in client._http.headers


def test_it_stands_alone() -> None:
    code = "import sys, pyoco_server.http_client; print([m for m in sys.modules if 'pyoco' in m])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = ast.literal_eval(said)
    outside = [name for name in loaded if not name.startswith("pyoco_server.http_client")]
    assert outside == ["pyoco_server"]
