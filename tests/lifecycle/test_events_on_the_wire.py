"""Every event survives being written and read, with its defaults left out and with its members filled."""

from typing import Any, get_args

import msgspec
import pytest

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.graph import Graph, GraphTask, Join, OnTimeout, RetryPolicy, TaskKind
from pyoco_server.lifecycle.status import Driver, LossCause, OutputKept
from tests.lifecycle.support.alphabet import AT, EVENTS, submitted
from tests.lifecycle.support.client_alphabet import CLIENT_EVENTS

_VALUES: dict[Any, Any] = {
    float: 1763254636.1234567,
    int: 7,
    bool: True,
    str: '値 \x01"',
    list[str]: ["a", "b"],
    LossCause: LossCause.SLOT_CRASHED,
    OutputKept: OutputKept.TOO_LARGE,
    OnTimeout: OnTimeout.SUCCEED,
    Driver: Driver.CLIENT,
    Graph: Graph(
        id="g",
        version=3,
        nodes=(
            GraphTask(id="a", retry=RetryPolicy(max_attempts=3), timeout_sec=1.5),
            GraphTask(id="b", type=TaskKind.WAIT, after=("a",), join=Join.ALL_DONE, prompt={"q": [1]}),
        ),
    ),
    dict[str, list[str]]: {"x": ["y", "z"]},
    dict[str, Any]: {"x": [1, None, {"y": 0.1}]},
    Any: {"deep": ["er", 1.5, True]},
}
KINDS: tuple[type[e.Event], ...] = get_args(e.Event)


def there_and_back(event: e.Event) -> e.Event:
    decoder: msgspec.json.Decoder[e.Event] = msgspec.json.Decoder(e.Event)
    return decoder.decode(msgspec.json.encode(event))


def made(kind: type[e.Event], *, defaults: bool) -> e.Event:
    fields = [field for field in msgspec.structs.fields(kind) if field.required or not defaults]
    return kind(**{field.name: _value(field.type) for field in fields})


def _value(wanted: Any) -> Any:
    if wanted in _VALUES:
        return _VALUES[wanted]
    return next(_VALUES[one] for one in get_args(wanted) if one in _VALUES)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("defaults", [True, False])
def test_an_event_is_read_as_it_was_written(kind: type[e.Event], defaults: bool) -> None:
    event = made(kind, defaults=defaults)
    assert there_and_back(event) == event
    assert type(there_and_back(event)) is kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_names_its_type_and_leaves_defaults_out(kind: type[e.Event]) -> None:
    written = msgspec.json.decode(msgspec.json.encode(made(kind, defaults=True)))
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    assert written["type"] == kind.__name__
    assert set(written) == {"type", *required}


def test_the_events_of_our_histories_cover_every_type() -> None:
    assert {type(event) for event in (*EVENTS, *CLIENT_EVENTS)} == set(KINDS)


def test_a_member_that_a_newer_version_added_is_read_over() -> None:
    newer = msgspec.json.decode(msgspec.json.encode(submitted())) | {"colour": "red"}
    assert msgspec.json.decode(msgspec.json.encode(newer), type=e.RunSubmitted) == submitted()


def test_numbers_keep_their_instants() -> None:
    event = e.RunCompleted(at=AT + 0.1)
    assert there_and_back(event).at == AT + 0.1
