"""The MCP server: which tools there are, what they may change, and how a failure is reported."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, ParamSpec, TypeVar

import httpx
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from pyoco_server.cli.client.connection import Connection
from pyoco_server.cli.client.gateway import RETRY_POLICY, refusal_of
from pyoco_server.cli.entry import CliRefusal
from pyoco_server.cli.mcp.run_tools import FOLLOW_SEC_MAX, RunId, RunTools
from pyoco_server.cli.mcp.shapes import RunShown
from pyoco_server.http_client import AsyncPyocoClient

P = ParamSpec("P")
T = TypeVar("T")

INSTRUCTIONS = (
    "Runs of workflows on a pyoco-server gateway. Start a run with start_run, wait for it with follow_run, "
    "and if it failed or takes long, call why and read_logs. Before cancel_run, approve or reject, ask the "
    "user: these cannot be undone."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
STARTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
DECIDES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)
CANCELS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


async def serve_stdio(chosen: Connection) -> None:
    """Until stdin ends."""
    async with AsyncPyocoClient(
        chosen.server, api_key=chosen.api_key, api_key_header=chosen.api_key_header, retry_policy=RETRY_POLICY
    ) as client:
        await make_server(client, chosen).run_stdio_async()


def make_server(client: AsyncPyocoClient, chosen: Connection) -> MCPServer:
    server = MCPServer("pyoco-server", instructions=INSTRUCTIONS, log_level="WARNING")
    tools = RunTools(client)
    explain = functools.partial(_explained, chosen)
    for read in (
        tools.list_flows,
        tools.list_runs,
        tools.get_run,
        tools.read_logs,
        tools.why,
        tools.list_approvals,
        tools.caller,
    ):
        server.add_tool(explain(read), annotations=READS, structured_output=True)
    server.add_tool(explain(_follow(tools)), annotations=READS, structured_output=True)
    server.add_tool(explain(tools.start_run), annotations=STARTS, structured_output=True)
    server.add_tool(explain(tools.approve), annotations=DECIDES, structured_output=True)
    server.add_tool(explain(tools.reject), annotations=DECIDES, structured_output=True)
    server.add_tool(explain(tools.cancel_run), annotations=CANCELS, structured_output=True)
    return server


def _follow(tools: RunTools) -> Callable[..., Awaitable[RunShown]]:
    async def follow_run(
        run_id: RunId,
        ctx: Context,
        timeout_sec: Annotated[
            float, Field(ge=0, le=FOLLOW_SEC_MAX, description="Seconds to wait at most.")
        ] = 60.0,
    ) -> RunShown:
        return await tools.follow_run(run_id, timeout_sec, on_progress=ctx.report_progress)

    follow_run.__doc__ = tools.follow_run.__doc__
    return follow_run


def _explained(chosen: Connection, tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Failures of the gateway as sentences that say what to do, as the other commands print them."""

    @functools.wraps(tool)
    async def explained(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except CliRefusal as refusal:
            raise ToolError(_sentence(refusal)) from refusal
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolError(_sentence(refusal_of(error, chosen))) from error

    return explained


def _sentence(refusal: CliRefusal) -> str:
    return f"{refusal.message} Try: {refusal.hint}" if refusal.hint else refusal.message
