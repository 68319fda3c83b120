"""What is refused, with which words and at which place. The document's table is the table of this test."""

from __future__ import annotations

import hashlib
import re

import pytest

from pyoco_server.errors import Invalid
from pyoco_server.workflow_yaml import (
    WorkflowYamlValidationError,
    extract_flow_defaults,
    parse_workflow_yaml_bytes,
)
from pyoco_server.workflow_yaml.problems import PROBLEMS_MAX, WorkflowProblem
from pyoco_server.workflow_yaml.reading import NODES_MAX
from tests.tidy.repository import ROOT

ROW = re.compile(r"^\| `(\w+)` \| `(.+)` \| (\d+):(\d+) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "reference" / "workflow-yaml.md").read_text(encoding="utf-8"))

GOOD = """\
version: 1
flow:
  graph: |
    add_one >> to_text
  defaults:
    x: 1
tasks:
  add_one:
    callable: my_tasks:add_one
  to_text:
    use: demo/to_text
  never_used: {}
"""


def problems_of(text: str | bytes, *, require_flow: bool = True) -> tuple[WorkflowProblem, ...]:
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(WorkflowYamlValidationError) as caught:
        parse_workflow_yaml_bytes(raw, require_flow=require_flow)
    assert caught.value.reason == caught.value.problems[0].type
    return caught.value.problems


def places_of(text: str | bytes) -> list[tuple[str, int, int]]:
    return [(one.type, *one.place) for one in problems_of(text)]


def test_the_document_lists_refusals() -> None:
    assert len(ROWS) > 50


@pytest.mark.parametrize(("kind", "text", "line", "column", "sentence"), ROWS)
def test_a_refusal_is_the_one_that_is_documented(
    kind: str, text: str, line: str, column: str, sentence: str
) -> None:
    first = problems_of(text.replace("⏎", "\n"))[0]
    assert (first.type, *first.place, first.msg) == (kind, int(line), int(column), sentence)


def test_a_workflow_that_holds_together_is_accepted() -> None:
    parsed = parse_workflow_yaml_bytes(GOOD.encode())
    assert (parsed.size_bytes, parsed.sha256) == (len(GOOD), hashlib.sha256(GOOD.encode()).hexdigest())
    assert parsed.config.flow is not None
    assert parsed.config.flow.graph == "add_one >> to_text\n"
    assert parsed.config.tasks["add_one"].callable == "my_tasks:add_one"
    assert parsed.config.tasks["to_text"].use == "demo/to_text"
    assert extract_flow_defaults(parsed) == {"x": 1}


def test_a_flow_may_be_left_out_where_it_is_not_asked_for() -> None:
    parsed = parse_workflow_yaml_bytes(b"tasks: {a: {}}", require_flow=False)
    assert parsed.config.flow is None
    assert extract_flow_defaults(parsed) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- just: list\n", "invalid_yaml_root"),
        ("null\n", "invalid_yaml_root"),
        ("", "invalid_yaml_root"),
        ('version: 1\nflow:\n  graph: "x"\nunknown: 1\n', "unknown_top_level_keys"),
        ('version: 1\nflow:\n  graph: "x"\nflows: {}\n', "unsupported_key_flows"),
        ('version: 1\nflow:\n  graph: "x"\ndiscovery: {}\n', "unsupported_key_discovery"),
    ],
)
def test_reasons_are_those_that_programs_know(text: str, reason: str) -> None:
    assert problems_of(text)[0].type == reason


def test_what_is_no_bytes_is_refused_too() -> None:
    with pytest.raises(WorkflowYamlValidationError, match="invalid_bytes"):
        parse_workflow_yaml_bytes("flow: {}")  # type: ignore[arg-type]


def test_all_problems_are_told_at_once() -> None:
    text = """\
version: soon
flow:
  graph: |
    load >> clean
      >> store >> pipe(rest)
  default: {}
tasks:
  load: {callable: my_tasks}
  clean: {inputs: {day: 2026-01-31, x: $somewhere}}
flows: []
"""
    assert places_of(text) == [
        ("invalid_value", 9, 25),
        ("unsupported_key_flows", 10, 1),
        ("invalid_version", 1, 10),
        ("unknown_flow_keys", 6, 3),
        ("invalid_task_callable", 8, 20),
        ("invalid_reference", 9, 40),
        ("unknown_task", 5, 10),
        ("unknown_pipe", 5, 19),
    ]


def test_there_is_an_end_to_what_is_told() -> None:
    keys = "\n".join(f"key{number}: 1" for number in range(100))
    assert len(problems_of(keys)) == PROBLEMS_MAX


