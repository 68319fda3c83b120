"""The workflow of the document, typed as it stands there; and what the command says of a wrong one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.docs.test_examples import blocks, run_id_of, typed, up

PAGE = "docs/reference/workflow-yaml.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_flows.py").write_text(blocks(PAGE, "python")[0])
    (tmp_path / "flow.yaml").write_text(blocks(PAGE, "yaml")[0])
    return tmp_path


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_documented_workflow_does_what_it_says(folder: Path) -> None:
    start, submit, curl = blocks(PAGE, "sh")[0].splitlines()
    options = start.removeprefix("pyoco-server up ").split()
    with up(folder, *options) as port:
        ended = typed(submit, port, folder)
        assert ended.returncode == 0, ended.stderr
        run = json.loads(ended.stdout)
        assert (run["status"], run["flow_name"]) == ("COMPLETED", "orders")
        records = typed(f"pyoco-client get --run-id {run['run_id']} --records", port, folder)
        found = {
            name: record["output"] for name, record in json.loads(records.stdout)["task_records"].items()
        }
        assert found["report"] == "Total: 60"
        assert [found[f"check[{number}]"] for number in range(3)] == [10, 20, 30]
        again = run_id_of(typed(curl, port, folder).stdout)
        shown = typed(f"pyoco-client get --run-id {again}", port, folder)
        assert json.loads(shown.stdout)["workflow_yaml_sha256"] == run["workflow_yaml_sha256"]


def test_the_command_says_where_a_workflow_is_wrong(folder: Path) -> None:
    (folder / "wrong.yaml").write_text("flow:\n  graph: read >> sort\n")
    with up(folder) as port:
        refused = typed("pyoco-client submit-yaml --workflow-file wrong.yaml --flow-name x", port, folder)
        missing = typed("pyoco-client submit-yaml --workflow-file nowhere.yaml --flow-name x", port, folder)
    assert refused.returncode == 1
    assert "ERR-PYOCO-0002" in refused.stderr
    assert "body.workflow.flow.graph, line 2, column 18: There is no 'sort' in tasks" in refused.stderr
    assert missing.returncode == 1
    assert "ERR-PYOCO-0018" in missing.stderr
    assert "nowhere.yaml" in missing.stderr
