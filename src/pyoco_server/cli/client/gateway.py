"""The connection of a command to the gateway. Each failure becomes a `CliRefusal` that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from pyoco_server.cli.client.connection import Connection
from pyoco_server.cli.entry import CliRefusal, WrongArguments
from pyoco_server.http_client import PyocoHttpClient, RequestRetryPolicy

UNREACHABLE = "ERR-PYOCO-0001"
START_COMMAND = "pyoco-server up"
# A person waits: that no gateway answers is said at once.
RETRY_POLICY = RequestRetryPolicy(connect=False)
SERVER_EXAMPLE = "pyoco-client --server http://127.0.0.1:8000 list"
# Not with --api-key: other users of the machine can see arguments.
KEY_EXAMPLE = "pyoco-client config set NAME --server URL, or the key in PYOCO_API_KEY"
NEEDS_KEY = (401, 403)
LIST_ROUTE = re.compile(r", or list \w+ with GET /(runs|schedules)\.$")


@contextmanager
def gateway_client(chosen: Connection) -> Iterator[PyocoHttpClient]:
    try:
        with PyocoHttpClient(
            chosen.server,
            api_key=chosen.api_key,
            api_key_header=chosen.api_key_header,
            retry_policy=RETRY_POLICY,
        ) as client:
            yield client
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise refusal_of(error, chosen) from error


def refusal_of(error: httpx.HTTPError | httpx.InvalidURL, chosen: Connection) -> CliRefusal:
    match error:
        case httpx.HTTPStatusError():
            return _refusal(error.response, chosen)
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            message = f"The server {chosen.where} is no address: {error}"
            return WrongArguments(message, hint=SERVER_EXAMPLE)
        case httpx.ConnectError() | httpx.ConnectTimeout():
            message = f"No gateway answers at {chosen.where}. Start one, or name it with --server."
            return CliRefusal(message, hint=START_COMMAND, err_id=UNREACHABLE)
        case _:
            reason = error or type(error).__name__
            message = f"The gateway at {chosen.where} did not answer properly ({reason})."
            return CliRefusal(message, hint="the same command again", err_id=UNREACHABLE)


def _refusal(response: httpx.Response, chosen: Connection) -> CliRefusal:
    try:
        body: object = response.json()
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    sentence, listing = _without_route(_sentence(body))
    message = f"HTTP {response.status_code}: {sentence or response.reason_phrase}"
    is_about_key = response.status_code in NEEDS_KEY
    if is_about_key:
        message += f" The gateway is {chosen.where}. {chosen.key_source}"
    hint = KEY_EXAMPLE if is_about_key else listing
    return CliRefusal(message, hint=hint, err_id=str(body.get("err_id", "")))


def _without_route(sentence: str) -> tuple[str, str]:
    """An answer for programs may name the route of a list. A person gets the command that does the same."""
    found = LIST_ROUTE.search(sentence)
    if found is None:
        return sentence, ""
    return f"{sentence[: found.start()]}.", f"pyoco-client {found[1].removesuffix('s')} list"


def _sentence(body: dict[str, object]) -> str:
    """The message of an error answer, in the format of any face."""
    error = body.get("error")
    if isinstance(error, dict):
        details = error.get("details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return f"{error.get('message', '')} ({reason or error.get('code', '')})"
    detail = body.get("detail")
    if isinstance(detail, list):
        problems = [_problem(one) for one in detail if isinstance(one, dict)]
        return "; ".join([str(body.get("message", "")), *problems]).strip("; ")
    return str(detail or body.get("message") or "")


def _problem(one: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in one.get("loc", ()))
    if "line" in one:
        place += f", line {one['line']}, column {one.get('column')}"
    return f"{place}: {one.get('msg', '')}" if place else str(one.get("msg", ""))
