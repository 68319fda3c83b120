"""`/dlq`: dead letters, their redrive and their dismissal."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.operator import params, wire
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Operation, json_body, json_of
from pyoco_server.http_api.routing.schemas import BOOLEAN, OBJECT, TEXT, or_null, record
from pyoco_server.operations.fleet import dead_letters
from pyoco_server.store.queue.dismissals import NOTE_CHARS_MAX


async def list_letters(request: Request) -> Response:
    gateway = ready_gateway(request)
    asked = wire.letter_query(request)
    page = await dead_letters.list_letters(gateway.store, gateway.read_model, caller_of(request), asked)
    items = [wire.letter(shown, whole=False) for shown in page.letters]
    return json_answer({"items": items, "next_cursor": page.next_cursor})


async def get_letter(request: Request) -> Response:
    gateway = ready_gateway(request)
    letter_id = wire.letter_id(request.path_params)
    shown = await dead_letters.get_letter(gateway.store, gateway.read_model, caller_of(request), letter_id)
    return json_answer(wire.letter(shown, whole=True))


async def redrive(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    again = wire.read_again(await small_body(request))
    letter_id = wire.letter_id(request.path_params)
    shown = await dead_letters.get_letter(gateway.store, gateway.read_model, caller, letter_id)
    stored = await dead_letters.redrive(gateway.store, caller, shown.kept, again=again)
    return json_answer(wire.redriven(shown.kept, stored))


async def dismiss(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    note = wire.read_note(await small_body(request))
    letter_id = wire.letter_id(request.path_params)
    shown = await dead_letters.get_letter(gateway.store, gateway.read_model, caller, letter_id)
    dismissal = await dead_letters.dismiss(gateway.store, caller, shown.kept, note)
    return json_answer(wire.dismissed(shown.kept, dismissal))


_DISMISS = (
    "The letter is left out of `GET /dlq` unless `include_dismissed` is set, and can still be read and "
    "redriven. The first dismissal counts: a repetition changes nothing and returns it."
)
OPERATIONS = [
    Operation(
        "GET",
        "/dlq",
        list_letters,
        "Dead letters, newest first",
        {200: json_of("Letters without their messages, and `next_cursor`", OBJECT)},
        [
            params.LETTERS_LIMIT,
            params.REASON,
            params.LETTER_KIND,
            params.INCLUDE_DISMISSED,
            params.CURSOR,
        ],
        errors=[422],
    ),
    Operation(
        "GET",
        "/dlq/{letter_id}",
        get_letter,
        "One dead letter, with its message",
        {200: json_of("The letter, and the run it was redriven as", OBJECT)},
        [params.LETTER_ID],
        errors=[404],
    ),
    Operation(
        "POST",
        "/dlq/{letter_id}/redrive",
        redrive,
        "Run it again, as a new run",
        {200: json_of("The new run", OBJECT)},
        [params.LETTER_ID],
        json_body(record([], {"again": BOOLEAN | {"default": False}}), required=False),
        errors=[404, 409, 413, 415, 422],
    ),
    Operation(
        "POST",
        "/dlq/{letter_id}/dismiss",
        dismiss,
        "Dismiss it: it needs no more attention",
        {200: json_of("Who dismissed it first, when and why", OBJECT)},
        [params.LETTER_ID],
        json_body(record([], {"note": or_null(TEXT | {"maxLength": NOTE_CHARS_MAX})}), required=False),
        errors=[404, 413, 415, 422],
        description=_DISMISS,
    ),
]
