"""`PyocoHttpClient.submit_run_yaml` against a real gateway and worker."""

from __future__ import annotations

import hashlib

import httpx
import pytest

from pyoco_server.http_client import PyocoHttpClient

# The worker's resolver is the demo's: what stands beside it may be called.
WORKFLOW = """\
flow:
  graph: part
  defaults: {number: 7}
tasks:
  part: {callable: "pyoco_server.flows.demo:_part"}
"""


@pytest.mark.parametrize("workflow", [WORKFLOW, WORKFLOW.encode()], ids=["text", "bytes"])
def test_a_workflow_runs(client: PyocoHttpClient, workflow: str | bytes) -> None:
    accepted = client.submit_run_yaml(workflow, flow_name="of a file", tag="demo")
    assert accepted["status"] == "PENDING"
    run = client.wait_run(accepted["run_id"], 20)
    assert (run["status"], run["flow_name"], run["tag"]) == ("COMPLETED", "of a file", "demo")
    assert run["workflow_yaml_sha256"] == hashlib.sha256(WORKFLOW.encode()).hexdigest()
    assert client.get_tasks(run["run_id"])["task_records"]["part"]["output"] == 7


def test_without_a_tag_it_goes_where_all_runs_go(client: PyocoHttpClient) -> None:
    run_id = client.submit_run_yaml(WORKFLOW, flow_name="of a file")["run_id"]
    assert client.get_run(run_id)["tag"] == "default"


def test_a_refusal_is_an_error_with_its_body(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        client.submit_run_yaml("flow: {graph: a}", flow_name="x", tag="demo")
    assert caught.value.response.status_code == 422
    assert caught.value.response.json()["detail"][0]["line"] == 1
