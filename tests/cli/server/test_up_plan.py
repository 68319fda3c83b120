"""What `up` starts, decided from flags and environment."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli.entry import CliRefusal, WrongArguments
from pyoco_server.cli.server.listening import Listening, check_reach
from pyoco_server.cli.server.up_plan import UpPlan, WorkerWishes, plan_up
from pyoco_server.cli.server.up_screen import as_typed, facts, next_command
from pyoco_server.cli.server.worker_process import command_for
from pyoco_server.config import NatsBackendConfig, environment_with

NOTHING = WorkerWishes(None, None, None, None)
URL = "nats://broker:4222"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NATS_URL", "LOG_LEVEL", "LOG_FORMAT", "DATA_DIR"):
        monkeypatch.delenv(f"PYOCO_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def plan(wishes: WorkerWishes = NOTHING, *, embedded: bool = False, **flags: Any) -> UpPlan:
    return plan_up(flags, wishes, embedded=embedded)


def test_without_a_broker_address_everything_is_started(tmp_path: Path) -> None:
    everything = plan()
    assert everything.embedded
    assert everything.worker is not None
    assert (everything.worker.tags, everything.worker.flow_resolver) == (("demo",), None)
    assert everything.config.read_model_path == str(tmp_path / ".pyoco/data/read_model.sqlite")


@pytest.mark.parametrize("by", ["flag", "environment", "file"])
def test_with_a_broker_address_it_is_the_gateway_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    if by == "environment":
        monkeypatch.setenv("PYOCO_NATS_URL", URL)
    if by == "file":
        (tmp_path / ".env").write_text(f"PYOCO_NATS_URL={URL}\n")
    alone = plan(nats_url=URL if by == "flag" else None)
    assert (alone.embedded, alone.worker, alone.config.nats_url) == (False, None, URL)
    assert alone.config.read_model_path == ""


def test_with_worker_adds_one_to_a_gateway_and_no_worker_takes_it_from_all() -> None:
    assert plan(WorkerWishes(True, None, None, None), nats_url=URL).worker is not None
    assert plan(WorkerWishes(False, None, None, None)).worker is None


def test_nats_bootstrap_means_the_embedded_broker_at_the_address_named() -> None:
    named = plan(embedded=True, nats_url="nats://127.0.0.1:4333")
    assert (named.embedded, named.broker_port, named.broker_port_is_fixed) == (True, 4333, True)
    assert not plan(embedded=True).broker_port_is_fixed


def test_tags_need_a_resolver_for_demo_flows_never_take_a_users_run() -> None:
    demo = plan(WorkerWishes(None, ["gpu"], None, None))
    assert demo.worker is not None
    assert (demo.worker.tags, demo.ignored_tags) == (("demo",), ("gpu",))
    own = plan(WorkerWishes(None, ["gpu,default"], "my_flows:resolve", None))
    assert own.worker is not None
    assert (own.worker.tags, own.ignored_tags) == (("default", "gpu"), ())


class _Bound(socket.socket):
    """A socket that says where it is bound; it is not."""

    def __init__(self, *name: Any) -> None:
        super().__init__()
        self._name = name

    def getsockname(self) -> Any:
        return self._name


@pytest.mark.parametrize(
    ("host", "name", "bound", "url"),
    [
        ("127.0.0.1", ("127.0.0.1", 41234), "127.0.0.1:41234", "http://127.0.0.1:41234"),
        (
            "0.0.0.0",
            ("0.0.0.0", 8000),
            "0.0.0.0:8000 (every address of this machine)",
            "http://127.0.0.1:8000",
        ),
        ("::", ("::", 8000, 0, 0), "[::]:8000 (every address of this machine)", "http://[::1]:8000"),
        ("localhost", ("127.0.0.1", 8000), "127.0.0.1:8000", "http://localhost:8000"),
    ],
)
def test_the_screen_says_where_the_gateway_really_listens(
    host: str, name: tuple[Any, ...], bound: str, url: str
) -> None:
    with _Bound(*name) as sock:
        shown = dict(facts(plan(), Listening(sock, host)))
    assert (shown["Listening"], shown["API"]) == (bound, url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.3.3.3", "no-such.invalid"])
def test_loopback_needs_no_authentication(host: str) -> None:
    check_reach(NatsBackendConfig(http_host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "192.0.2.7", "2001:db8::7"])
def test_more_than_loopback_needs_authentication_or_leave(host: str) -> None:
    with pytest.raises(CliRefusal, match="--allow-unauthenticated"):
        check_reach(NatsBackendConfig(http_host=host))
    check_reach(NatsBackendConfig(http_host=host, allow_unauthenticated=True))
    check_reach(NatsBackendConfig(http_host=host, http_auth_mode="api_key"))
    assert plan(http_host=host, allow_unauthenticated=True).config.allow_unauthenticated


def test_a_terminal_is_calm_unless_settings_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    calm = plan().config
    assert (calm.log_level, calm.log_format) == ("WARNING", "text")
    asked = plan(log_level="INFO").config
    assert (asked.log_level, asked.log_format) == ("INFO", "text")
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "json")
    assert plan().config.log_format == "json"


def test_the_worker_gets_what_the_flags_changed_by_environment() -> None:
    changed = plan(worker_concurrency=3, data_dir="elsewhere")
    assert changed.worker is not None
    environment = environment_with(changed.changed)
    assert environment["PYOCO_WORKER_CONCURRENCY"] == "3"
    assert environment["PYOCO_DATA_DIR"] == str(Path("elsewhere").resolve())
    command = command_for(changed.worker)
    assert not [word for word in command if "PYOCO_" in word]
    assert command[-1] == "--demo"


def test_a_worker_id_that_cannot_be_a_key_is_refused_before_anything_starts() -> None:
    with pytest.raises(WrongArguments):
        plan(WorkerWishes(None, None, None, "host:123"))


def test_the_command_to_try_names_the_server_only_where_it_must() -> None:
    command = "submit hello --tag demo --param name=you"
    assert next_command(plan(), "http://127.0.0.1:8000") == f"pyoco-client {command}"
    assert (
        next_command(plan(), "http://127.0.0.1:9000")
        == f"pyoco-client --server http://127.0.0.1:9000 {command}"
    )


def test_the_command_to_try_can_be_typed_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "pyoco-client").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert as_typed("pyoco-client list") == ".venv/bin/pyoco-client list"
    monkeypatch.setenv("PATH", str(folder))
    assert as_typed("pyoco-client list") == "pyoco-client list"


def test_without_a_worker_the_screen_names_the_command_that_starts_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYOCO_HTTP_AUTH_MODE", "api_key")  # then the command to try makes a key
    with _Bound("127.0.0.1", 8000) as sock:
        shown = dict(facts(plan(nats_url="nats://127.0.0.1:4999"), Listening(sock, "127.0.0.1")))
    command = "pyoco-worker --nats-url nats://127.0.0.1:4999 --flow-resolver my_flows.py:resolve"
    assert command in shown["Worker"]


def test_where_only_tokens_count_no_key_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_JWT_JWKS", "jwks.json")
    monkeypatch.setenv("PYOCO_HTTP_AUTH_MODE", "jwt")
    suggested = next_command(plan(), "http://127.0.0.1:8000")
    assert suggested == "curl -H 'Authorization: Bearer TOKEN' http://127.0.0.1:8000/runs"
    monkeypatch.setenv("PYOCO_HTTP_AUTH_MODE", "api_key,jwt")
    assert next_command(plan(), "http://127.0.0.1:8000").startswith("pyoco-server-admin api-key create")
