"""What `up` does before its worker starts: as little as possible, and quietly."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.conftest import StartUp

LOADED = "import sys, pyoco_server.cli.server.up; print(*sys.modules)"


def _loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_gateway_is_not_imported_before_broker_and_worker_are_started() -> None:
    assert not {"pyoco_server.http_api", "starlette", "uvicorn"} & _loaded(LOADED)


def test_a_gateway_without_tokens_imports_no_library_for_them() -> None:
    code = "import sys, pyoco_server.http_api.app, pyoco_server.http_api.gateway; print(*sys.modules)"
    assert not {"jwt", "cryptography", "httpx"} & _loaded(code)


def test_its_own_wait_until_it_is_ready_leaves_no_line_in_the_log(start_up: StartUp) -> None:
    up = start_up(PYOCO_LOG_LEVEL="INFO")
    assert "/ready" not in up.program.output
    assert "Not ready" not in up.program.output
