"""The account for workers of the operations page: enough to execute runs, and not to read API keys."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from nats.aio.client import Client

from pyoco_server.broker.find import find_nats_server
from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import free_port
from tests.engine.building import raising
from tests.keyring import id_of, new_key
from tests.worker.stage import Flows, lawful, one_task, submitted, working

ROOT = Path(__file__).parents[2]
INBOX = "_INBOX_WORKER"
LARGE = "x" * 2_000_000


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A broker with the users that the page shows."""
    [written] = re.findall(
        r"```nats\n(.*?)```", (ROOT / "docs/operations/operations.md").read_text(), re.DOTALL
    )
    users = written.replace("$GATEWAY_PASSWORD", "g").replace("$WORKER_PASSWORD", "w")
    port = free_port()
    conf = tmp_path / "nats.conf"
    conf.write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{tmp_path}" }}\n'
        f'log_file: "{tmp_path / "log"}"\n{users}'
    )
    process = subprocess.Popen([str(find_nats_server()), "-c", str(conf)])
    yield f"nats://127.0.0.1:{port}"
    process.send_signal(signal.SIGTERM)
    process.wait(10)


@pytest.fixture
def gateways(address: str) -> NatsBackendConfig:
    return NatsBackendConfig(
        nats_url=address,
        nats_user="gateway",
        nats_password="g",
        dlq_max_bytes=1_000_000,
        log_max_bytes=8_388_608,
    )


@pytest.fixture
def workers(gateways: NatsBackendConfig) -> NatsBackendConfig:
    return replace(gateways, nats_user="worker", nats_password="w", nats_inbox_prefix=INBOX)


@pytest.fixture
async def store(gateways: NatsBackendConfig) -> AsyncIterator[Store]:
    store = await Store.connect(gateways, name="gateway")
    yield store
    await store.close()


async def test_a_worker_with_this_account_executes_runs(
    store: Store, workers: NatsBackendConfig, tmp_path: Path
) -> None:
    flows = Flows(large=one_task(lambda: LARGE), broken=one_task(raising(ValueError("no"))))
    ended = {"noop": "COMPLETED", "large": "COMPLETED", "broken": "FAILED"}
    async with working(workers, flows, worker_id="w1") as worker:
        for flow, status in ended.items():
            run_id = await submitted(store, flow)
            assert await worker.run_once(timeout=10) == run_id
            assert (await lawful(store, run_id)).status == status
    [letter] = [kept async for kept in store.dead_letters.newest_first(None)]
    assert letter.letter.reason == "execution_error"
    assert await store.registry.get("w1") is not None
    assert "Violation" not in (tmp_path / "log").read_text()


@pytest.fixture
async def worker_client(store: Store, workers: NatsBackendConfig) -> AsyncIterator[Client]:
    async def ignore(_: Exception) -> None:
        """Refusals also arrive here."""

    client = await nats.connect(
        workers.nats_url, user="worker", password="w", inbox_prefix=INBOX, error_cb=ignore
    )
    yield client
    await client.close()


def _asked(stream: str, key: str) -> dict[str, Any]:
    last = {"last_by_subj": f"$KV.pyoco_auth.{key}"}
    reading = {"stream_name": stream, "config": {"deliver_subject": f"{INBOX}.x", "ack_policy": "none"}}
    copy = {"name": "copied", "mirror": {"name": stream}}
    return {
        f"$JS.API.STREAM.MSG.GET.{stream}": last,
        f"$JS.API.DIRECT.GET.{stream}": last,
        f"$JS.API.DIRECT.GET.{stream}.$KV.pyoco_auth.{key}": None,
        f"$JS.API.CONSUMER.CREATE.{stream}": reading,
        f"$JS.API.CONSUMER.CREATE.{stream}.one": reading,
        f"$JS.API.CONSUMER.CREATE.{stream}.one.$KV.pyoco_auth.>": reading,
        f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.one": reading,
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.one": None,
        f"$JS.API.STREAM.CREATE.{copy['name']}": copy,
        f"$JS.API.STREAM.SNAPSHOT.{stream}": {"deliver_subject": f"{INBOX}.y"},
        f"$JS.API.STREAM.DELETE.{stream}": None,
        f"$JS.API.STREAM.PURGE.{stream}": None,
        f"$KV.pyoco_auth.{key}": {"key_id": key},
    }


async def test_it_cannot_read_or_write_keys_by_any_request(store: Store, worker_client: Client) -> None:
    key = await new_key(store)
    stored = f"api_keys.{id_of(key)}"
    for subject, body in _asked("KV_pyoco_auth", stored).items():
        payload = b"" if body is None else msgspec.json.encode(body)
        with pytest.raises(nats.errors.TimeoutError):  # a refused request has no answer
            await worker_client.request(subject, payload, timeout=0.3)
    assert await store.keys.get(id_of(key)) is not None


async def test_it_cannot_overhear_what_is_meant_for_others(store: Store, worker_client: Client) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    for subject in (">", "_INBOX.>", "$KV.pyoco_auth.>", "$JS.API.>", f"{INBOX}.mine"):
        await worker_client.subscribe(subject, cb=hear)
    await new_key(store)
    await worker_client.publish("pyoco.anything", b"", reply=f"{INBOX}.x")
    await worker_client.flush()
    mine = await nats.connect(store.config.nats_url, user="gateway", password="g")
    await mine.publish(f"{INBOX}.mine", b"")
    await mine.flush()
    await worker_client.flush()
    assert heard == [f"{INBOX}.mine"]
    await mine.close()
