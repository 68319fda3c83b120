"""The operator's calls of `PyocoHttpClient`, with upstream's names and shapes."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient
from tests.store.fleet.wheel_making import file_name, wheel_bytes


def test_workers_are_listed_and_hidden(client: PyocoHttpClient) -> None:
    [worker] = client.get_workers()
    assert (worker["worker_id"], worker["tags"]) == ("w", ["demo"])
    assert client.patch_worker_hidden("w", hidden=True)["hidden"] is True
    assert client.get_workers() == []
    assert [one["hidden"] for one in client.get_workers(include_hidden=True)] == [True]
    assert client.get_workers(scope="all", state="DISCONNECTED", include_hidden=False, limit=5) == []
    client.patch_worker_hidden("w", hidden=False)
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.patch_worker_hidden("no body/else", hidden=True)
    assert refused.value.response.status_code == 404


def test_metrics_are_text(client: PyocoHttpClient) -> None:
    assert "pyoco_workers_alive_total 1\n" in client.get_metrics()


def test_wheels_are_brought_listed_fetched_and_deleted(client: PyocoHttpClient, tmp_path: Path) -> None:
    name, data = file_name("demo", "1.0"), wheel_bytes("demo", "1.0")
    wheel = client.upload_wheel(filename=name, data=data, replace=True, tags=["cpu", "linux"])
    assert (wheel["name"], wheel["tags"]) == (name, ["cpu", "linux"])
    assert client.list_wheels() == [wheel]
    newer = file_name("demo", "1.1")
    assert client.upload_wheel(filename=newer, data=BytesIO(wheel_bytes("demo", "1.1")))["tags"] == []
    client.download_wheel(name, tmp_path / "fetched.whl")
    assert (tmp_path / "fetched.whl").read_bytes() == data
    assert client.delete_wheel(name) == {"name": name, "deleted": True}
    assert [one["name"] for one in client.list_wheels()] == [newer]
    history = client.list_wheel_history(limit=5, wheel_name=name)
    assert [one["action"] for one in history] == ["delete", "upload"]
    assert len(client.list_wheel_history(action="upload")) == 2
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.upload_wheel(filename=name, data=data)
    assert refused.value.response.status_code == 409


def test_dead_letters_are_listed_and_redriven(client: PyocoHttpClient) -> None:
    run_id = client.submit_run("fails", tag="demo")["run_id"]
    client.wait_run(run_id, 20)
    [letter] = client.list_dead_letters(limit=1, reason="execution_error")["items"]
    assert letter["run_id"] == run_id
    assert '"fails"' in (client.get_dead_letter(letter["id"])["payload"] or "")
    redriven = client.redrive_dead_letter(letter["id"])
    assert client.wait_run(redriven["run_id"], 20)["status"] == "FAILED"
    with pytest.raises(httpx.HTTPStatusError):
        client.redrive_dead_letter(letter["id"])
    assert client.dismiss_dead_letter(letter["id"], "fixed")["dismissed"]["note"] == "fixed"
    assert client.dismiss_dead_letter(letter["id"])["dismissed"]["note"] == "fixed"
    assert letter["id"] not in [one["id"] for one in client.list_dead_letters(kind="execution")["items"]]
    every = client.list_dead_letters(include_dismissed=True)["items"]
    assert letter["id"] in [one["id"] for one in every]
    assert client.redrive_dead_letter(letter["id"], again=True)["run_id"] != redriven["run_id"]
