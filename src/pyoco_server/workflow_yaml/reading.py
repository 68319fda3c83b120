"""YAML text into a tree of JSON values with their positions.

The tree is built from the parser's events: no constructor runs. Aliases and anchors (which can expand a small
text to a huge one), tags (which can name Python objects), merge keys and duplicate keys are refused, and so
are plain scalars that YAML 1.1 reads in an unexpected way. Depth and number of nodes are limited, so that the
cost is linear in the size of the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import yaml
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.workflow_yaml.problems import (
    Lines,
    Problems,
    SourcePosition,
    WorkflowYamlValidationError,
    quoted,
)

DEPTH_MAX = 32
NODES_MAX = 20_000
INT_DIGITS_MAX = 20
INT_MIN, INT_MAX = -(2**63), 2**64 - 1  # integers that all JSON parsers accept

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# The loader in C is several times faster; not every installation has it.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset({"yes", "true", "on"})
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_BASED = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+)")
_resolve: Callable[[type[ScalarNode], str, tuple[bool, bool]], object] = Resolver().resolve

JsonScalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    place: SourcePosition
    value: JsonScalar
    style: str | None = None
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Items:
    place: SourcePosition
    nodes: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class YamlEntry:
    key_place: SourcePosition
    node: Node


@dataclass(frozen=True, slots=True)
class Entries:
    place: SourcePosition
    by_key: dict[str, YamlEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnreadableYaml:
    """The problem at this position was reported already."""

    place: SourcePosition


Node = Scalar | Items | Entries | UnreadableYaml


def decoded(raw: bytes, problems: Problems) -> str:
    """The text, without a byte order mark. Raises if the bytes are not text."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        place = Lines(before).position(len(before))
        raise problems.fail("invalid_utf8", "The file is not UTF-8 text from here on.", place) from error
    text = text.removeprefix("\ufeff")
    if odd := _UNPRINTABLE.search(text):
        place = Lines(text).position(odd.start())
        raise problems.fail("invalid_yaml", "Control characters are not accepted.", place)
    return text


def read(text: str, lines: Lines, problems: Problems, *, nodes_max: int = NODES_MAX) -> Node | None:
    """The single document of the text; None if it is empty. Raises if reading cannot continue."""
    composer = _Composer(lines, problems, nodes_max)
    events = yaml.parse(text, Loader=_LOADER)
    try:
        for event in events:
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, lines, problems) from error
    except WorkflowYamlValidationError:
        raise  # it is a ValueError too
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an escape beyond the last code point
        raise problems.fail("invalid_yaml", "The file is not valid YAML.", SourcePosition(1, 1)) from error
    return composer.root


