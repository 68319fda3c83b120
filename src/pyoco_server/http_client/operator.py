"""Calls for operators: flows, metrics, the caller, wheels and dead letters."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import httpx

from pyoco_server.http_client.calls import given, path_of
from pyoco_server.http_client.script import ApiRequest, NextChunk, Open, Script, ask, send

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import (
        CallerAnswer,
        DeadLetterAnswer,
        DeadLetterPageAnswer,
        DeletedWheelAnswer,
        DismissAnswer,
        FlowAnswer,
        RedrivenAnswer,
        WheelAnswer,
        WheelChangeAnswer,
    )

# The gateway checks and stores an upload before it answers.
UPLOAD_TIMEOUT_SEC = 600.0


def list_flows() -> Script[list[FlowAnswer]]:
    """The flows that workers announce or that had runs, and how their runs went."""
    return ask(ApiRequest("GET", "/flows"))


def get_caller() -> Script[CallerAnswer]:
    """Who the gateway takes this client for: tenant, principal and scopes."""
    return ask(ApiRequest("GET", "/caller"))


def get_metrics() -> Script[str]:
    """The metrics in Prometheus' text format."""
    response = yield from send(ApiRequest("GET", "/metrics"))
    return response.raise_for_status().text


def list_wheels() -> Script[list[WheelAnswer]]:
    """The wheels that workers install."""
    return ask(ApiRequest("GET", "/wheels"))


def list_wheel_history(
    *, limit: int | None = None, wheel_name: str | None = None, action: str | None = None
) -> Script[list[WheelChangeAnswer]]:
    """Uploads and deletions, with their callers and addresses; the latest first."""
    query = given(limit=limit, wheel_name=wheel_name, action=action)
    return ask(ApiRequest("GET", "/wheels/history", query))


def upload_wheel(
    *, filename: str, data: bytes | BinaryIO, replace: bool = True, tags: list[str] | None = None
) -> Script[WheelAnswer]:
    """Store a wheel for the workers. `data` may be an open file, which is sent in chunks."""
    form = {"replace": "true" if replace else "false"}
    form |= {"tags": ",".join(tags)} if tags else {}
    files = {"wheel": (filename, data, "application/octet-stream")}
    request = ApiRequest(
        "POST", "/wheels", form=form, files=files, timeout_sec=UPLOAD_TIMEOUT_SEC, repeatable=False
    )
    return ask(request)


def download_wheel(wheel_name: str, to: str | PathLike[str]) -> Script[None]:
    """Write the wheel into the file `to`, in chunks."""
    response: httpx.Response = yield Open(ApiRequest("GET", path_of("wheels", wheel_name)))
    response.raise_for_status()
    with Path(to).open("wb") as file:
        while (chunk := (yield NextChunk())) is not None:
            file.write(chunk)


def delete_wheel(wheel_name: str) -> Script[DeletedWheelAnswer]:
    """Remove the wheel, also from the workers that have it."""
    return ask(ApiRequest("DELETE", path_of("wheels", wheel_name), repeatable=False))


def list_dead_letters(
    *,
    limit: int | None = None,
    reason: str | None = None,
    kind: str | None = None,
    include_dismissed: bool | None = None,
    cursor: str | None = None,
) -> Script[DeadLetterPageAnswer]:
    """`{"items", "next_cursor"}`, the newest first. `kind`: `delivery` or `execution`."""
    query = given(limit=limit, reason=reason, kind=kind, include_dismissed=include_dismissed, cursor=cursor)
    return ask(ApiRequest("GET", "/dlq", query))


def get_dead_letter(letter_id: str) -> Script[DeadLetterAnswer]:
    """One dead letter, with its payload."""
    return ask(ApiRequest("GET", path_of("dlq", letter_id)))


def redrive_dead_letter(letter_id: str, *, again: bool = False) -> Script[RedrivenAnswer]:
    """`{"letter_id", "run_id", "status"}` of a new run; `again`: also if it was redriven."""
    path = path_of("dlq", letter_id, "redrive")
    return ask(ApiRequest("POST", path, json={"again": again}, repeatable=False))


def dismiss_dead_letter(letter_id: str, note: str | None = None) -> Script[DismissAnswer]:
    """Leave the letter out of lists: `{"letter_id", "dismissed": {"at", "by", "note"}}`.

    The first dismissal counts: a repetition changes nothing and returns it.
    """
    return ask(ApiRequest("POST", path_of("dlq", letter_id, "dismiss"), json=given(note=note)))
