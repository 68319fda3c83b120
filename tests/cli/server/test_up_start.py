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


def test_programs_do_not_import_structlog_and_rich_to_write_their_log() -> None:
    code = "import sys, pyoco_server.cli.worker.main, pyoco_server.cli.server.up; print(*sys.modules)"
    assert not {"structlog", "rich.console", "pydantic_settings"} & _loaded(code)


def test_the_process_that_slots_are_forked_from_imports_no_settings() -> None:
    code = "import sys, pyoco_server.worker.slots.zygote; print(*sys.modules)"
    assert not {"pyoco_server.config", "pydantic", "nats", "pyoco_server.store"} & _loaded(code)


def test_its_own_wait_until_it_is_ready_leaves_no_line_in_the_log(start_up: StartUp) -> None:
    up = start_up(PYOCO_LOG_LEVEL="INFO")
    assert "/ready" not in up.program.output
    assert "Not ready" not in up.program.output
