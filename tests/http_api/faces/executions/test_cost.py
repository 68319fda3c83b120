"""What a command costs the broker: its key, its commit, its answer. Nothing is read; a snapshot follows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.http_api.faces.executions.driving import Driver, expect_rejected
from tests.http_api.live import Live, live


class Heard:
    """Every request to the broker, by what it is about."""

    def __init__(self, stage: Live, monkeypatch: pytest.MonkeyPatch) -> None:
        self._config = stage.gateway.config
        self.subjects: list[str] = []
        client = stage.gateway.store.client
        send = client.send

        def recorded(subject: str, *args: Any, **named: Any) -> None:
            self.subjects.append(subject)
            send(subject, *args, **named)

        monkeypatch.setattr(client, "send", recorded)

    def counted(self) -> Counter[str]:
        heard, self.subjects = self.subjects, []
        return Counter(map(self._kind, heard))

    def _kind(self, subject: str) -> str:
        kinds = {
            f"$KV.{self._config.idempotency_kv_bucket}": "ledger",
            f"$KV.{self._config.runs_kv_bucket}": "snapshot",
            self._config.events_subject_prefix: "append",
            "$JS.API": "read",
        }
        return next((kind for prefix, kind in kinds.items() if subject.startswith(prefix)), "other")


async def test_a_command_on_a_run_at_hand_is_one_append_and_two_notes_in_the_ledger(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(config) as stage:
        drive = Driver(stage.client)
        execution_id = await drive.started("a")
        await drive.take(execution_id, "a")
        heard = Heard(stage, monkeypatch)
        for number in range(20):
            await drive.ok(execution_id, "a/progress", progress=number)
        counted = heard.counted()
        assert (counted["append"], counted["ledger"]) == (20, 40)
        assert counted["snapshot"] <= 20
        reads = counted["read"] + counted["other"]
        assert reads <= 10, f"housekeeping may look for itself meanwhile, but no command reads: {counted}"


async def test_what_another_gateway_did_is_found_out_and_costs_one_more_try(
    config: NatsBackendConfig,
) -> None:
    async with live(config) as here, live(config) as there:
        ours, theirs = Driver(here.client), Driver(there.client)
        execution_id = await ours.started("a", "b")
        await theirs.take(execution_id, "a")
        held = here.gateway.commands.runs.get(execution_id)
        assert held is not None
        assert held.run.tasks["a"].state == "READY", "this gateway has not heard of it yet"
        await ours.ok(execution_id, "a/progress", progress=5)
        await theirs.ok(execution_id, "a/success")
        expect_rejected(await ours.on(execution_id, "a/fail", {"error": {"code": "E"}}), "NODE_STATUS")
        await theirs.ok(execution_id, "cancel")
        late = await ours.on(execution_id, "b/start", {"attempt": 1, "workerId": "w"})
        expect_rejected(late, "EXECUTION_TERMINAL", status="CANCELED")
        assert await ours.get(execution_id) == await theirs.get(execution_id)
