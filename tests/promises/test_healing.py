"""What is only a copy may be lost: it comes back by itself, from the log."""

from __future__ import annotations

from pathlib import Path

import httpx

from pyoco_server.jetstream.kv import Bucket
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.store.runs.codec import encode_snapshot
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until
from tests.promises.stack import Gateway, processes


async def test_a_deleted_and_a_stale_snapshot_and_a_wiped_read_model_heal(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    file = tmp_path / "read_model.sqlite"
    config = config_for(nats_server, read_model_path=str(file))
    store = await Store.connect(config, name="test")
    bucket = Bucket(store.jetstream, config.runs_kv_bucket)
    with processes(config, tmp_path) as started:
        gateway = started.gateway()
        started.worker("w1")
        await gateway.ready()
        run_ids = [await _completed(gateway) for _ in range(3)]
        whole = await bucket.get(run_ids[0])

        first = await _first_snapshot(store, run_ids[1])
        await bucket.delete(run_ids[0], revision=whole.revision)
        await bucket.put(run_ids[1], first, revision=(await bucket.get(run_ids[1])).revision)
        for run_id in run_ids:
            assert await _status(gateway, run_id) == "COMPLETED"
        await until(lambda: _is_healed_by_a_look(gateway, bucket, run_ids[0]))
        await until(lambda: _is_healed_by_a_look(gateway, bucket, run_ids[1]))
        assert (await bucket.get(run_ids[0])).value == whole.value

        gateway.kill()
        _wipe(file)
        gateway.start()
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url) as client:
            listed = (await client.get("/runs", params={"status": "COMPLETED"})).json()
        assert {run["run_id"] for run in listed} == set(run_ids)
    await store.close()


def _wipe(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)


async def _completed(gateway: Gateway) -> str:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        run_id: str = (await client.post("/runs", json={"flow_name": "steps"})).json()["run_id"]
        run = (await client.get(f"/runs/{run_id}", params={"wait": 30})).json()
    assert run["status"] == "COMPLETED"
    return run_id


async def _status(gateway: Gateway, run_id: str) -> str:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        return str((await client.get(f"/runs/{run_id}")).json()["status"])


async def _first_snapshot(store: Store, run_id: str) -> bytes:
    """As it was when the run had just been submitted."""
    submission = await store.runs.submission(run_id)
    assert submission is not None
    run = fold(None, (submission,))
    assert run is not None
    return encode_snapshot(snapshot_of(run, max_bytes=store.config.max_run_snapshot_bytes, commits=1))


async def _is_healed_by_a_look(gateway: Gateway, bucket: Bucket, run_id: str) -> bool:
    """Whoever looks within two seconds of the last commit leaves it to the one who committed."""
    assert await _status(gateway, run_id) == "COMPLETED"
    value = (await bucket.get(run_id)).value
    return value is not None and b'"status":"COMPLETED"' in value