def test_an_error_carries_what_an_answer_needs() -> None:
    with pytest.raises(Invalid) as caught:
        parse_workflow_yaml_bytes(b"flow: {graph: a}")
    sentence = "There is no 'a' in tasks; define it there, or correct the name."
    place = {"loc": ["workflow", "flow", "graph"], "line": 1, "column": 15}
    assert caught.value.details == [place | {"msg": sentence, "type": "unknown_task"}]
    assert caught.value.err_id == "ERR-PYOCO-0002"
    assert str(caught.value) == f"The workflow is not valid: line 1, column 15: {sentence}"


@pytest.mark.parametrize(
    ("raw", "kind", "line", "column"),
    [
        (b"flow:\n  graph: \xff", "invalid_utf8", 2, 10),
        ("flow: é\x07".encode(), "invalid_yaml", 1, 8),
        (b"a: " + b"9" * 5000 + b"\n", "invalid_value", 1, 4),
        (b"[" + b"1," * NODES_MAX + b"]", "too_many_values", 1, 2 * NODES_MAX),
        (b"\xef\xbb\xbfflow: {graph: a}", "unknown_task", 1, 15),
    ],
)
def test_odd_bytes_have_a_place_too(raw: bytes, kind: str, line: int, column: int) -> None:
    assert (kind, line, column) in places_of(raw)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("flow:\n  graph: |\n    a >>\n      wrong\n", 4, 7),
        ("flow:\n  graph: |2-\n    a >>\n     wrong\n", 4, 6),
        ("flow:\n  graph: >  # a comment with wrong in it\n    a\n    >> wrong\n", 4, 8),
        ("flow:\n  graph: a\n    >> wrong\n", 3, 8),
        ('flow:\n  graph: "a\n    >> wrong"\n', 3, 8),
        ("flow:\n  graph: 'a >> wrong'\n", 2, 16),
        ('flow:\n  graph: "a\\n >> wrong"\n', 2, 18),
        ("flow: {graph: pipe(p)}\npipes:\n  p: |\n    a >>\n    wrong\n", 5, 5),
        ("flow:\n  graph: |\n    switch(on=x){ one: 'a >> wrong' }\n", 3, 30),
        ("flow:\n  graph: |\n    # a comment\n    あ >> wrong\n", 4, 10),
        ("flow:\r\n  graph: |\r\n    a >>\r\n    wrong\r\n", 4, 5),
    ],
)
def test_a_name_is_found_however_the_graph_is_written(text: str, line: int, column: int) -> None:
    tasks = "tasks: {a: {}, あ: {}}\n"
    assert places_of(text + tasks) == [("unknown_task", line, column)]


def test_a_bomb_of_pipes_is_refused_without_going_off() -> None:
    pipes = "".join(f"  p{n}: pipe(p{n + 1}) >> pipe(p{n + 1})\n" for n in range(30))
    text = f"flow: {{graph: pipe(p0)}}\ntasks: {{a: {{}}}}\npipes:\n{pipes}  p30: a\n"
    assert places_of(text) == [("graph_too_large", 1, 15)]


def test_pipes_in_pipes_have_a_limit() -> None:
    pipes = "".join(f"  p{n}: pipe(p{n + 1})\n" for n in range(1000))
    text = f"flow: {{graph: pipe(p0)}}\ntasks: {{a: {{}}}}\npipes:\n{pipes}  p1000: a\n"
    assert [kind for kind, *_ in places_of(text)] == ["graph_too_large"]


def test_blocks_in_blocks_have_a_limit_also_through_pipes() -> None:
    block = "repeat(count=1){ " * 20
    deep = f"{block}pipe(p){' }' * 20}"
    text = f"flow:\n  graph: '{deep}'\ntasks: {{a: {{}}}}\npipes:\n  p: '{deep.replace('pipe(p)', 'a')}'\n"
    assert places_of(text) == [("graph_too_large", 2, 10)]
    far = "repeat(count=1){ " * 200
    assert [kind for kind, *_ in places_of(f"flow:\n  graph: '{far}'\n")] == ["graph_syntax"]


def test_the_same_task_may_be_two_steps_of_a_program_but_not_of_a_chain() -> None:
    tasks = "tasks: {a: {}, b: {}}\n"
    parse_workflow_yaml_bytes(f"flow: {{graph: 'a >> repeat(count=2){{ b }} >> a'}}\n{tasks}".encode())
    parse_workflow_yaml_bytes(f"flow: {{graph: 'a >> b >> again: a'}}\n{tasks}".encode())
    assert places_of(f"flow: {{graph: 'a >> pipe(p)'}}\n{tasks}pipes: {{p: a}}\n") == [
        ("duplicate_node", 3, 12)
    ]
