"""What the broker says is for the log: clients get plain sentences, without its subjects and streams."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.errors import AnswerLost, BrokerRefused
from pyoco_server.store import resources
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import serving
from tests.http_api.test_broker_away import BODIES, asked, routes
from tests.worker.stage import config_on

# `resources` creates these again at once; a walk would meet some of them whole.
FOREIGN = re.compile(
    r"\$JS|\$KV|_INBOX|nats: |err_code|stream not found|no responders|nobody answers on|\b10\d{3}\b"
)
NAMES_ARE_SHOWN = ("/system", "/ready", "/metrics")  # to operators: which streams there are, and how full


@pytest.fixture
async def without_streams(
    own_nats_server: NatsServer,
) -> AsyncIterator[tuple[httpx.AsyncClient, NatsBackendConfig]]:
    """A gateway that is connected, and whose streams are gone."""
    config = config_on(own_nats_server)
    async with serving(config) as client:
        store = await Store.connect(config, name="test")
        try:
            for wanted in resources.streams(config):
                await store.jetstream.api(f"STREAM.DELETE.{wanted['name']}")
            yield client, config
        finally:
            await store.close()


async def test_no_answer_repeats_the_words_of_the_broker(
    without_streams: tuple[httpx.AsyncClient, NatsBackendConfig],
) -> None:
    client, config = without_streams
    own_names = re.compile(re.escape(config.runs_kv_bucket.removesuffix("_runs")), re.IGNORECASE)
    failed = 0
    for method, path in routes():
        if path.endswith(("/stream", "/watch")):
            continue  # these go on; what they refuse is answered by the same tables
        for accept in ("application/json", "application/problem+json"):
            body = BODIES.get(path, {}) if method in ("POST", "PUT", "PATCH") else None
            headers = {
                "Accept": accept,
                "Idempotency-Key": "a-key-of-ours",
                "X-Idempotency-Key": "a-key-of-ours",
            }
            answer = await client.request(method, asked(path), json=body, headers=headers, timeout=30)
            failed += answer.status_code in (502, 503)
            said = f"{method} {path}: {answer.status_code} {answer.text}"
            assert not FOREIGN.search(answer.text), said
            assert path in NAMES_ARE_SHOWN or not own_names.search(answer.text), said
    assert failed > 10


def test_the_log_is_told_more_than_the_client() -> None:
    lost = AnswerLost("$JS.API.STREAM.INFO.PYOCO_WORK")
    refused = BrokerRefused("stream not found", 10059)
    for error, inside in ((lost, "$JS.API.STREAM.INFO.PYOCO_WORK"), (refused, "stream not found")):
        assert inside in error.message
        assert inside not in error.public_message
