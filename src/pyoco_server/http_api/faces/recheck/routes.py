"""`/pdca` and `/gui`: HTTP in and out. `middleware` has checked the caller and the rate limit before."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pyoco_server.errors import NotFound
from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.faces.recheck import params, wire
from pyoco_server.http_api.faces.recheck.middleware import (
    ASK,
    ASK_ALL,
    CHANGE,
    DOWNLOAD,
    READ,
    RECHECK_ALL_LIMIT,
    RECHECK_LIMIT,
    STATUS,
    UnknownPaths,
    guarded,
)
from pyoco_server.http_api.faces.recheck.request_context import body_of, note_about, rechecks_of, tenant_in
from pyoco_server.http_api.faces.recheck.schemas import SCHEMAS
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.tracing_headers import correlation_id_of, traceparent_of
from pyoco_server.http_api.requests.idempotency import key_of, key_param, once_answer
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.face import Face
from pyoco_server.http_api.routing.operation import JSON, Content, Operation, Serve
from pyoco_server.http_api.routing.schemas import BINARY, ref
from pyoco_server.ids import new_ulid
from pyoco_server.operations.idempotency.keyed_request import KeyedRequest, RecordedAnswer
from pyoco_server.operations.idempotency.request_digest import digest_of
from pyoco_server.operations.rechecks import query
from pyoco_server.operations.rechecks.accept import Sender, accept, choose
from pyoco_server.operations.rechecks.catalogue import delete_entry, put_entry
from pyoco_server.recheck.request_body import RecheckBody, parse_recheck, parse_recheck_all

KEY_CHARS = (8, 64)
_LIMIT_HEADERS = {
    name: {"description": description, "schema": {"type": kind}}
    for name, kind, description in (
        ("X-RateLimit-Limit", "integer", "Requests of this kind in a minute."),
        ("X-RateLimit-Remaining", "integer", "How many are left now."),
        ("X-RateLimit-Reset", "integer", "Seconds until all are there again."),
        ("RateLimit-Policy", "string", "The same, as the IETF draft has it."),
        ("RateLimit", "string", "The same, as the IETF draft has it."),
    )
}
_REPLAYED = {"Idempotency-Replayed": {"description": "Given again.", "schema": {"const": "true"}}}
_ALWAYS = (400, 401, 403, 429, 500, 502)
_RETRY = {
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}}
}
_DESCRIPTIONS = {429: "Too many requests", 502: "The broker, or Airflow, is away"}


async def recheck(request: Request) -> Response:
    return await _accept(request, parse_recheck)


async def recheck_all(request: Request) -> Response:
    return await _accept(request, parse_recheck_all)


async def _accept(request: Request, read: Callable[[object], RecheckBody]) -> Response:
    body = await body_of(request)
    asked = read(wire.body_in(body))
    key = key_of(request, least=KEY_CHARS[0], most=KEY_CHARS[1], required=True)
    assert key is not None
    headers = request.headers
    sender = Sender(caller_of(request), correlation_id_of(headers), traceparent_of(headers))
    desk, digest = rechecks_of(request), await digest_of(body)
    chosen = await choose(desk, sender.caller, asked, key, digest)
    async with KeyedRequest(desk.store, key, digest, resource_id=new_ulid(), needs_room=True) as keyed:
        answer = keyed.earlier
        if answer is None:
            accepted = await accept(desk, sender, asked, chosen, keyed.reservation)
            answer = await keyed.remember(RecordedAnswer(status=202, body=wire.accepted(accepted)))
    note_about(request, answer.resource_id)
    return once_answer(answer)


async def get_request(request: Request) -> Response:
    request_id = params.REQUEST_ID.read(request)
    found = await query.progress(rechecks_of(request), tenant_in(request), request_id)
    note_about(request, found.request.request_id)
    return json_answer(wire.standing(found))


async def list_strategies(request: Request) -> Response:
    asked = params.read_list_params(request, tenant_in(request))
    offset = (asked.page - 1) * asked.page_size
    found, total = await query.page(rechecks_of(request), asked.search, asked.order, asked.page_size, offset)
    items = [wire.item(one) for one in found]
    return json_answer({"items": items, "page": asked.page, "page_size": asked.page_size, "total": total})


async def get_strategy(request: Request) -> Response:
    window_days, limit = params.SUMMARY_DAYS.read(request), params.LIMIT_HISTORY.read(request)
    found = await query.detail(
        rechecks_of(request),
        tenant_in(request),
        params.STRATEGY_ID.read(request),
        window_days=window_days,
        limit=limit,
    )
    return json_answer(wire.detail(found, window_days))


async def get_results(request: Request) -> Response:
    asked = params.read_range(request)
    found = await query.results(
        rechecks_of(request),
        tenant_in(request),
        params.STRATEGY_ID.read(request),
        begin=asked.begin,
        end=asked.end,
        limit=asked.limit,
    )
    return json_answer({"items": [wire.result(one) for one in found]})


async def put_strategy(request: Request) -> Response:
    entry = wire.body_in(await body_of(request))
    strategy_id = params.STRATEGY_ID.read(request)
    return json_answer(
        wire.entry(await put_entry(rechecks_of(request), tenant_in(request), strategy_id, entry))
    )


async def delete_strategy(request: Request) -> Response:
    await delete_entry(rechecks_of(request), tenant_in(request), params.STRATEGY_ID.read(request))
    return Response(status_code=204)


async def get_artifact_url(request: Request) -> Response:
    artifact_id, tenant = _artifact_id(request), tenant_in(request)
    kept, token = await query.sign_artifact(rechecks_of(request), tenant, artifact_id)
    signature = urlencode({"tenant": tenant, "token": token})
    here = gateway_of(request).own_hosts.url_of(request)
    address = f"{here}/gui/artifacts/{artifact_id}/content?{signature}"
    return json_answer(wire.signed(kept, address))


async def get_artifact_content(request: Request) -> Response:
    """The headers prevent a browser from showing the artifact as a page of this gateway."""
    artifact_id, tenant = _signed_for(request)
    kept, pieces = await query.open_artifact(rechecks_of(request), tenant, artifact_id)
    headers = {
        "Content-Length": str(kept.bytes_size),
        "Content-Type": kept.content_type,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(kept.name, safe='')}",
        "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(pieces, headers=headers)


async def check_signature(request: Request) -> None:
    artifact_id, tenant = _signed_for(request)
    await query.check_signature(rechecks_of(request), tenant, artifact_id, params.SIGNED_TOKEN.read(request))


def _signed_for(request: Request) -> tuple[int, str]:
    # An invalid id was never signed. The error does not show which artifacts exist.
    artifact_id = params.parse_artifact_id(params.ARTIFACT_ID.read(request)) or 0
    return artifact_id, params.SIGNED_TENANT.read(request)


def _artifact_id(request: Request) -> int:
    artifact_id = params.parse_artifact_id(params.ARTIFACT_ID.read(request))
    if artifact_id is None:
        raise NotFound("There is no such artifact. Its number is a whole one.", err_id="")
    return artifact_id


def _answer(description: str, name: str, **headers: object) -> Content:
    """`name`: of the schema."""
    return Content(description, {JSON: ref(name)}, more={"headers": _LIMIT_HEADERS | headers})


def _empty(description: str) -> Content:
    return Content(description, more={"headers": _LIMIT_HEADERS})


def _body(name: str) -> Content:
    return Content(kinds={JSON: ref(name)})


def _refusal(status: int) -> Content:
    more = {"headers": _LIMIT_HEADERS | (_RETRY if status in _DESCRIPTIONS else {})}
    return Content(_DESCRIPTIONS.get(status, "Error"), {JSON: ref("RecheckError")}, more=more)


def _asking(path: str, serve: Serve, summary: str, body: str) -> Operation:
    replied = _answer("Accepted, or accepted before", "RecheckAccepted", **_REPLAYED)
    key = key_param(least=KEY_CHARS[0], most=KEY_CHARS[1], required=True)
    return Operation("POST", path, serve, summary, {202: replied}, [key], _body(body), errors=[409])


def _status(path: str, name: str) -> Operation:
    replied = {200: _answer("How it stands", "RecheckStatus")}
    named = [params.REQUEST_ID]
    return Operation(
        "GET", path, get_request, "How a request stands", replied, named, errors=[404], name=name
    )


_ONE = "/gui/strategies/{strategy_id}"
_ARTIFACT = "/gui/artifacts/{artifact_id}"
OPERATIONS = [
    guarded(
        _asking("/pdca/recheck", recheck, "Recheck strategies by name", "RecheckRequest"), ASK, RECHECK_LIMIT
    ),
    guarded(
        _asking("/pdca/recheck_all", recheck_all, "Recheck all strategies that match", "RecheckAllRequest"),
        ASK_ALL,
        RECHECK_ALL_LIMIT,
    ),
    guarded(_status("/pdca/recheck/{request_id}", "get_recheck"), STATUS),
    guarded(_status("/gui/requests/{request_id}", "get_gui_request"), STATUS),
    guarded(
        Operation(
            "GET",
            "/gui/strategies",
            list_strategies,
            "List strategies",
            {200: _answer("A page", "StrategyPage")},
            params.LIST_PARAMS,
        ),
        READ,
    ),
    guarded(
        Operation(
            "GET",
            _ONE,
            get_strategy,
            "One strategy with its latest results",
            {200: _answer("The strategy", "StrategyDetail")},
            [params.STRATEGY_ID, params.SUMMARY_DAYS, params.LIMIT_HISTORY],
            errors=[404],
        ),
        READ,
    ),
    guarded(
        Operation(
            "PUT",
            _ONE,
            put_strategy,
            "Write the whole entry of a strategy",
            {200: _answer("The entry", "StrategyEntry")},
            [params.STRATEGY_ID],
            _body("StrategyEntryWritten"),
        ),
        CHANGE,
    ),
    guarded(
        Operation(
            "DELETE",
            _ONE,
            delete_strategy,
            "Remove a strategy from the catalogue",
            {204: _empty("Removed")},
            [params.STRATEGY_ID],
            errors=[404],
        ),
        CHANGE,
    ),
    guarded(
        Operation(
            "GET",
            f"{_ONE}/results",
            get_results,
            "Results of a strategy, newest first",
            {200: _answer("Results", "StrategyResults")},
            [params.STRATEGY_ID, params.FROM, params.TO, params.LIMIT],
            errors=[404],
        ),
        READ,
    ),
    guarded(
        Operation(
            "GET",
            f"{_ARTIFACT}/url",
            get_artifact_url,
            "An address from which an artifact can be had for five minutes",
            {200: _answer("The address", "SignedArtifact")},
            [params.ARTIFACT_ID],
            errors=[404],
        ),
        DOWNLOAD,
    ),
    guarded(
        Operation(
            "GET",
            f"{_ARTIFACT}/content",
            get_artifact_content,
            "The artifact itself, by a signed address",
            {200: Content("Its bytes", {"*/*": BINARY}, more={"headers": _LIMIT_HEADERS})},
            [params.ARTIFACT_ID, params.SIGNED_TENANT, params.SIGNED_TOKEN],
            errors=[404],
            never=[401],
            more={"security": []},
        ),
        None,
        check_signature=check_signature,
    ),
]
FACE = Face(
    tag="recheck",
    error="RecheckError",
    operations=OPERATIONS,
    schemas=SCHEMAS,
    always=_ALWAYS,
    refusal=_refusal,
)
UNKNOWN_PATHS = UnknownPaths(OPERATIONS)
