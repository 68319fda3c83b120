"""Tasks that wait: for an answer (`approval`), or for a time (`sleep`). Owns how flows declare them.

Such a task has no code. While it waits it occupies no worker, and it continues after any restart.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

OnTimeout = Literal["fail", "succeed"]

PROMPT_BYTES_MAX = 16 * 1024
NAME_CHARS_MAX = 200
# The member of a prompt that has the JSON Schema of the answer. A `flow.yaml` sets it among the `inputs`.
ANSWER_SCHEMA = "answer_schema"
# The key of a sleep has this prefix, so that lists of open approvals leave it out.
SLEEP_KEY_PREFIX = "sleep:"
TYPES_MAX = 100
WAIT_SEC_MAX = 10 * 366 * 86_400.0  # ten years


@dataclass(frozen=True, slots=True, eq=False)
class WaitTask:
    """Takes the place of a task's function: the engine recognises a waiting task by it."""

    prompt: Mapping[str, object]
    timeout_sec: float | None = None
    on_timeout: OnTimeout = "fail"
    key: str | None = None  # None: the name under which the task is recorded

    def __call__(self) -> object:
        raise RuntimeError("This task waits for an answer, and only workers of pyoco-server know how to wait")


def approval(
    name: str,
    prompt: Mapping[str, object] | None = None,
    timeout_sec: float | None = None,
    on_timeout: OnTimeout = "fail",
    wait_key: str | None = None,
    answer: object = None,
) -> TaskWrapper:
    """A task that waits for an answer; its result is the payload of the answer.

    `prompt` is shown to the person who answers; members like `$ctx.params.version` and `$node.build.output`
    are replaced by their values, as in a task's inputs. Without an answer within `timeout_sec` the task
    fails, or succeeds with None. An answer must name `wait_key`, which is the task's name unless given.
    `answer` is the type of the payload, such as a pydantic model, or its JSON Schema: the dashboard shows a
    form for it, and a payload without this form is refused.
    """
    _check_text("approval: name", name)
    if wait_key is not None:
        _check_text("approval: wait_key", wait_key)
        if wait_key.startswith(SLEEP_KEY_PREFIX):
            raise ValueError(f"approval: wait_key must not begin with '{SLEEP_KEY_PREFIX}', not {wait_key!r}")
    if timeout_sec is not None:
        _check_seconds("approval: timeout_sec", timeout_sec)
    if on_timeout not in ("fail", "succeed"):
        raise ValueError(f"approval: on_timeout must be 'fail' or 'succeed', not {on_timeout!r}")
    return _task(name, WaitTask(_checked_prompt(prompt, answer), timeout_sec, on_timeout, wait_key))


def sleep(seconds: float, name: str | None = None) -> TaskWrapper:
    """A task that succeeds after so many seconds, without holding a worker.

    Its default name is `sleep_<seconds>`; two of the same length in one flow need different names.
    """
    _check_seconds("sleep: seconds", seconds)
    name = f"sleep_{seconds:g}" if name is None else name
    _check_text("sleep: name", name)
    return _task(name, WaitTask({}, seconds, "succeed", f"{SLEEP_KEY_PREFIX}{name}"))


def _task(name: str, wait: WaitTask) -> TaskWrapper:
    return TaskWrapper(Task(func=wait, name=name))


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > NAME_CHARS_MAX:
        raise ValueError(f"{what} must be a text of 1 to {NAME_CHARS_MAX} characters, not {text!r}")
    if "/" in text or not text.isprintable():
        raise ValueError(f"{what} stands in addresses: it must have no '/' and no line ends, not {text!r}")


def _check_seconds(what: str, seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < float(str(seconds)) <= WAIT_SEC_MAX:
        raise ValueError(f"{what} must be a number above 0, at most {WAIT_SEC_MAX:.0f}, not {seconds!r}")


def _checked_prompt(prompt: object, answer: object) -> Mapping[str, object]:
    if prompt is None:
        prompt = {}
    if not isinstance(prompt, Mapping) or not all(isinstance(key, str) for key in prompt):
        raise ValueError(f"approval: prompt must be a dict whose keys are texts, not {prompt!r}")
    if answer is not None:
        if ANSWER_SCHEMA in prompt:
            raise ValueError(f"approval: give either answer, or {ANSWER_SCHEMA!r} in the prompt")
        prompt = {**prompt, ANSWER_SCHEMA: _answer_schema(answer)}
    try:
        size = len(json.dumps(dict(prompt), allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"approval: prompt must be JSON: {error}") from error
    if size > PROMPT_BYTES_MAX:
        raise ValueError(f"approval: prompt must be at most {PROMPT_BYTES_MAX} bytes of JSON, not {size}")
    return dict(prompt)


def _answer_schema(answer: object) -> Mapping[str, object]:
    if isinstance(answer, Mapping):
        return dict(answer)
    try:
        return _schema_of_class(answer) if isinstance(answer, type) else _schema_of(answer)
    except (TypeError, ValueError, RuntimeError) as error:  # of msgspec and pydantic
        raise ValueError(
            f"approval: answer must be a type or a JSON Schema, not {answer!r}: {error}"
        ) from error


@lru_cache(maxsize=TYPES_MAX)
def _schema_of_class(answer: type) -> Mapping[str, object]:
    """Remembered, because a flow is made again for each run."""
    return _schema_of(answer)


def _schema_of(answer: object) -> Mapping[str, object]:
    from pyoco_server.flows.type_schema import schema_of_type  # imported only for flows that need it

    return schema_of_type(answer)
