"""`/dlq`: what could not be run, why, and another try for it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from pyoco_server.http_api.faces.operator import wire
from pyoco_server.http_api.faces.operator.openapi import LETTER, LETTERS, REDRIVE
from pyoco_server.http_api.faces.operator.request_context import ready_gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.fleet import dead_letters

router = APIRouter()


@router.get("/dlq", summary="Dead letters, newest first", openapi_extra=LETTERS)
async def list_letters(request: Request) -> Response:
    gateway = ready_gateway(request)
    asked = wire.letters_wanted(request.query_params)
    page = await dead_letters.list_letters(gateway.store, gateway.read_model, caller_of(request), asked)
    items = [wire.letter(kept, whole=False) for kept in page.letters]
    return json_answer({"items": items, "next_cursor": page.next_cursor})


@router.get("/dlq/{letter_id}", summary="One dead letter, with its message", openapi_extra=LETTER)
async def get_letter(request: Request) -> Response:
    gateway = ready_gateway(request)
    kept = await dead_letters.get_letter(
        gateway.store, gateway.read_model, caller_of(request), wire.letter_id(request.path_params)
    )
    run_id = dead_letters.redriven_as(gateway.store, gateway.read_model, kept)
    return json_answer(wire.letter(kept, whole=True) | {"redriven_as": run_id})


@router.post("/dlq/{letter_id}/redrive", summary="Run it again, as a new run", openapi_extra=REDRIVE)
async def redrive(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    again = wire.again_wanted(await small_body(request))
    letter_id = wire.letter_id(request.path_params)
    kept = await dead_letters.get_letter(gateway.store, gateway.read_model, caller, letter_id)
    stored = await dead_letters.redrive(gateway.store, caller, kept, again=again)
    return json_answer(wire.redriven(kept, stored))
