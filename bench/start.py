"""From `pyoco-server up` to the first completed run, as for a new user."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.http_client import Connection
from bench.stack import free_port
from bench.summaries import percentile

TRIES = 5


async def up_to_first_run() -> dict[str, float]:
    taken = [await _once() for _ in range(TRIES)]
    python = _bare_python()
    return {
        "up → first completed run p50 s": percentile(taken, 0.5),
        "up → first completed run worst s": max(taken),
        "bare python with the web framework imported s": python,
        "ratio of p50 to that": percentile(taken, 0.5) / python,
    }


async def _once() -> float:
    folder = Path(tempfile.mkdtemp(prefix="pyoco-bench-"))
    port = free_port()
    server = str(Path(sys.executable).with_name("pyoco-server"))
    command = [server, "up", "--port", str(port), "--data-dir", str(folder)]
    begun = time.perf_counter()
    process = _started(command)
    try:
        await _first_run(port)
        return time.perf_counter() - begun
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    env = os.environ | {"PYOCO_LOAD_DOTENV": "0"}
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _first_run(port: int) -> None:
    while True:
        try:
            connection = await Connection.open("127.0.0.1", port)
            status, accepted = await connection.post("/runs", b'{"flow_name":"hello","tag":"demo"}')
            if status == 200:
                break
            connection.close()
        except OSError:
            pass
        await asyncio.sleep(0.01)
    _, run = await connection.get(f"/runs/{accepted['run_id']}?wait=20")
    assert run["status"] == "COMPLETED", run
    connection.close()


def _bare_python() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import starlette, uvicorn, nats"], check=True)
    return time.perf_counter() - begun
