"""The text of a graph into terms, by pyoco's grammar.

    pipeline  term (">>" term)*
    term      task | node ":" task | "pipe" "(" name ")"
              | "switch" "(" "on" "=" value ")" "{" (case ":" (pipeline | "pipeline") ";")* "}"
              | ("repeat" | "foreach" | "until") "(" name "=" value, … ")" "{" pipeline "}"

A wrong argument is reported and parsing continues; a violation of the grammar ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast, get_args

from pyoco_server.expressions import ExpressionError
from pyoco_server.workflow_yaml.expressions import expression_source
from pyoco_server.workflow_yaml.model import (
    Case,
    Collect,
    Expression,
    ForEachTerm,
    Pipeline,
    PipeTerm,
    RepeatTerm,
    SwitchTerm,
    TaskTerm,
    Term,
    UntilTerm,
)
from pyoco_server.workflow_yaml.problems import quoted
from pyoco_server.workflow_yaml.tokens import NAMES, GraphError, Token, tokens_of

NESTING_MAX = 32
NUMBER_DIGITS_MAX = 9
COLLECT_MODES = get_args(Collect)
ARGUMENTS = {
    "switch": ("on",),
    "repeat": ("count", "collect"),
    "foreach": ("over", "item", "index", "collect"),
    "until": ("cond", "max_iter", "collect"),
}
_VALUES = ("IDENT", "NUMBER", "STRING", "TEMPLATE")
_BRANCH_ENDS = ("SEMI", "RBRACE")

# Type, sentence and position of a problem.
Report = Callable[[str, str, int], None]


def parse_graph(text: str, origins: Sequence[int], report: Report) -> Pipeline | None:
    """The graph; None, and reported, if it violates the grammar. After other problems parsing continues."""
    try:
        return _Parser(tokens_of(text, origins), report, 0).whole()
    except GraphError as error:
        report("graph_syntax", error.msg, error.at)
        return None


class _Parser:
    def __init__(self, tokens: list[Token], report: Report, depth: int) -> None:
        self._tokens = tokens
        self._report = report
        self._depth = depth
        self._next = 0

    def whole(self) -> Pipeline:
        return self._pipeline(("EOF",))

    def _pipeline(self, ends: tuple[str, ...]) -> Pipeline:
        if self._depth > NESTING_MAX:
            raise GraphError(f"The graph is nested deeper than {NESTING_MAX} levels.", self._peek().at)
        terms = [self._term()]
        while self._peek().kind == "SHIFT":
            self._take("SHIFT")
            terms.append(self._term())
        if self._peek().kind not in ends:
            raise self._unexpected("'>>'", *(NAMES[end] for end in ends))
        return Pipeline(tuple(terms))

    def _term(self) -> Term:
        word = self._peek()
        if word.kind != "IDENT":
            raise self._unexpected("the name of a task")
        match self._peek(1).kind:
            case "COLON":
                return self._named_task()
            case "LPAREN":
                return self._block()
            case _:
                self._take("IDENT")
                return TaskTerm(word.value, None, word.at)

    def _named_task(self) -> TaskTerm:
        node = self._take("IDENT")
        self._take("COLON")
        task = self._take("IDENT")
        if self._peek().kind == "LPAREN":
            raise GraphError("Only a task can be given a name, not a block.", node.at)
        return TaskTerm(task.value, node.value, node.at)

    def _block(self) -> Term:
        word = self._peek()
        match word.value:
            case "pipe":
                return self._pipe()
            case "switch":
                return self._switch()
            case "repeat" | "foreach" | "until":
                return self._loop(word.value)
            case _:
                blocks = "pipe, switch, repeat, foreach and until"
                raise GraphError(f"There is no {quoted(word.value)} block; there are {blocks}.", word.at)

    def _pipe(self) -> PipeTerm:
        at = self._take("IDENT").at
        self._take("LPAREN")
        name = self._take("IDENT", "STRING")
        self._take("RPAREN")
        return PipeTerm(name.value, at)

    def _switch(self) -> SwitchTerm:
        arguments = _Arguments(self._take("IDENT"), self._arguments(), self._report)
        on = arguments.expression("on", of_params=True)
        self._take("LBRACE")
        cases: dict[str | None, Case] = {}
        while self._peek().kind != "RBRACE":
            if self._peek().kind == "SEMI":
                self._take("SEMI")
            else:
                self._case(cases)
        closed = self._take("RBRACE")
        if not cases:
            self._report("graph_syntax", "A switch needs at least one case.", closed.at)
        default = [cases.pop(None)] if None in cases else []
        return SwitchTerm(on, (*cases.values(), *default))

    def _case(self, cases: dict[str | None, Case]) -> None:
        word = self._take(*_VALUES)
        is_default = (word.kind, word.value) == ("IDENT", "default")
        self._take("COLON")
        body = self._branch()
        key = None if is_default else word.value
        if key in cases:
            self._report("duplicate_case", "This case stands here a second time; remove one.", word.at)
        else:
            cases[key] = Case(None if is_default else _case_value(word.value), body)

    def _branch(self) -> Pipeline:
        """A pipeline, with or without quotes."""
        if self._peek().kind == "STRING" and self._peek(1).kind in _BRANCH_ENDS:
            word = self._take("STRING")
            inner = tokens_of(word.value, word.origins)
            if not word.value.strip():
                raise GraphError("This branch is empty.", word.at)
            return _Parser(inner, self._report, self._depth + 1).whole()
        return self._inside(_BRANCH_ENDS)

    def _loop(self, kind: str) -> Term:
        arguments = _Arguments(self._take("IDENT"), self._arguments(), self._report)
        self._take("LBRACE")
        body = self._inside(("RBRACE",))
        self._take("RBRACE")
        match kind:
            case "repeat":
                return RepeatTerm(arguments.count("count"), arguments.collect("list"), body)
            case "foreach":
                return ForEachTerm(
                    over=arguments.expression("over", of_params=True),
                    item=arguments.name("item"),
                    index=arguments.name("index"),
                    collect=arguments.collect("list"),
                    body=body,
                )
            case _:
                cond = arguments.expression("cond", of_params=False)
                return UntilTerm(cond, arguments.limit("max_iter"), arguments.collect("last"), body)

    def _inside(self, ends: tuple[str, ...]) -> Pipeline:
        self._depth += 1
        body = self._pipeline(ends)
        self._depth -= 1
        return body

    def _arguments(self) -> list[tuple[Token, Token]]:
        self._take("LPAREN")
        found: list[tuple[Token, Token]] = []
        while self._peek().kind != "RPAREN":
            if found:
                self._take("COMMA")
            name = self._take("IDENT")
            self._take("EQUAL")
            found.append((name, self._take(*_VALUES)))
        self._take("RPAREN")
        return found

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _take(self, *kinds: str) -> Token:
        token = self._peek()
        if token.kind not in kinds:
            raise self._unexpected(*(NAMES[kind] for kind in kinds))
        self._next += 1
        return token

    def _unexpected(self, *wanted: str) -> GraphError:
        token = self._peek()
        return GraphError(f"Expected {' or '.join(wanted)}, found {NAMES[token.kind]}.", token.at)


class _Arguments:
    """The arguments of a block. A wrong one is reported and replaced by a default."""

    def __init__(self, block: Token, given: list[tuple[Token, Token]], report: Report) -> None:
        self._block = block
        self._report = report
        self._values: dict[str, Token] = {}
        known = ARGUMENTS[block.value]
        for name, value in given:
            if name.value not in known:
                self._wrong(f"{quoted(name.value)} is no argument; there is {', '.join(known)}.", name)
            elif name.value in self._values:
                self._wrong(f"{name.value} is given twice.", name)
            else:
                self._values[name.value] = value

    def expression(self, name: str, *, of_params: bool) -> Expression:
        value = self._needed(name)
        if value is None:
            return Expression("")
        try:
            return Expression(expression_source(value.value, of_params=of_params))
        except ExpressionError as error:
            self._report("invalid_expression", str(error), value.at)
            return Expression("")

    def count(self, name: str) -> int | Expression:
        value = self._needed(name)
        if value is None or not _is_number(value.value):
            return 0 if value is None else self.expression(name, of_params=True)
        return self._number(value, least=0)

    def limit(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is not None and not _is_number(value.value):
            self._wrong(f"{name} must be a whole number from 1.", value)
            return None
        return None if value is None else self._number(value, least=1)

    def name(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not (value.value.isidentifier() and value.value[0].isascii()):
            self._wrong(f"{name} must be a name, with letters, digits and _.", value)
        return value.value if value else None

    def collect(self, otherwise: Collect) -> Collect:
        value = self._values.get("collect")
        if value is None:
            return otherwise
        if value.value not in COLLECT_MODES:
            self._wrong(f"collect must be one of {', '.join(COLLECT_MODES)}.", value)
            return otherwise
        return cast(Collect, value.value)

    def _needed(self, name: str) -> Token | None:
        value = self._values.get(name)
        if value is None or not value.value:
            self._wrong(f"{self._block.value} needs {name}=….", self._block)
            return None
        return value

    def _number(self, value: Token, *, least: int) -> int:
        if len(value.value) > NUMBER_DIGITS_MAX or int(value.value) < least:
            self._wrong(f"The number must be from {least} to {10**NUMBER_DIGITS_MAX - 1}.", value)
            return least
        return int(value.value)

    def _wrong(self, msg: str, token: Token) -> None:
        self._report("invalid_argument", msg, token.at)


def _case_value(text: str) -> str | int | bool:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if _is_number(text) and len(text) <= NUMBER_DIGITS_MAX * 2 else text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
