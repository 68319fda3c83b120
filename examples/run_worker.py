"""A worker in your own program: it resolves flows by name and executes them in threads of this process.

    python examples/run_worker.py [tag ...]

It connects to the broker at `PYOCO_NATS_URL` (default: nats://127.0.0.1:4222) and serves the given tags
(default: `default`). On Ctrl-C or SIGTERM it finishes the runs that it has begun, and ends.
"""

import asyncio
import signal
import sys

from pyoco import Flow, task

from pyoco_server import NatsBackendConfig, PyocoNatsWorker, configure_logging


def greeting() -> Flow:
    """Build a new flow for every run: pyoco stores the edges of a flow in its task objects."""

    @task
    def choose(name: str = "world") -> str:
        return name.title()

    @task
    def greet(choose: str) -> str:
        return f"Hello, {choose}!"

    flow: Flow = Flow("greeting") >> choose >> greet
    return flow


FLOWS = {"greeting": greeting}


def resolve(flow_name: str) -> Flow:
    """Return the flow of this name. A KeyError ends the run FAILED, with the dead letter `flow_not_found`."""
    return FLOWS[flow_name]()


async def main(tags: list[str]) -> None:
    configure_logging(service="pyoco-server:worker")
    config = NatsBackendConfig.from_env()
    worker = await PyocoNatsWorker.connect(config, resolve, "example", tags or None)
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, worker.stop)
    try:
        await worker.serve()
    finally:
        await worker.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
