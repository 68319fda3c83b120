"""The programs of docs/reference/executions.md, as they stand there, against a real `up`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyoco_server.http_api.faces.executions.commands import FORMS
from pyoco_server.http_api.faces.executions.errors import _CODES
from tests.docs.test_examples import blocks, up

PAGE = "docs/reference/executions.md"
LINES_MAX = 40


def test_the_python_client_drives_an_execution_and_is_as_short_as_it_says(tmp_path: Path) -> None:
    (program,) = blocks(PAGE, "python")
    assert len([line for line in program.splitlines() if line.strip()]) <= LINES_MAX
    with up(tmp_path) as port:
        program = program.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{port}")
        for _ in range(2):  # the second one finds everything done
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            assert done.stdout.strip() == "COMPLETED", done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_shell_client_does_the_same(tmp_path: Path) -> None:
    (program,) = blocks(PAGE, "sh")
    with up(tmp_path) as port:
        program = program.replace("localhost:8000", f"127.0.0.1:{port}")
        done = subprocess.run(["sh", "-eu", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    commands = [one["command"] for one in answers if "command" in one]
    assert commands[:4] == ["StartExecution", "StartNode", "ReportNodeProgress", "SucceedNode"]
    assert "approve" in next(one for one in answers if "summary" in one)["summary"]
    execution = next(one for one in answers if "nodes" in one and "executionId" in one)
    assert execution["status"] == "COMPLETED"
    assert [node["output"] for node in execution["nodes"]][:2] == [{"image": "app:1.2"}, {"by": "ann"}]
    listed = next(one for one in answers if "hasMore" in one)
    assert (len(listed["events"]), listed["hasMore"]) == (3, True)
    assert int(done.stdout.splitlines()[-1]) > len(listed["events"])


def test_every_command_and_every_code_stands_on_the_page() -> None:
    page = (Path(__file__).parents[2] / PAGE).read_text()
    assert [form.name for form in FORMS if f"| {form.name} |" not in page] == []
    unsaid = {"CONFLICT", "TOO_MANY_REQUESTS", "INTERNAL"}  # nothing here makes these on purpose
    assert [code for code in _CODES.values() if f"`{code}`" not in page and code not in unsaid] == []
