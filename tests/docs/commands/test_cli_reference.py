"""Every example of docs/reference/cli-reference.md, in its order, against a real `up`: as JSON and as text.

`top` has tests of its own, on a terminal (tests/cli/client/test_top.py).
"""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import Program, Programs, wait_for
from tests.docs.test_examples import ROOT, blocks, up

PAGE = "docs/reference/cli-reference.md"
WORKFLOW = "docs/reference/workflow-yaml.md"
SECTIONS = (ROOT / PAGE).read_text().split("\n### ")[1:]
# Each with whether its command has `--output`.
EXAMPLES = [
    (line, "`--output" in section)
    for section in SECTIONS
    for block in re.findall(r"^For example:\n\n```text\n(.*?)```", section, re.M | re.S)
    for line in block.splitlines()
]
READING = re.compile(r"pyoco-client \w+ (list|get|tasks|result|why|runs|history|pages)\b")
RESOLVER = """
from pyoco_server.flows.demo import resolver

def resolve(name):
    return resolver(name)

resolve.flows = resolver.flows
"""


class Session:
    """A folder in which every example can be typed, with the ids that the examples leave open."""

    def __init__(self, folder: Path, port: int) -> None:
        self.programs = Programs(folder)
        self._server = f"http://127.0.0.1:{port}"
        self._ids: dict[str, str] = {}

    def run(self, *arguments: str, **settings: str) -> Program:
        done = self.programs.run("pyoco-client", *arguments, PYOCO_SERVER=self._server, **settings)
        assert done.ended() == 0, (arguments, done.said)
        return done

    def answer(self, line: str) -> Any:
        return json.loads(self.run(*shlex.split(line)).output)

    def submitted(self, line: str) -> str:
        return str(self.answer(f"run submit {line}")["run_id"])

    def with_ids(self, example: str) -> str:
        """The example about something that exists and is in the state that the example needs."""
        if "17" in shlex.split(example):
            return example.replace("17", self._letter())
        if "SCHEDULE_ID" in example:
            [schedule] = self.answer("schedule list")
            return example.replace("SCHEDULE_ID", schedule["schedule_id"])
        if "BATCH_ID" in example:
            return example.replace("BATCH_ID", self._batch())
        if "RUN_ID" not in example:
            return example
        match example.split()[1:3]:
            case ["approval", _]:
                named = re.sub(r"RUN_ID release", "RUN_ID approve", example)
                return named.replace("RUN_ID", self._waiting())
            case ["run", "cancel"]:
                return example.replace("RUN_ID", self.submitted("ticker --tag nowhere"))
            case ["run", "retry"]:
                return example.replace("RUN_ID", self._ended("parallel")).replace("NAME", "total")
            case _:
                return example.replace("RUN_ID", self._ended("hello"))

    def _ended(self, flow: str) -> str:
        if flow not in self._ids:
            self._ids[flow] = self.submitted(f"{flow} --tag demo --wait")
        return self._ids[flow]

    def _batch(self) -> str:
        return str(self.answer("batch submit runs.ndjson")["batch_id"])

    def _waiting(self) -> str:
        """A run whose approval is open."""
        run_id = self.submitted("release --tag demo")
        wait_for(lambda: run_id in self.run("approval", "list").output, "an open approval")
        return run_id

    def _letter(self) -> str:
        self.programs.run("pyoco-client", "submit", "unknown", "--wait", PYOCO_SERVER=self._server)
        return str(self.answer("dlq list")["items"][0]["id"])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "my_flows.py").write_text(blocks(WORKFLOW, "python")[0] + RESOLVER)
    (tmp_path / "flow.yaml").write_text(blocks(WORKFLOW, "yaml")[0])
    (tmp_path / "runs.ndjson").write_text('{"flow_name": "hello"}\n')
    (tmp_path / "key.txt").write_text("some-key\n")
    (tmp_path / "dist").mkdir()
    for path in ("dist/demo-1.0-py3-none-any.whl", "x-1.0-py3-none-any.whl"):
        _write_wheel(tmp_path / path)
    served = ("--flow-resolver", "my_flows.py:resolve", "--tags", "demo,default", "--worker-id", "w1")
    with up(tmp_path, *served) as port:
        session = Session(tmp_path, port)
        session.run("wheel", "upload", "x-1.0-py3-none-any.whl")
        try:
            yield session
        finally:
            session.programs.end_all()


def _write_wheel(path: Path) -> None:
    name, version, *_ = path.name.split("-")
    folder = f"{name}-{version}.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{folder}/WHEEL", tag)
        wheel.writestr(f"{folder}/RECORD", f"{folder}/METADATA,,\n{folder}/WHEEL,,\n{folder}/RECORD,,\n")


@pytest.mark.slow
def test_every_example_of_the_reference_works(session: Session) -> None:
    assert len(EXAMPLES) > 40
    for example, has_output in EXAMPLES:
        if example == "pyoco-client top":
            continue
        *settings, _ = re.findall(r"^(\w+)=(\S+) |$", example)
        _, *arguments = shlex.split(session.with_ids(re.sub(r"^\w+=\S+ ", "", example)))
        session.run(*arguments, **dict(settings))
        if has_output and READING.match(example):
            assert session.run(*arguments, "--output", "text").output, example
