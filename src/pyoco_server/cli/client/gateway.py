"""The connection of a command to the gateway. Each failure becomes a `CliRefusal` that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from pyoco_server.cli.entry import CliRefusal, WrongArguments
from pyoco_server.http_client import PyocoHttpClient, RequestRetryPolicy

UNREACHABLE = "ERR-PYOCO-0001"
START_COMMAND = "pyoco-server up"
# A person waits: that no gateway answers is said at once.
RETRY_POLICY = RequestRetryPolicy(connect=False)
SERVER_EXAMPLE = "pyoco-client --server http://127.0.0.1:8000 list"


@contextmanager
def gateway_client(server: str, api_key: str | None, api_key_header: str) -> Iterator[PyocoHttpClient]:
    try:
        with PyocoHttpClient(
            server, api_key=api_key, api_key_header=api_key_header, retry_policy=RETRY_POLICY
        ) as client:
            yield client
    except httpx.HTTPStatusError as error:
        raise _refusal(error.response) from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise WrongArguments(f"--server {server!r} is no address ({error}).", hint=SERVER_EXAMPLE) from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        message = f"No gateway answers at {server}. Start one, or name it with --server."
        raise CliRefusal(message, hint=START_COMMAND, err_id=UNREACHABLE) from error
    except httpx.TransportError as error:
        message = f"The gateway at {server} did not answer properly ({error or type(error).__name__})."
        raise CliRefusal(message, hint="the same command again", err_id=UNREACHABLE) from error


def _refusal(response: httpx.Response) -> CliRefusal:
    try:
        body: Any = response.json()
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    sentence = _sentence(body) or response.reason_phrase
    hint = "pyoco-client --api-key KEY …" if response.status_code in (401, 403) else ""
    return CliRefusal(
        f"HTTP {response.status_code}: {sentence}", hint=hint, err_id=str(body.get("err_id", ""))
    )


def _sentence(body: dict[str, Any]) -> str:
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
