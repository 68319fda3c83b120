"""The command `mcp`. Without the package `mcp` it says how to install it."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from pyoco_server.cli.client.connection import chosen_connection
from pyoco_server.cli.entry import CliRefusal

INSTALL = "pip install 'pyoco-server[mcp]'"


def mcp(ctx: typer.Context) -> None:
    """Serve runs as tools for AI assistants (MCP), over stdin and stdout.

    An assistant starts this command. It uses the address and the key of the other commands, so it may do
    what the scopes of that key allow.
    """
    if find_spec("mcp") is None:
        raise CliRefusal("The package 'mcp' is not installed.", hint=INSTALL)
    import asyncio

    from pyoco_server.cli.mcp.server import serve_stdio

    asyncio.run(serve_stdio(chosen_connection(ctx.obj)))
