"""`/metrics`: REQ-0014. The names of the contract, what is behind them, and that looking costs no history."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.engine.building import flow_of, make_task
from tests.http_api.serving import expect_error, serving, submit
from tests.worker.stage import Flows, config_on, working

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def samples(client: httpx.AsyncClient) -> Samples:
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {
        (one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples
    }


async def value(client: httpx.AsyncClient, name: str, **labels: str) -> float | None:
    return (await samples(client)).get((name, frozenset(labels.items())))


def broken() -> None:
    raise ValueError("broken on purpose")


async def test_the_contracts_names_are_there_from_the_beginning(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    for status in ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"):
        assert f'pyoco_runs_total{{status="{status}"}} 0' in lines
        assert f'pyoco_runs_today_total{{status="{status}"}} 0' in lines
    assert "pyoco_workers_alive_total 0" in lines
    assert "pyoco_dlq_messages_total 0" in lines
    assert "# TYPE pyoco_runs_total gauge" in lines
    assert answer.text.endswith("\n")


async def test_runs_are_counted_by_status_as_they_change(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    flows = Flows(broken=lambda: flow_of(make_task("only", broken)))
    for name in ("noop", "noop", "broken"):
        await submit(client, name)
    cancelled = await submit(client, tag="nobody")
    assert 'pyoco_runs_total{status="PENDING"} 4' in (await client.get("/metrics")).text.splitlines()
    await client.post(f"/runs/{cancelled}/cancel")
    async with working(config, flows, worker_id="w1", concurrency=2) as worker:
        assert await value(client, "pyoco_workers_alive_total") == 1
        assert await value(client, "pyoco_worker_slots") == 2
        for _ in range(3):
            assert await worker.run_once(timeout=5)
    now = (await client.get("/metrics")).text.splitlines()
    for line in (
        'pyoco_runs_total{status="PENDING"} 0',
        'pyoco_runs_total{status="COMPLETED"} 2',
        'pyoco_runs_today_total{status="PENDING"} 0',
        'pyoco_runs_today_total{status="COMPLETED"} 2',
        'pyoco_runs{status="FAILED"} 1',
        'pyoco_runs_total{status="CANCELLED"} 1',
        "pyoco_workers_alive_total 0",
        "pyoco_dlq_messages_total 1",
        'pyoco_dead_letters_published_total{reason="execution_error"} 1',
        'pyoco_run_duration_seconds_count{status="COMPLETED"} 2',
        'pyoco_run_duration_seconds_count{status="FAILED"} 1',
        'pyoco_task_duration_seconds_count{state="SUCCEEDED"} 2',
        'pyoco_task_duration_seconds_count{state="FAILED"} 1',
        "pyoco_run_start_delay_seconds_count 3",
        "pyoco_cancel_delay_seconds_count 1",
        'pyoco_events_total{type="RunSubmitted"} 4',
    ):
        assert line in now, line


async def test_queues_are_shown_by_tag_also_where_nobody_works(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with working(config, worker_id="w1", tags=["served"]):
        pass  # its consumer stays
    for tag in ("served", "alone", "alone"):
        await submit(client, tag=tag)
    found = await samples(client)

    def of(name: str, tag: str) -> float:
        return found[name, frozenset({("tag", tag)})]

    assert (of("pyoco_queue_jobs_waiting", "served"), of("pyoco_queue_jobs_waiting", "alone")) == (1, 2)
    assert of("pyoco_queue_jobs_in_work", "served") == 0
    assert 0 <= of("pyoco_queue_oldest_waiting_seconds", "alone") < 60


async def test_a_restart_counts_no_history_and_keeps_the_standing(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    for path in ("", str(tmp_path / "read.sqlite")):
        config = config_on(nats_server, read_model_path=path)
        async with serving(config) as first:
            await submit(first)
            await submit(first)
            assert await value(first, "pyoco_commits_total") == 2
        async with serving(config) as second:
            await submit(second)
            assert await value(second, "pyoco_runs_total", status="PENDING") == 3
            assert await value(second, "pyoco_runs_today_total", status="PENDING") == 3
            assert await value(second, "pyoco_commits_total") == 1


async def test_two_gateways_see_the_same(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    async with serving(config) as other:
        await submit(client)
        for gateway in (client, other):
            assert await value(gateway, "pyoco_runs_total", status="PENDING") == 1
            assert await value(gateway, "pyoco_commits_total") == 1
        holders = [await value(gateway, "pyoco_housekeeper") for gateway in (client, other)]
        assert holders.count(1) <= 1  # the other one watches


async def test_a_gateway_far_behind_answers_and_says_how_far(client: httpx.AsyncClient, store: Store) -> None:
    """A commit of the log that cannot be read still counts as read; numbers are there meanwhile."""
    await submit(client)
    await store.jetstream.publish(f"{store.config.events_subject_prefix}.nobody", b"no commit")
    await until(lambda: _lag_is_none(client))
    assert await value(client, "pyoco_runs_total", status="PENDING") == 1


async def _lag_is_none(client: httpx.AsyncClient) -> bool:
    return await value(client, "pyoco_read_model_lag_commits") == 0


async def test_without_a_broker_there_are_no_metrics(nats_server: NatsServer) -> None:
    async with serving(
        config_on(nats_server, nats_url="nats://127.0.0.1:1", start_wait_sec=0), wait_ready=False
    ) as client:
        expect_error(await client.get("/metrics"), 503, "ERR-PYOCO-0003")


async def test_every_name_is_explained_in_the_document_and_only_those(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE pyoco_")}
    assert set(re.findall(r"^\| `(pyoco_\w+)", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)) == names
