"""Answers where the prompt has a schema: a payload that does not match is refused and leaves no trace."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.http_api.faces.executions.driving import Driver, expect_refusal, expect_rejected

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["stage"],
    "additionalProperties": False,
    "properties": {
        "stage": {"enum": ["canary", "all"]},
        "percent": {"type": "integer", "minimum": 1, "maximum": 100},
        "regions": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def waiting(drive: Driver, schema: object = SCHEMA) -> str:
    prompt = {"question": "How?", "answer_schema": schema}
    return await drive.started({"id": "ok", "type": "wait", "prompt": prompt})


async def answered(
    drive: Driver, execution_id: str, payload: object, key: str | None = None
) -> httpx.Response:
    return await drive.on(execution_id, "ok/resume", {"resumeKey": "ok", "payload": payload}, key)


async def test_a_payload_that_does_not_match_names_each_field_and_nothing_is_recorded(drive: Driver) -> None:
    execution_id = await waiting(drive)
    before = await drive.events(execution_id)
    payload = {"percent": 500, "regions": ["eu", 5], "other": 1}
    error = expect_refusal(await answered(drive, execution_id, payload), 422, "INVALID_REQUEST")
    assert error["message"] == (
        "The payload does not match the answer_schema of the prompt: payload.stage is required; "
        "payload.percent must be at most 100; payload.regions[1] must be a string, not an integer; "
        "payload.other is unknown"
    )
    places = [one["loc"] for one in error["details"]["problems"]]
    assert places[2] == ["body", "payload", "regions", 1]
    assert await drive.events(execution_id) == before
    assert (await drive.get(execution_id, "/why"))["refused"] == []
    assert (await drive.statuses(execution_id))[1] == {"ok": "WAITING"}


async def test_the_key_of_a_refused_answer_can_be_used_for_the_right_one(drive: Driver) -> None:
    execution_id = await waiting(drive)
    assert (await answered(drive, execution_id, {"stage": 1}, "k")).status_code == 422
    assert (await answered(drive, execution_id, {"stage": "all"}, "k")).status_code == 202
    assert (await answered(drive, execution_id, {"stage": "all"}, "k")).status_code == 200
    assert (await drive.statuses(execution_id))[1] == {"ok": "SUCCEEDED"}
    # The state is told before the form of the payload.
    expect_rejected(await answered(drive, execution_id, {"stage": 1}), "EXECUTION_TERMINAL")


async def test_an_answer_can_be_left_out_only_if_the_schema_allows_null(drive: Driver) -> None:
    execution_id = await waiting(drive)
    assert (await drive.on(execution_id, "ok/resume", {"resumeKey": "ok"})).status_code == 422
    await drive.ok(execution_id, "ok/resume", resumeKey="ok", decision="reject", comment="no")


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"items": {"enum": list(range(2000))}}, ["x"] * 20_000),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
        ({"allOf": [{"pattern": f"(a|b)*c{n}"} for n in range(300)]}, "ab" * 60_000),
    ],
)
async def test_a_hostile_schema_costs_its_sender_a_refusal_and_the_run_can_be_rejected(
    drive: Driver, schema: object, payload: object
) -> None:
    execution_id = await waiting(drive, schema)
    expect_refusal(await answered(drive, execution_id, payload), 422, "INVALID_REQUEST")
    await drive.ok(execution_id, "ok/resume", resumeKey="ok", decision="reject")
    assert (await drive.statuses(execution_id))[1] == {"ok": "FAILED"}
