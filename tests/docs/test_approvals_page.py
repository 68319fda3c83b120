"""The flow and the commands of docs/how-to/approvals.md, in their order, against a real `up`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pydantic
import yaml

from pyoco_server import approval
from tests.docs.test_examples import blocks, run_id_of, typed, up

PAGE = "docs/how-to/approvals.md"
DEADLINE_SEC = 30.0


def test_the_flow_of_the_page_waits_and_goes_on_or_is_rejected(tmp_path: Path) -> None:
    flow, _ = blocks(PAGE, "python")
    (tmp_path / "release_flows.py").write_text(flow)
    start, submit, listing, approve, get = blocks(PAGE, "sh")[0].splitlines()
    reject = next(line for line in _lines() if line.startswith("`pyoco-client approval reject")).split("`")[1]
    with up(tmp_path, *start.split()[2:]) as port:

        def answer(line: str, run_id: str) -> subprocess.CompletedProcess[str]:
            return typed(line.replace("<run_id>", run_id), port, tmp_path)

        def ended(run_id: str) -> Any:
            run = json.loads(answer(get, run_id).stdout)
            return run if run["status"] != "RUNNING" else None

        yes, no = (run_id_of(typed(submit, port, tmp_path).stdout) for _ in range(2))
        asked = _until(lambda: _two(json.loads(typed(listing, port, tmp_path).stdout)["items"]))
        assert {(item["run_id"], item["task"]) for item in asked} == {(yes, "release"), (no, "release")}
        assert asked[0]["prompt"] == {"question": "Deploy it?", "file": "shop-2.0.tar.gz"}
        assert answer(approve, yes).returncode == 0
        assert answer(reject, no).returncode == 0
        again = answer(reject, no)
        assert (again.returncode, "HTTP 409" in again.stderr) == (1, True)
        approved, rejected = _until(partial(ended, yes)), _until(partial(ended, no))
    assert (approved["status"], approved["task_records"]["release"]["output"]) == ("COMPLETED", {"by": "ann"})
    assert approved["task_records"]["check"]["output"] == "shop-2.0.tar.gz is up"
    assert (rejected["status"], rejected["error"]) == ("FAILED", "not on a Friday")


def test_the_types_of_an_answer_on_the_page_are_the_same_form() -> None:
    """The model of the Python block, and the schema of the YAML block."""
    names: dict[str, Any] = {"pydantic": pydantic, "Literal": Literal, "approval": approval}
    exec(compile(blocks(PAGE, "python")[1], PAGE, "exec", dont_inherit=True), names)
    [document] = blocks(PAGE, "yaml")
    by_hand = yaml.safe_load(document)["tasks"]["rollout"]["inputs"]["answer_schema"]
    made = names["ask"].task.func.prompt["answer_schema"]
    assert (by_hand["required"], set(by_hand["properties"])) == (made["required"], set(made["properties"]))


def _lines() -> list[str]:
    return (Path(__file__).parents[2] / PAGE).read_text().splitlines()


def _two(items: list[Any]) -> list[Any] | None:
    return items if len(items) == 2 else None


def _until(look: Callable[[], Any]) -> Any:
    """Each look is a command of its own, which takes its time."""
    give_up_at = time.monotonic() + DEADLINE_SEC
    while not (found := look()):
        assert time.monotonic() < give_up_at, "it did not come true in time"
    return found
