"""What `approval` and `sleep` make, and what they refuse to make."""

import math
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pyoco import Flow
from pyoco.core.engine import Engine as PyocoEngine
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server import approval
from pyoco_server.flows import waits
from pyoco_server.flows.waits import PROMPT_BYTES_MAX, WaitTask


def wait_of(wrapped: TaskWrapper) -> WaitTask:
    wait = wrapped.task.func
    assert isinstance(wait, WaitTask)
    return wait


def test_an_approval_is_a_task_that_pyocos_operators_take() -> None:
    release = approval("release", prompt={"version": 2}, timeout_sec=60, on_timeout="succeed", wait_key="go")
    wait = wait_of(release)
    assert (release.task.name, wait.prompt, wait.timeout_sec) == ("release", {"version": 2}, 60)
    assert (wait.on_timeout, wait.key) == ("succeed", "go")
    flow = Flow("f") >> [approval("a"), approval("b")] >> release[2]
    assert {task.name for task in flow.tasks} == {"a", "b", "release"}


def test_a_sleep_is_called_after_its_length_unless_named() -> None:
    assert [waits.sleep(30).task.name, waits.sleep(0.5).task.name, waits.sleep(5, "pause").task.name] == [
        "sleep_30",
        "sleep_0.5",
        "pause",
    ]
    wait = wait_of(waits.sleep(5))
    assert (wait.timeout_sec, wait.on_timeout, wait.key) == (5, "succeed", "sleep:sleep_5")


def test_the_prompt_is_a_copy() -> None:
    prompt = {"version": 1}
    release = approval("release", prompt=prompt)
    prompt["version"] = 2
    assert wait_of(release).prompt == {"version": 1}


@dataclass
class Verdict:
    stage: Literal["test", "live"]
    percent: int = 10


def test_a_type_of_the_answer_is_part_of_the_prompt_as_its_schema() -> None:
    schema = wait_of(approval("release", prompt={"question": "Deploy?"}, answer=Verdict)).prompt[
        "answer_schema"
    ]
    assert isinstance(schema, dict)
    assert schema["required"] == ["stage"]
    assert sorted(schema["properties"]["stage"]["enum"]) == ["live", "test"]
    assert schema["properties"]["percent"]["default"] == 10
    numbers = wait_of(approval("b", answer=list[int])).prompt["answer_schema"]
    assert isinstance(numbers, dict)
    assert numbers["items"] == {"type": "integer"}
    own = {"type": "boolean"}
    assert wait_of(approval("c", answer=own)).prompt == {"answer_schema": own}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"name": ""}, "approval: name must be a text of 1 to 200 characters"),
        ({"name": 5}, "approval: name must be a text"),
        ({"name": "a/b"}, "must have no '/'"),
        ({"name": "a\nb"}, "no line ends"),
        ({"name": "a", "wait_key": " "}, "approval: wait_key must be a text"),
        ({"name": "a", "wait_key": "sleep:a"}, "must not begin with 'sleep:'"),
        (
            {"name": "a", "timeout_sec": 0},
            "approval: timeout_sec must be a number above 0, at most 316224000, not 0",
        ),
        ({"name": "a", "timeout_sec": True}, "timeout_sec must be a number above 0"),
        ({"name": "a", "timeout_sec": math.nan}, "timeout_sec must be a number above 0"),
        ({"name": "a", "timeout_sec": 10**400}, "timeout_sec must be a number above 0"),
        ({"name": "a", "on_timeout": "ask again"}, "on_timeout must be 'fail' or 'succeed'"),
        ({"name": "a", "prompt": ["x"]}, "prompt must be a dict"),
        ({"name": "a", "answer": 5}, "answer must be a type or a JSON Schema, not 5"),
        ({"name": "a", "answer": Flow}, "answer must be a type or a JSON Schema"),
        (
            {"name": "a", "answer": int, "prompt": {"answer_schema": {}}},
            "give either answer, or 'answer_schema' in the prompt",
        ),
        ({"name": "a", "prompt": {1: "x"}}, "prompt must be a dict whose keys are texts"),
        ({"name": "a", "prompt": {"x": object()}}, "prompt must be JSON"),
        ({"name": "a", "prompt": {"x": math.inf}}, "prompt must be JSON"),
        ({"name": "a", "prompt": {"x": "y" * PROMPT_BYTES_MAX}}, "prompt must be at most 16384 bytes"),
    ],
)
def test_what_cannot_be_asked_is_refused_where_it_is_written(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        approval(**wanted)


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, "5", None, True])
def test_a_sleep_has_a_length(seconds: Any) -> None:
    with pytest.raises(ValueError, match="sleep: seconds must be a number above 0"):
        waits.sleep(seconds)


def test_pyocos_own_engine_says_that_it_cannot_wait() -> None:
    with pytest.raises(RuntimeError, match="only workers of pyoco-server know how to wait"):
        PyocoEngine().run(Flow("f") >> approval("release"))


def test_writing_a_flow_loads_neither_the_server_nor_the_broker_client() -> None:
    program = (
        "import sys; from pyoco_server import approval, sleep; approval('a'); sleep(1);"
        "print([m for m in sys.modules if m.split('.')[0] in ('nats', 'fastapi', 'starlette', 'httpx')])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
