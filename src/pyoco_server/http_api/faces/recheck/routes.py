"""`/pdca` and `/gui`: HTTP in and out. `middleware` has seen already who may come here, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pyoco_server.errors import NotFound
from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.faces.recheck import access, params, wire
from pyoco_server.http_api.faces.recheck.request_context import body_of, desk_of, note_about, tenant_in
from pyoco_server.http_api.faces.recheck.table import RECHECK, RECHECK_ALL, Endpoint
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.tracing_headers import correlation_id_of, traceparent_of
from pyoco_server.http_api.requests.idempotency import key_of, once_answer
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.operations.identity.callers import DEFAULT_TENANT
from pyoco_server.operations.rechecks import look
from pyoco_server.operations.rechecks.accept import Sender, accept
from pyoco_server.operations.rechecks.catalogue import delete_entry, put_entry
from pyoco_server.recheck.asked import AskedRecheck, recheck_all_asked, recheck_asked

KEY_CHARS = (8, 64)


async def recheck(request: Request) -> Response:
    return await _accepted(request, recheck_asked)


async def recheck_all(request: Request) -> Response:
    return await _accepted(request, recheck_all_asked)


async def _accepted(request: Request, read: Callable[[Any], AskedRecheck]) -> Response:
    body = await body_of(request)
    asked = read(wire.body_in(body))
    key = key_of(request, least=KEY_CHARS[0], most=KEY_CHARS[1], required=True)
    assert key is not None
    headers = request.headers
    sender = Sender(caller_of(request), correlation_id_of(headers), traceparent_of(headers))
    outcome = await accept(desk_of(request), sender, key, body, asked, wire.accepted)
    note_about(request, outcome.resource_id)
    return once_answer(outcome)


async def get_request(request: Request) -> Response:
    request_id = request.path_params["request_id"]
    found = await look.standing(desk_of(request), tenant_in(request), request_id)
    note_about(request, found.request.request_id)
    return json_answer(wire.standing(found))


async def list_strategies(request: Request) -> Response:
    asked = params.list_asked(request.query_params, tenant_in(request))
    offset = (asked.page - 1) * asked.page_size
    found, total = await look.page(desk_of(request), asked.search, asked.order, asked.page_size, offset)
    items = [wire.item(one) for one in found]
    return json_answer({"items": items, "page": asked.page, "page_size": asked.page_size, "total": total})


async def get_strategy(request: Request) -> Response:
    query = request.query_params
    window_days = params.number(query, "summary_window_days", *params.WINDOW_DAYS, 30)
    limit = params.number(query, "limit_history", *params.HISTORY, 50)
    found = await look.detail(
        desk_of(request),
        tenant_in(request),
        request.path_params["strategy_id"],
        window_days=window_days,
        limit=limit,
    )
    return json_answer(wire.detail(found, window_days))


async def get_results(request: Request) -> Response:
    asked = params.range_asked(request.query_params)
    found = await look.results(
        desk_of(request),
        tenant_in(request),
        request.path_params["strategy_id"],
        begin=asked.begin,
        end=asked.end,
        limit=asked.limit,
    )
    return json_answer({"items": [wire.result(one) for one in found]})


async def put_strategy(request: Request) -> Response:
    entry = wire.body_in(await body_of(request))
    strategy_id = request.path_params["strategy_id"]
    return json_answer(wire.entry(await put_entry(desk_of(request), tenant_in(request), strategy_id, entry)))


async def delete_strategy(request: Request) -> Response:
    await delete_entry(desk_of(request), tenant_in(request), request.path_params["strategy_id"])
    return Response(status_code=204)


async def get_artifact_url(request: Request) -> Response:
    artifact_id, tenant = _artifact_id(request), tenant_in(request)
    kept, token = await look.signed(desk_of(request), tenant, artifact_id)
    proof = urlencode({"tenant": tenant, "token": token})
    here = gateway_of(request).own_hosts.url_of(request)
    address = f"{here}/gui/artifacts/{artifact_id}/content?{proof}"
    return json_answer(wire.signed(kept, address))


async def get_artifact_content(request: Request) -> Response:
    """What a flow wrote is never shown as a page of ours."""
    artifact_id, tenant = _signed_for(request)
    kept, pieces = await look.content(desk_of(request), tenant, artifact_id)
    headers = {
        "Content-Length": str(kept.bytes_size),
        "Content-Type": kept.content_type,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(kept.name, safe='')}",
        "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(pieces, headers=headers)


async def check_signed(request: Request) -> None:
    artifact_id, tenant = _signed_for(request)
    await look.check_signature(desk_of(request), tenant, artifact_id, request.query_params.get("token", ""))


def _signed_for(request: Request) -> tuple[int, str]:
    # What is no number was never signed either: which ones there are is not told here.
    artifact_id = params.artifact_id_in(request.path_params["artifact_id"]) or 0
    return artifact_id, request.query_params.get("tenant", DEFAULT_TENANT)


def _artifact_id(request: Request) -> int:
    artifact_id = params.artifact_id_in(request.path_params["artifact_id"])
    if artifact_id is None:
        raise NotFound("There is no such artifact. Its number is a whole one.", err_id="")
    return artifact_id


ROUTES = [
    Endpoint("POST", "/pdca/recheck", recheck, access.ASK, RECHECK),
    Endpoint("POST", "/pdca/recheck_all", recheck_all, access.ASK_ALL, RECHECK_ALL),
    Endpoint("GET", "/pdca/recheck/{request_id}", get_request, access.STATUS),
    Endpoint("GET", "/gui/requests/{request_id}", get_request, access.STATUS),
    Endpoint("GET", "/gui/strategies", list_strategies, access.READ),
    Endpoint("GET", "/gui/strategies/{strategy_id}", get_strategy, access.READ),
    Endpoint("PUT", "/gui/strategies/{strategy_id}", put_strategy, access.CHANGE),
    Endpoint("DELETE", "/gui/strategies/{strategy_id}", delete_strategy, access.CHANGE),
    Endpoint("GET", "/gui/strategies/{strategy_id}/results", get_results, access.READ),
    Endpoint("GET", "/gui/artifacts/{artifact_id}/url", get_artifact_url, access.DOWNLOAD),
    Endpoint("GET", "/gui/artifacts/{artifact_id}/content", get_artifact_content, None, proof=check_signed),
]
