"""`pyoco-client mcp` as a process, driven by the official client of the protocol, against a real `up`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from pyoco_server.cli.mcp import command
from tests.cli.conftest import StartUp
from tests.cli.programs import BIN, Programs, Up, clean_environment, wait_for
from tests.conftest import free_port

READING = {
    "list_flows", "list_runs", "get_run", "follow_run", "read_logs", "why", "list_approvals", "caller",
}  # fmt: skip
Connect = Callable[..., AbstractAsyncContextManager[Client]]


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "mcp.md"


@asynccontextmanager
async def connected(url: str, folder: Path, **environment: str) -> AsyncIterator[Client]:
    env = clean_environment(PYOCO_SERVER=url, XDG_CONFIG_HOME=str(folder), **environment)
    command = StdioServerParameters(command=str(BIN / "pyoco-client"), args=["mcp"], env=env)
    async with Client(command) as client:
        yield client


async def call(client: Client, tool: str, **arguments: object) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def refused(client: Client, tool: str, **arguments: object) -> str:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    assert answer.is_error
    [content] = answer.content
    assert isinstance(content, TextContent)
    return content.text


async def test_every_tool_says_what_it_does_and_whether_it_changes_something(
    shared_up: Up, tmp_path: Path
) -> None:
    async with connected(shared_up.url, tmp_path) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "cannot be undone" in (client.instructions or "")
    assert set(tools) == READING | {"start_run", "approve", "reject", "cancel_run"}
    for name, tool in tools.items():
        assert tool.description
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (name in READING)
        assert tool.annotations.open_world_hint is False
    for name in ("approve", "reject", "cancel_run"):
        hints = tools[name].annotations
        assert hints is not None
        assert hints.destructive_hint is True
    starts = tools["start_run"].annotations
    assert starts is not None
    assert starts.destructive_hint is False
    follow = tools["follow_run"].input_schema["properties"]
    assert set(follow) == {"run_id", "timeout_sec"}


async def test_the_page_has_the_configuration_and_every_tool_with_its_hints(
    shared_up: Up, tmp_path: Path
) -> None:
    text = PAGE.read_text()
    [written] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    entry = json.loads(written)["mcpServers"]["pyoco"]
    assert entry["env"] == {"PYOCO_SERVER": "http://127.0.0.1:8000"}
    env = clean_environment(PYOCO_SERVER=shared_up.url, XDG_CONFIG_HOME=str(tmp_path))
    command = StdioServerParameters(command=str(BIN / entry["command"]), args=entry["args"], env=env)
    async with Client(command) as client:
        tools = (await client.list_tools()).tools
    hints = {tool.name: tool.annotations for tool in tools if tool.annotations is not None}
    shown = dict(re.findall(r"^\| `(\w+)` \| .* \| ([a-z, ]+) \|$", text, re.MULTILINE))
    assert shown == {name: _hints_shown(one) for name, one in hints.items()}


def _hints_shown(hints: ToolAnnotations) -> str:
    if hints.read_only_hint:
        return "reads"
    if not hints.destructive_hint:
        return "changes"
    return "destructive, idempotent" if hints.idempotent_hint else "destructive"


async def test_a_run_is_started_followed_and_read(shared_up: Up, tmp_path: Path) -> None:
    async with connected(shared_up.url, tmp_path) as client:
        flows = {flow["name"]: flow for flow in (await call(client, "list_flows"))["flows"]}
        assert flows["hello"]["has_worker"] is True
        assert [param["name"] for param in flows["hello"]["params"]] == ["name"]
        started = await call(client, "start_run", flow="hello", params={"name": "Ann"}, tag="demo")
        ended = await call(client, "follow_run", run_id=started["run_id"])
        assert (ended["status"], ended["is_over"]) == ("COMPLETED", True)
        assert "Ann" in json.dumps(ended["result"])
        logs = await call(client, "read_logs", run_id=started["run_id"])
        assert logs["is_complete"] is True
        assert any("run completed" in line for line in logs["lines"])
        only = await call(client, "read_logs", run_id=started["run_id"], search="run completed")
        assert len(only["lines"]) == 1
        short = await call(client, "get_run", run_id=started["run_id"][:8])
        assert short["run_id"] == started["run_id"]
        listed = await call(client, "list_runs", flow="hello", status="COMPLETED", limit=1)
        assert len(listed["runs"]) == 1
        assert (await call(client, "caller"))["scopes"] == []


async def test_a_failed_run_is_explained(shared_up: Up, tmp_path: Path) -> None:
    async with connected(shared_up.url, tmp_path) as client:
        run_id = (await call(client, "start_run", flow="fails", tag="demo"))["run_id"]
        ended = await call(client, "follow_run", run_id=run_id)
        assert (ended["status"], ended["tasks"]["explode"]) == ("FAILED", "FAILED")
        assert "on purpose" in ended["error"]
        assert "on purpose" in json.dumps(await call(client, "why", run_id=run_id))


async def test_approvals_are_listed_approved_and_rejected(shared_up: Up, tmp_path: Path) -> None:
    async with connected(shared_up.url, tmp_path) as client:
        yes, no = [
            (await call(client, "start_run", flow="release", params={"version": "7"}, tag="demo"))["run_id"]
            for _ in range(2)
        ]

        async def open_runs() -> set[str]:
            return {one["run_id"] for one in (await call(client, "list_approvals"))["approvals"]}

        while not {yes, no} <= await open_runs():
            pass  # each look is a request, and pytest-timeout ends it
        waiting = await call(client, "follow_run", run_id=yes, timeout_sec=0)
        assert (waiting["is_over"], waiting["status"]) == (False, "RUNNING")
        await call(client, "approve", run_id=yes, task="approve", payload={"by": "ann"}, comment="fine")
        await call(client, "reject", run_id=no, task="approve", comment="not today")
        approved = await call(client, "follow_run", run_id=yes)
        rejected = await call(client, "follow_run", run_id=no)
        assert (approved["status"], approved["result"]) == ("COMPLETED", "7 is out")
        assert (rejected["status"], rejected["error"]) == ("FAILED", "not today")
        assert "HTTP 409" in await refused(client, "approve", run_id=no, task="approve")


async def test_a_cancel_ends_the_run_and_a_second_one_changes_nothing(shared_up: Up, tmp_path: Path) -> None:
    async with connected(shared_up.url, tmp_path) as client:
        run_id = (await call(client, "start_run", flow="ticker", tag="demo"))["run_id"]
        assert (await call(client, "cancel_run", run_id=run_id))["status"] in ("CANCELLING", "CANCELLED")
        assert (await call(client, "follow_run", run_id=run_id))["status"] == "CANCELLED"
        assert (await call(client, "cancel_run", run_id=run_id))["status"] == "CANCELLED"


async def test_errors_say_what_is_wrong(shared_up: Up, tmp_path: Path) -> None:
    async with connected(shared_up.url, tmp_path) as client:
        unknown = "00000000-0000-4000-8000-000000000000"
        assert "HTTP 404" in await refused(client, "get_run", run_id=unknown)
        assert "limit" in await refused(client, "list_runs", limit=1000)
        assert "status" in await refused(client, "list_runs", status="SLEEPING")
    async with connected(f"http://127.0.0.1:{free_port()}", tmp_path) as client:
        text = await refused(client, "list_runs")
        assert "No gateway answers" in text
        assert "PYOCO_SERVER" in text


async def test_the_key_of_the_caller_and_its_scopes_apply(
    programs: Programs, start_up: StartUp, tmp_path: Path
) -> None:
    up = start_up(PYOCO_HTTP_AUTH_MODE="api_key")
    made = programs.run(
        "pyoco-server-admin", "api-key", "create", "--tenant", "demo", "--scope", "runs:read",
        "--data-dir", up.data_dir,
    )  # fmt: skip
    assert made.ended() == 0, made.errors
    key = json.loads(made.output)["api_key"]
    wait_for(lambda: httpx.get(f"{up.url}/runs", headers={"X-API-Key": key}).status_code == 200)
    async with connected(up.url, tmp_path) as client:
        assert "HTTP 401" in await refused(client, "list_runs")
    async with connected(up.url, tmp_path, PYOCO_API_KEY=key) as client:
        assert (await call(client, "list_runs"))["runs"] == []
        assert (await call(client, "list_flows"))["flows"] != []
        assert (await call(client, "list_approvals"))["approvals"] == []
        caller = await call(client, "caller")
        assert (caller["tenant"], caller["scopes"]) == ("demo", ["runs:read"])
        text = await refused(client, "start_run", flow="hello", tag="demo")
        assert "HTTP 403" in text
        assert "runs:write" in text
        assert key not in text


def test_without_the_package_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyoco_server.cli.client.main import app
    from pyoco_server.cli.entry import exit_code

    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert exit_code(app, "pyoco-client", ["mcp"]) == 1
    assert "pip install 'pyoco-server[mcp]'" in capsys.readouterr().err
