"""The graph is read as pyoco reads it: what we accept it accepts, and it means the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoco.dsl import graph as pyoco_graph
from pyoco.dsl import graph_terms as theirs
from pyoco.dsl.expressions import ensure_expression

from pyoco_server.expressions import ExpressionError
from pyoco_server.workflow_yaml import model as ours
from pyoco_server.workflow_yaml.expressions import expression_source
from pyoco_server.workflow_yaml.graph import parse_graph

NAMES = st.sampled_from(["a", "b", "load", "_x1", "pipe", "switch", "default", "いろ"])
VALUES = st.sampled_from(["x", "3", "{{ items }}", '"params.x"', "'$ctx.loop.index > 2'", "{{results.a}}"])
TASKS = st.one_of(NAMES, st.builds("{}: {}".format, NAMES, NAMES), st.builds("pipe({})".format, NAMES))


def _around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pipeline = st.lists(inner, min_size=1, max_size=3).map(" >> ".join)
    case = st.builds("{}: {}".format, st.sampled_from(["x", "'y z'", "1", "true", "default"]), pipeline)
    return st.one_of(
        pipeline,
        st.builds("repeat(count={}){{ {} }}".format, VALUES, pipeline),
        st.builds("foreach(over={}, item=it, index=i){{\n{} }}".format, VALUES, pipeline),
        st.builds("until(cond={}, max_iter=5, collect=first){{{}}}".format, VALUES, pipeline),
        st.lists(case, min_size=1, max_size=3).map(lambda cases: f"switch(on=mode){{ {'; '.join(cases)} }}"),
    )


GRAPHS = st.recursive(TASKS, _around, max_leaves=12)
NOISE = st.text(alphabet="ab >>>{}();:=,'\"#\n$_1", max_size=60)


def read(text: str) -> tuple[ours.Pipeline | None, list[str]]:
    told: list[str] = []
    pipeline = parse_graph(text, range(len(text)), lambda kind, msg, at: told.append(f"{kind} {at}: {msg}"))
    return pipeline, told


@settings(deadline=None)
@given(GRAPHS)
def test_a_graph_means_what_it_means_to_pyoco(text: str) -> None:
    pipeline, told = read(text)
    if pipeline is not None and not told:
        assert _told(pipeline) == _told_of_theirs(pyoco_graph.parse_graph(text))


@settings(deadline=None)
@given(st.one_of(NOISE, GRAPHS.flatmap(lambda text: st.permutations(text.split()).map(" ".join))))
def test_what_we_accept_pyoco_accepts(text: str) -> None:
    pipeline, told = read(text)
    assert (pipeline is None) <= bool(told)
    if not told:
        pyoco_graph.parse_graph(text)


@settings(deadline=None)
@given(st.one_of(GRAPHS, NOISE))
def test_what_pyoco_refuses_we_refuse(text: str) -> None:
    try:
        pyoco_graph.parse_graph(text)
    except ValueError:
        assert read(text)[1]


VALUE_PARTS = ["$ctx.params.x", "$ctx.loop.index", "$env.HOME", "1", "'a'", "$ctx.r", "'$ctx.r'", "x", "{}"]
OPERATOR_PARTS = ["==", ">", "+", "**", "not", "and", "in", "(", ")", ",", "if", "else"]
FORBIDDEN_PARTS = ["_ctx", ".y", "[0]", "$", "f(", "lambda: 1"]
PARTS = st.sampled_from([*VALUE_PARTS, *OPERATOR_PARTS, *FORBIDDEN_PARTS])


@settings(deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=7).map(" ".join), st.booleans())
def test_an_expression_is_accepted_where_pyoco_accepts_it(raw: str, of_params: bool) -> None:
    assert _accepted(raw, of_params) == _accepted_by_pyoco(raw, of_params)


@pytest.mark.parametrize(
    ("raw", "of_params", "source"),
    [
        ("items", True, "$ctx.params.items"),
        ("{{ items }}", True, "$ctx.params.items"),
        ("done", False, "$ctx.done"),
        ("params.done", False, "$ctx.params.done"),
        ("results.read.rows", True, "$ctx.results.read.rows"),
        ("env.MODE", True, "$env.MODE"),
        ("ctx.loop.index", True, "$ctx.loop.index"),
        ("$ctx.params.n > 3", True, "$ctx.params.n > 3"),
    ],
)
def test_a_path_is_put_into_pyocos_notation(raw: str, of_params: bool, source: str) -> None:
    assert expression_source(raw, of_params=of_params) == source
    assert pyoco_graph._compile_expression(raw, default_to_params=of_params) == source


SECRETS = ["$env.PYOCO_AUTH_PEPPER", "env.PYOCO_NATS_PASSWORD"]
LONG = ["$ctx.a" + "+1" * 300, "(" * 400, "$ctx.a" + " and not" * 50, "$ctx.a" + "[0]" * 100]


@pytest.mark.parametrize("raw", ["", "{{}}", *SECRETS, *LONG])
def test_an_expression_has_limits(raw: str) -> None:
    with pytest.raises(ExpressionError):
        expression_source(raw, of_params=True)


def _accepted(raw: str, of_params: bool) -> bool:
    try:
        expression_source(raw, of_params=of_params)
    except ExpressionError:
        return False
    return True


def _accepted_by_pyoco(raw: str, of_params: bool) -> bool:
    try:
        ensure_expression(pyoco_graph._compile_expression(raw, default_to_params=of_params))
    except ValueError:
        return False
    return True


def _source(raw: str, *, of_params: bool) -> str:
    return str(pyoco_graph._compile_expression(raw, default_to_params=of_params))


def _told(pipeline: ours.Pipeline) -> Any:
    return [_term(term) for term in pipeline.terms]


def _term(term: ours.Term) -> Any:
    match term:
        case ours.TaskTerm():
            return ("task", term.task, term.node)
        case ours.PipeTerm():
            return ("pipe", term.pipe)
        case ours.SwitchTerm():
            cases = {repr(case.value): _told(case.body) for case in term.cases}
            return ("switch", term.on.source, cases)
        case ours.RepeatTerm():
            count = term.count if isinstance(term.count, int) else term.count.source
            return ("repeat", count, term.collect, _told(term.body))
        case ours.ForEachTerm():
            return ("foreach", term.over.source, term.item, term.index, term.collect, _told(term.body))
        case ours.UntilTerm():
            return ("until", term.cond.source, term.max_iter, term.collect, _told(term.body))


def _told_of_theirs(pipeline: theirs.Pipeline) -> Any:
    return [_their_term(term) for term in pipeline.terms]


def _their_term(term: Any) -> Any:
    match term:
        case theirs.TaskTerm():
            return ("task", term.name, term.node_name)
        case theirs.PipeRefTerm():
            return ("pipe", term.name)
        case theirs.SwitchTerm():
            cases = {
                repr(pyoco_graph._compile_case_value(case.value)): _told_of_theirs(case.branch)
                for case in term.cases
            }
            if term.default is not None:
                cases["None"] = _told_of_theirs(term.default)
            return ("switch", _source(term.on, of_params=True), cases)
        case theirs.RepeatTerm():
            count = int(term.count) if term.count.isdigit() else _source(term.count, of_params=True)
            return ("repeat", count, term.collect or "list", _told_of_theirs(term.body))
        case theirs.ForEachTerm():
            over = _source(term.over, of_params=True)
            body = _told_of_theirs(term.body)
            return ("foreach", over, term.item, term.index, term.collect or "list", body)
        case theirs.UntilTerm():
            cond = _source(term.cond, of_params=False)
            limit = int(term.max_iter) if term.max_iter else None
            return ("until", cond, limit, term.collect or "last", _told_of_theirs(term.body))