def plain(node: Node) -> JsonValue:
    """The value without positions; its problems were reported before."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(one) for one in node.nodes]
        case Entries():
            return plain_members(node)
        case UnreadableYaml():
            return None


def plain_members(entries: Entries) -> JsonObject:
    return {key: plain(entry.node) for key, entry in entries.by_key.items()}


def _not_yaml(error: yaml.MarkedYAMLError, lines: Lines, problems: Problems) -> WorkflowYamlValidationError:
    mark = error.problem_mark or error.context_mark
    place = lines.position(lines.index(mark.line, mark.column)) if mark else SourcePosition(1, 1)
    sentence = f"The file is not valid YAML: {error.problem or error.context}."
    return problems.fail("invalid_yaml", sentence, place)


class _Composer:
    """Builds the tree from events. It does not recurse: the author chooses how deep the text is nested."""

    def __init__(self, lines: Lines, problems: Problems, nodes_max: int) -> None:
        self._lines = lines
        self._problems = problems
        self._nodes_max = nodes_max
        self._open: list[Items | Entries] = []
        self._keys: list[Node | None] = []  # for each open collection: the key that waits for its value
        self._nodes = 0
        self._documents = 0
        self.root: Node | None = None

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._fail("invalid_yaml", "The file has a second document; write one.", event)
            case yaml.ScalarEvent():
                self._check(event)
                self._add(self._scalar(event))
            case yaml.SequenceStartEvent():
                self._check(event)
                self._enter(Items(self._place(event)))
            case yaml.MappingStartEvent():
                self._check(event)
                self._enter(Entries(self._place(event)))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._keys.pop()
                self._add(self._open.pop())
            case yaml.AliasEvent():
                self._report("alias_refused", "Aliases (*name) are not accepted; write it out.", event)
                self._add(UnreadableYaml(self._place(event)))

    def _check(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        self._nodes += 1
        if self._nodes > self._nodes_max:
            raise self._fail("too_many_values", f"The file has more than {self._nodes_max} values.", event)
        if event.anchor is not None:
            self._report("alias_refused", "Anchors (&name) are not accepted; remove it.", event)
        if event.tag is not None:
            self._report("tag_refused", "Tags (!name) are not accepted; remove it.", event)

    def _enter(self, collection: Items | Entries) -> None:
        if len(self._open) >= DEPTH_MAX:
            sentence = f"The file is nested deeper than {DEPTH_MAX} levels."
            raise self._problems.fail("too_deep", sentence, collection.place)
        self._open.append(collection)
        self._keys.append(None)

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        place = self._place(event)
        begin = self._lines.index(*_line_and_column(event.start_mark))
        end = self._lines.index(*_line_and_column(event.end_mark))
        if _SURROGATE.search(event.value):
            self._problems.add("invalid_value", "Half of a surrogate pair is no character.", place)
            return UnreadableYaml(place)
        try:
            value = _plain_value(event.value) if event.implicit[0] else event.value
        except _OddScalar as odd:
            self._problems.add("invalid_value", str(odd), place)
            return UnreadableYaml(place)
        return Scalar(place, value, event.style, begin, end)

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        outer = self._open[-1]
        if isinstance(outer, Items):
            outer.nodes.append(node)
        elif isinstance(outer, Entries):
            key, self._keys[-1] = self._keys[-1], None if self._keys[-1] else node
            if key is not None:
                self._set(outer, key, node)

    def _set(self, outer: Entries, key: Node, node: Node) -> None:
        if isinstance(key, UnreadableYaml):
            return
        if not isinstance(key, Scalar) or not isinstance(key.value, str):
            self._problems.add("invalid_key", "A key must be text; put it in quotes.", key.place)
        elif key.value in outer.by_key:
            sentence = f"The key {quoted(key.value)} stands here a second time; remove one."
            self._problems.add("duplicate_key", sentence, key.place)
        else:
            outer.by_key[key.value] = YamlEntry(key.place, node)

    def _place(self, event: yaml.Event) -> SourcePosition:
        line, column = _line_and_column(event.start_mark)
        return SourcePosition(line + 1, column + 1)

    def _report(self, kind: str, msg: str, event: yaml.Event) -> None:
        self._problems.add(kind, msg, self._place(event))

    def _fail(self, kind: str, msg: str, event: yaml.Event) -> WorkflowYamlValidationError:
        return self._problems.fail(kind, msg, self._place(event))


class _Mark(Protocol):
    line: int
    column: int


def _line_and_column(mark: _Mark | None) -> tuple[int, int]:
    assert mark is not None, "the events of a text have marks"
    return mark.line, mark.column


class _OddScalar(Exception):
    """The message says what YAML would read, and what to write instead."""


def _plain_value(text: str) -> JsonScalar:
    """Raises _OddScalar for a value that is not JSON, or that YAML reads as another type than expected."""
    match str(_resolve(ScalarNode, text, (True, False))).removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in _TRUE
        case "int":
            return _integer(text)
        case "float":
            return _number(text)
        case "timestamp":
            raise _OddScalar("A date is not a JSON value; put it in quotes.")
        case "merge":
            raise _OddScalar("Merge keys (<<) are not accepted; write the entries out.")
        case "value":
            raise _OddScalar("A lone = has a meaning of its own in YAML; put it in quotes.")
        case _:
            return text


def _integer(text: str) -> int:
    bare = text.replace("_", "")
    if len(bare) > INT_DIGITS_MAX + 1 and not _BASED.fullmatch(text):
        raise _OddScalar("This whole number has too many digits; put it in quotes.")
    if _DECIMAL.fullmatch(text):
        return _in_range(int(bare))
    if _BASED.fullmatch(text) and len(bare) < 80:
        return _in_range(int(bare, 0))
    raise _OddScalar(
        "YAML reads this as an octal or base 60 number; put it in quotes or write it in decimal."
    )


def _in_range(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise _OddScalar("This whole number does not fit into 64 bits; put it in quotes.")
    return number


def _number(text: str) -> float:
    if ":" in text:
        raise _OddScalar("YAML reads this as a base 60 number; put it in quotes.")
    bare = text.replace("_", "").lower()
    number = math.nan if bare.lstrip("+-") in (".inf", ".nan") else float(bare)
    if not math.isfinite(number):
        raise _OddScalar("This number is not finite, which JSON cannot say; put it in quotes.")
    return number
