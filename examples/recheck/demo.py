"""Recheck the whole example catalogue, end to end: `make demo-recheck`.

It starts a broker, a gateway and a worker in a temporary folder, requests a recheck of all strategies twice
with one key, waits for the end, and prints the results. Afterwards it removes the folder.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
READY_WITHIN_SEC = 60.0
DONE_WITHIN_SEC = 120.0
EVERYTHING: dict[str, Any] = {
    "filter": {},
    "batch_size": 10,
    "window": {"lookback_days": 180},
    "reason": "demo",
    "dry_run": False,
}
KEY = "01J8TPZ7YJ1E1X4C5N9ZP3M3QA"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pyoco-recheck-") as folder, server(Path(folder)) as client:
        accepted = ask(client, EVERYTHING)
        again = ask(client, EVERYTHING)
        assert accepted == again, "the same key and body are one request"
        print(f"request {accepted['request_id']}: {accepted['estimated']}")
        over = wait_for_end(client, accepted["request_id"])
        print(f"{over['status']}: {over['summary']}, {len(over['artifacts'])} artifacts\n")
        show(client)
        return 0 if over["status"] == "success" else 1


def ask(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/pdca/recheck_all", json=body, headers={"Idempotency-Key": KEY})
    answer.raise_for_status()
    accepted: dict[str, Any] = answer.json()
    return accepted


def wait_for_end(client: httpx.Client, request_id: str) -> dict[str, Any]:
    give_up_at = time.monotonic() + DONE_WITHIN_SEC
    while time.monotonic() < give_up_at:
        found: dict[str, Any] = client.get(f"/pdca/recheck/{request_id}").raise_for_status().json()
        if found["status"] != "running":
            return found
        time.sleep(0.2)
    raise TimeoutError(f"not over within {DONE_WITHIN_SEC} s")


def show(client: httpx.Client) -> None:
    items = client.get("/gui/strategies", params={"sort": "health.asc", "page_size": 100}).json()["items"]
    print(f"{'strategy':<24} {'health':<10} {'winrate':>8} {'sharpe':>8} {'max_dd':>8}")
    for one in items:
        results = client.get(f"/gui/strategies/{one['id']}/results", params={"limit": 1}).json()["items"]
        metrics = results[0]["metrics"] if results else {}
        numbers = " ".join(_number(metrics.get(name)) for name in ("winrate", "sharpe", "max_dd"))
        print(f"{one['id']:<24} {one['last_health']:<10} {numbers}")
    print(f"\n{len(items)} strategies")


def _number(value: float | None) -> str:
    return f"{'–':>8}" if value is None else f"{value:8.3f}"


@contextmanager
def server(folder: Path) -> Iterator[httpx.Client]:
    port = free_port()
    command = [sys.executable, "-m", "pyoco_server.cli.server.main", "up", "--port", str(port)]
    command += ["--data-dir", str(folder / "data"), "--flow-resolver", f"{HERE / 'flows.py'}:resolve"]
    settings = {"PYOCO_STRATEGIES_FILE": str(HERE / "strategies.yaml"), "PYOCO_LOAD_DOTENV": "0"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                wait_until_ready(client, process, folder / "server.log")
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + READY_WITHIN_SEC
    while time.monotonic() < give_up_at and process.poll() is None:
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
