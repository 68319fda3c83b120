"""The Restate service."""

from __future__ import annotations

import asyncio

import restate
from restate import Context

from bench.peers.events import END, START, record
from bench.peers.system import NAP_SEC

service = restate.Service("bench")


async def one() -> int:
    return 1


@service.handler()
async def noop(ctx: Context, number: int) -> int:
    return await ctx.run_typed("one", one)


@service.handler()
async def chain(ctx: Context, length: int) -> int:
    return sum([await ctx.run_typed(f"step{number}", one) for number in range(length)])


@service.handler()
async def fan(ctx: Context, width: int) -> int:
    await restate.gather(*(ctx.run_typed(f"step{number}", one) for number in range(width)))
    return width


@service.handler()
async def nap(ctx: Context, number: int) -> int:
    async def sleep() -> None:
        record(START, number)
        await asyncio.sleep(NAP_SEC)
        record(END, number)

    await ctx.run_typed("nap", sleep)
    return number


app = restate.app([service])
