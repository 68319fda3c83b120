"""Whatever bytes come: a workflow, or a refusal with places in the text. And never more work than bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyoco_server.workflow_yaml import (
    WorkflowYamlValidationError,
    extract_flow_defaults,
    parse_workflow_yaml_bytes,
    reading,
)

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]

WORDS = ["flow", "graph", "defaults", "tasks", "pipes", "use", "callable", "inputs", "outputs", "version"]
SCALARS = st.one_of(
    st.sampled_from([*WORDS, "a", "a >> b", "x: a", "pipe(p)", "m:f", "$node.a.output", "$x", "2026-01-01"]),
    st.sampled_from(["0o17", "017", "1:30", ".nan", "1e400", "1.0e+400", "<<", "=", "~", "yes", "-0", "0x"]),
    st.sampled_from(['"\\ud800"', '"\\U0011ffff"', '"\\x00"', "'", '"', "*a", "&a a", "!!int x", "|\n  a"]),
    st.text(max_size=8),
    st.integers().map(str),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(SCALARS, inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=20,
)
FILES = st.lists(
    st.tuples(st.one_of(st.sampled_from(WORDS), SCALARS), TREES).map(lambda pair: f"{pair[0]}: {pair[1]}"),
    max_size=6,
).map("\n".join)


def checked(raw: bytes) -> None:
    text = raw.decode("utf-8", "replace")
    lines = text.count("\n") + text.count("\r") + sum(text.count(end) for end in "\x85\u2028\u2029") + 1
    try:
        msgspec.json.encode(extract_flow_defaults(parse_workflow_yaml_bytes(raw)))
        return
    except WorkflowYamlValidationError as error:
        refused = error
    assert refused.problems
    for problem in refused.problems:
        assert 1 <= problem.place.line <= lines
        assert 1 <= problem.place.column <= len(text) + 2
    msgspec.json.encode(refused.details)


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__)
def loader(request: pytest.FixtureRequest) -> Iterator[Any]:
    before, reading._LOADER = reading._LOADER, request.param
    yield request.param
    reading._LOADER = before


@pytest.mark.usefixtures("loader")
class TestBothLoaders:
    @settings(deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes(self, raw: bytes) -> None:
        checked(raw)

    @settings(deadline=None)
    @given(st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,?\n \t\\~<=$().\x85\u2028\ufeff", max_size=120))
    def test_any_punctuation(self, text: str) -> None:
        checked(text.encode())

    @settings(deadline=None)
    @given(FILES)
    @example('flow: {graph: a}\ntasks: {a: {inputs: {x: "\\ud800"}}}')
    @example("? [a]\n: b")
    def test_files_that_nearly_are_workflows(self, text: str) -> None:
        checked(text.encode("utf-8", "replace"))


def _calls(raw: bytes) -> int:
    """How much is done for these bytes, counted in calls."""
    count = 0

    def counting(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counting)
    try:
        parse_workflow_yaml_bytes(raw)
    except WorkflowYamlValidationError:
        pass
    finally:
        sys.setprofile(None)
    return count


SHAPES: dict[str, Callable[[int], str]] = {
    "depth": lambda n: "[" * n,
    "keys": lambda n: "".join(f"k{i}: 1\n" for i in range(n)),
    "chain": lambda n: "flow:\n  graph: " + "a >> " * n + "a\ntasks: {a: {}}",
    "unknown": lambda n: "flow:\n  graph: " + "z >> " * n + "z\npipes: {" + "p: a, " * n + "}",
    "blocks": lambda n: "flow:\n  graph: '" + "repeat(count=1){" * n + "a" + "}" * n + "'",
    "strings": lambda n: "flow:\n  graph: 'switch(on=x){" + 'a: "a";' * n + "}'",
    "pipes": lambda n: "flow: {graph: pipe(p0)}\npipes:\n" + "".join(
        f"  p{i}: pipe(p{i + 1}) >> pipe(p{i + 1})\n" for i in range(n)
    ),
    "wide pipes": lambda n: "flow: {graph: pipe(p)}\ntasks: {a: {}}\npipes:\n  p: "
    + "pipe(q) >> " * n + "a\n  q: " + "a >> " * n + "a\n",
    "anchors": lambda n: "a: &a [x]\n" + "".join(f"k{i}: *a\n" for i in range(n)),
    "quotes": lambda n: "flow:\n  graph: \"" + "\\\"a" * n + "\"",
    "folded": lambda n: "flow:\n  graph: >\n" + "    a\n    >>\n" * n + "    a\ntasks: {a: {}}",
    "defaults": lambda n: "flow:\n  graph: a\n  defaults: [" + "{a: 1}, " * n + "]",
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_text_is_at_most_twice_the_work(shape: str) -> None:
    small, large = (_calls(SHAPES[shape](size).encode()) for size in (400, 800))
    assert large <= 2.2 * small + 200
