"""Names that code written for upstream uses: imported and called the way existing code does."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyoco_server
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.models import compact_run_snapshot
from tests.conftest import NatsServer, config_for
from tests.worker.stage import Flows

EXPORTS = (
    "NatsBackendConfig",
    "PyocoHttpClient",
    "PyocoNatsClient",
    "PyocoNatsWorker",
    "ensure_resources",
    "configure_logging",
)
MODULES = {
    "pyoco_server.http_api": ["create_app"],
    "pyoco_server.worker": ["PyocoNatsWorker"],
    "pyoco_server.auth": [
        "generate_api_key",
        "parse_api_key",
        "verify_api_key",
        "ApiKeyRecord",
        "ApiKeyError",
    ],
    "pyoco_server.models": ["compact_run_snapshot"],
    "pyoco_server.workflow_yaml": [
        "parse_workflow_yaml_bytes",
        "extract_flow_defaults",
        "WorkflowYamlValidationError",
    ],
    "pyoco_server.admin_cli": ["main"],
}
CLIENT_METHODS = {
    "submit_run": ["flow_name", "params", "tag"],
    "submit_run_yaml": ["flow_name", "tag"],
    "get_run": ["run_id"],
    "get_run_with_records": ["run_id"],
    "cancel_run": ["run_id", "wait", "timeout_sec"],
    "list_runs": [],
    "list_runs_vnext": [],
    "watch_run": ["run_id"],
    "get_tasks": ["run_id"],
    "get_workers": [],
    "patch_worker_hidden": [],
    "list_wheels": [],
    "list_wheel_history": [],
    "upload_wheel": [],
    "delete_wheel": [],
    "get_metrics": [],
    "result": ["run_id"],
    "close": [],
}
# As the architecture document and the specification show them: positional, in this order.
SIGNATURES: dict[Callable[..., Any], list[str]] = {
    pyoco_server.PyocoNatsWorker.connect: ["config", "flow_resolver", "worker_id", "tags"],
    pyoco_server.PyocoNatsWorker.run_once: ["self", "timeout"],
    pyoco_server.PyocoNatsWorker.close: ["self"],
    pyoco_server.PyocoNatsClient.connect: ["config"],
    pyoco_server.PyocoNatsClient.submit_run: ["self", "flow_name", "params", "tag", "tags"],
    pyoco_server.PyocoNatsClient.get_run: ["self", "run_id"],
    pyoco_server.PyocoNatsClient.close: ["self"],
    pyoco_server.PyocoHttpClient.__init__: ["self", "base_url"],
    pyoco_server.PyocoHttpClient.submit_run: ["self", "flow_name", "params", "tag", "tags"],
    pyoco_server.PyocoHttpClient.submit_run_yaml: ["self", "workflow_yaml", "tag"],
    pyoco_server.PyocoHttpClient.get_run: ["self", "run_id"],
    pyoco_server.PyocoHttpClient.get_run_with_records: ["self", "run_id"],
    pyoco_server.PyocoHttpClient.get_tasks: ["self", "run_id"],
    pyoco_server.PyocoHttpClient.cancel_run: ["self", "run_id", "wait", "timeout_sec"],
    pyoco_server.PyocoHttpClient.patch_worker_hidden: ["self", "worker_id", "hidden"],
    pyoco_server.PyocoHttpClient.delete_wheel: ["self", "wheel_name"],
    pyoco_server.PyocoHttpClient.watch_run: ["self", "run_id"],
    pyoco_server.NatsBackendConfig.from_env: [],
    create_app: [],
    compact_run_snapshot: ["snapshot"],
}
# Arguments that a caller of these may leave out.
OPTIONAL = {"config", "tags", "timeout", "params", "tag"}
SCRIPTS = ("pyoco-server", "pyoco-worker", "pyoco-client", "pyoco-server-admin")


@pytest.mark.parametrize("name", EXPORTS)
def test_the_package_exports_it(name: str) -> None:
    assert callable(getattr(pyoco_server, name))


@pytest.mark.parametrize(("module", "names"), MODULES.items(), ids=MODULES)
def test_the_module_has_it(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize(("method", "takes"), CLIENT_METHODS.items(), ids=CLIENT_METHODS)
def test_the_http_client_has_it(method: str, takes: list[str]) -> None:
    parameters = inspect.signature(getattr(pyoco_server.PyocoHttpClient, method)).parameters
    assert set(takes) <= set(parameters)


@pytest.mark.parametrize(
    ("function", "order"), SIGNATURES.items(), ids=[one.__qualname__ for one in SIGNATURES]
)
def test_arguments_may_be_given_by_position_in_the_documented_order(
    function: Callable[..., Any], order: list[str]
) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    by_position = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert [one.name for one in by_position][: len(order)] == order
    needed = {one.name for one in parameters if one.default is one.empty} - {"self"}
    assert needed.isdisjoint(OPTIONAL)
    documented = {"max_bytes"} | set(order)
    assert needed <= documented


def test_a_worker_without_a_name_is_called_worker() -> None:
    parameters = inspect.signature(pyoco_server.PyocoNatsWorker.connect).parameters
    assert parameters["worker_id"].default == "worker"


async def test_a_run_goes_through_clients_that_are_called_by_position(nats_server: NatsServer) -> None:
    config = config_for(nats_server)
    client = await pyoco_server.PyocoNatsClient.connect(config)
    worker = await pyoco_server.PyocoNatsWorker.connect(config, Flows(), "w1", ["gpu"])
    try:
        run_id = await client.submit_run("noop", {"a": 1}, "gpu", ["gpu", "blue"])
        assert await worker.run_once(5) == run_id
        shown = await client.get_run(run_id)
        assert (shown["status"], shown["params"], shown["tags"]) == ("COMPLETED", {"a": 1}, ["gpu", "blue"])
    finally:
        await worker.close()
        await client.close()


@pytest.mark.parametrize(
    "connect", [pyoco_server.PyocoNatsClient.connect, pyoco_server.PyocoNatsWorker.connect]
)
async def test_without_a_configuration_the_environment_says_where_the_broker_is(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, connect: Callable[..., Any]
) -> None:
    config = config_for(nats_server)
    for name in ("nats_url", "runs_kv_bucket", "work_stream", "work_subject_prefix", "consumer_prefix"):
        monkeypatch.setenv(f"PYOCO_{name.upper()}", getattr(config, name))
    resolver = {"flow_resolver": Flows()} if connect == pyoco_server.PyocoNatsWorker.connect else {}
    async with asyncio.timeout(10):
        connected = await connect(**resolver)
    assert connected._store.config.nats_url == config.nats_url
    await connected.close()


def test_the_http_client_is_made_with_an_address_and_a_key() -> None:
    pyoco_server.PyocoHttpClient("http://127.0.0.1:8000", api_key="k").close()


def test_the_configuration_has_a_field_for_every_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_CONSUMER_ACK_WAIT_SEC", "12.5")
    assert NatsBackendConfig.from_env().consumer_ack_wait_sec == 12.5
    config = NatsBackendConfig()
    assert (config.work_stream, config.consumer_prefix) == ("PYOCO_WORK", "pyoco_workers")
    assert (config.dlq_stream, config.dlq_subject_prefix) == ("PYOCO_DLQ", "pyoco.dlq")


async def test_a_run_goes_through_the_clients_of_upstream(nats_server: NatsServer) -> None:
    config = config_for(nats_server)
    client = await pyoco_server.PyocoNatsClient.connect(config)
    worker = await pyoco_server.PyocoNatsWorker.connect(
        config=config, flow_resolver=Flows(), worker_id="w1", tags=["gpu"]
    )
    try:
        run_id = await client.submit_run("noop", params={"a": 1}, tag="gpu")
        assert await worker.run_once(timeout=5) == run_id
        shown: dict[str, Any] = await client.get_run(run_id)
        assert (shown["status"], shown["params"]) == ("COMPLETED", {"a": 1})
    finally:
        await worker.close()
        await client.close()


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_console_script_is_installed(script: str) -> None:

    assert (Path(sys.executable).parent / script).is_file()
