"""`python -m bench.simulated_workers <url> <count>`: workers that only live, until SIGTERM.

Each has a connection to the broker and the heartbeat of a real worker: a lease and a registry entry. None
takes jobs.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.claim import Claimant
from pyoco_server.worker.presence.heartbeat import Heartbeat

TAG = "simulated"
AT_ONCE = 20


async def main(url: str, count: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def start(number: int) -> Heartbeat:
        async with gate:
            store = await Store.connect(NatsBackendConfig(nats_url=url), name=f"simulated-{number}")
            claimant = Claimant(f"simulated-{number}", f"simulated-{number}.1")
            heartbeat = Heartbeat(store, claimant, [TAG], 1, set())
            await heartbeat.start()
            return heartbeat

    alive = await asyncio.gather(*map(start, range(count)))
    assert len(alive) == count
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
