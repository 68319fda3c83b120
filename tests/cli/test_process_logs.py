"""What our processes write of errors (REQ-0013), read from their own stdout and stderr."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.cli.conftest import StartUp
from tests.cli.programs import Program, Programs, Up, wait_for
from tests.conftest import NatsServer, free_port

REQUIRED = {"ts", "service", "level", "logger", "message", "pathname", "lineno", "func"}


def lines_of(program: Program) -> list[dict[str, Any]]:
    """The lines of the log; what `up` says to people stands between them."""
    whole = [line for line in program.output.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in whole if line.endswith("}")]


def lines_about(program: Program, request_id: str) -> list[dict[str, Any]]:
    return [line for line in lines_of(program) if line.get("x_request_id") == request_id]


def line_of(program: Program, answer: httpx.Response) -> dict[str, Any]:
    """The one line of a refusal, once a later request's line shows that no other follows."""
    request_id = answer.headers["x-request-id"]
    wait_for(lambda: lines_about(program, request_id), f"the line of {answer.request.url}")
    after = httpx.get(str(answer.url.join("/this-is-not-there"))).headers["x-request-id"]
    wait_for(lambda: lines_about(program, after), "a later line")
    (line,) = [one for one in lines_about(program, request_id) if "err_id" in one]
    assert line.keys() >= REQUIRED
    assert line["service"] == "pyoco-server:http"
    assert line["http_status"] == answer.status_code
    return line


@pytest.fixture(scope="module")
def uvicorn(shared_programs: Programs, module_broker: NatsServer) -> tuple[Program, str]:
    return start_uvicorn(shared_programs, module_broker.url)


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("broker"), free_port())
    server.start()
    yield server
    server.stop()


def start_uvicorn(programs: Programs, broker_url: str, **settings: str) -> tuple[Program, str]:
    port = free_port()
    arguments = ("pyoco_server.http_api:create_app", "--factory", "--port", port)
    program = programs.start("uvicorn", *arguments, PYOCO_NATS_URL=broker_url, **settings)
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: _is_ready(url), "a gateway that is ready")
    return program, url


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(params=["up", "uvicorn"])
def gateway(request: pytest.FixtureRequest) -> tuple[Program, str]:
    if request.param == "up":
        up: Up = request.getfixturevalue("shared_up")
        return up.program, up.url
    started: tuple[Program, str] = request.getfixturevalue("uvicorn")
    return started


REFUSED = [
    ("GET", "/runs/6f1c1f0e-0000-4000-8000-000000000000", None, 404, "ERR-PYOCO-0005", "/runs/{run_id}"),
    ("POST", "/runs", {"flow_name": ""}, 422, "ERR-PYOCO-0002", "/runs"),
    ("GET", "/runs?cursor=made-up", None, 422, "ERR-PYOCO-0017", "/runs"),
    ("GET", "/workers?scope=some", None, 422, "ERR-PYOCO-0019", "/workers"),
    ("GET", "/wheels/none-1.0-py3-none-any.whl", None, 404, "ERR-PYOCO-0023", "/wheels/{wheel_name}"),
    ("GET", "/jobs/6f1c1f0e-0000-4000-8000-000000000000", None, 404, "ERR-PYOCO-0005", "/jobs/{job_id}"),
    ("POST", "/executions", {}, 422, "ERR-PYOCO-0002", "/executions"),
    ("POST", "/pdca/recheck", {}, 400, "ERR-PYOCO-0002", "/pdca/recheck"),
    ("GET", "/nothing/here", None, 404, None, None),
    ("DELETE", "/health", None, 405, None, None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "err_id", "route"), REFUSED)
def test_every_refused_answer_leaves_one_line_with_its_error_and_place(
    gateway: tuple[Program, str],
    method: str,
    path: str,
    body: Any,
    status: int,
    err_id: str | None,
    route: str | None,
) -> None:
    program, url = gateway
    answer = httpx.request(method, url + path, json=body)
    assert answer.status_code == status, answer.text
    line = line_of(program, answer)
    assert (line["err_id"], line["method"], line["level"]) == (err_id, method, "INFO")
    assert line["path"] == path.partition("?")[0]
    assert line.get("route") == route or route is None
    assert line["msg_id"] == (err_id and err_id.replace("ERR", "MSG"))
    assert line["exc_type"]
    assert line["exc_message"]


def test_a_refused_socket_leaves_one_line(gateway: tuple[Program, str]) -> None:
    program, url = gateway
    address = url.replace("http", "ws") + "/jobs/6f1c1f0e-0000-4000-8000-000000000000/ws?ticket=tick-secret"
    with pytest.raises(InvalidStatus) as refused, connect(address):
        pass
    request_id = refused.value.response.headers["x-request-id"]
    wait_for(lambda: lines_about(program, request_id), "the line of the socket")
    (line,) = [one for one in lines_about(program, request_id) if "err_id" in one]
    assert (line["err_id"], line["method"], line["http_status"]) == ("ERR-PYOCO-0005", "WEBSOCKET", 404)
    assert "tick-secret" not in program.output + program.errors


BEFORE_ANY_ROUTE = [
    (b"\x16\x03\x01 this is no HTTP\r\n\r\n", 400, "ERR-PYOCO-0002"),
    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, None),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431, None),
]


@pytest.mark.parametrize(("sent", "status", "err_id"), BEFORE_ANY_ROUTE)
def test_what_is_refused_before_any_route_leaves_one_line(
    gateway: tuple[Program, str], sent: bytes, status: int, err_id: str | None
) -> None:
    program, url = gateway
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), timeout=10) as link:
        link.sendall(sent)
        assert link.recv(100).startswith(f"HTTP/1.1 {status} ".encode())

    def said() -> list[dict[str, Any]]:
        """Of this kind alone: lines of requests have a method, and other tests of this process made some."""
        return [one for one in lines_of(program) if one.get("http_status") == status and "method" not in one]

    wait_for(said, "a line")
    (line,) = said()
    assert line.keys() >= REQUIRED
    assert (line["err_id"], line["service"]) == (err_id, "pyoco-server:http")
    assert "xxx" not in str(line)


def test_nothing_secret_of_a_refused_request_is_logged(gateway: tuple[Program, str]) -> None:
    program, url = gateway
    secret = "s3cr3t-of-a-request"
    headers = {"X-API-Key": secret, "Authorization": f"Bearer {secret}", "Idempotency-Key": secret}
    yaml = {"workflow": ("flow.yaml", f"flow: [{secret}: {{".encode(), "application/yaml")}
    last = None
    for answer in (
        httpx.get(f"{url}/runs", params={"cursor": secret}, headers=headers),
        httpx.post(f"{url}/runs", content=f'{{"flow_name": "{secret}'.encode(), headers=headers),
        httpx.post(f"{url}/runs", json={"flow_name": 7, "params": {"password": secret}}, headers=headers),
        httpx.post(f"{url}/runs/yaml", data={"flow_name": "f"}, files=yaml, headers=headers),
        httpx.get(f"{url}/gui/artifacts/7/content", params={"token": secret, "tenant": "t"}),
        httpx.get(f"{url}/idempotency/{secret}"),
    ):
        assert answer.status_code >= 400, answer.url
        last = line_of(program, answer)
    assert last is not None
    assert secret not in program.output + program.errors


def test_the_documented_uvicorn_command_writes_nothing_but_our_lines(uvicorn: tuple[Program, str]) -> None:
    program, url = uvicorn
    line_of(program, httpx.get(f"{url}/nothing"))
    assert [line for line in program.output.splitlines() if not line.startswith("{")] == []
    access = [line for line in lines_of(program) if line["logger"] == "uvicorn.access"]
    assert {line["service"] for line in access} == {"pyoco-server:http"}
    assert program.errors == ""


def test_the_documented_uvicorn_command_honours_the_log_settings(
    programs: Programs, module_broker: NatsServer
) -> None:
    settings = {
        "PYOCO_LOG_FORMAT": "text",
        "PYOCO_LOG_UTC": "0",
        "PYOCO_LOG_LEVEL": "debug",
        "TZ": "Asia/Tokyo",
    }
    program, url = start_uvicorn(programs, module_broker.url, **settings)
    httpx.get(f"{url}/runs/6f1c1f0e-0000-4000-8000-000000000000")
    wait_for(lambda: "request refused" in program.output, "a line")
    (line,) = [line for line in program.output.splitlines() if "request refused" in line]
    assert "+09:00 INFO " in line
    assert "NotFound: " in line
    assert "Traceback" not in program.output


def test_a_broker_that_is_away_is_one_warning_without_a_traceback_for_people(
    programs: Programs, own_nats_server: NatsServer
) -> None:
    settings = {"PYOCO_LOG_FORMAT": "text", "PYOCO_BROKER_TIMEOUT_SEC": "1"}
    program, url = start_uvicorn(programs, own_nats_server.url, **settings)
    own_nats_server.kill()
    wait_for(lambda: httpx.get(f"{url}/runs").status_code == 503, "an answer that the broker is away")
    wait_for(lambda: "path=/runs" in program.output, "its line")
    lines = [line for line in program.output.splitlines() if "path=/runs" in line]
    assert all("err_id=ERR-PYOCO-0003" in line and " WARNING " in line for line in lines)
    assert "Traceback" not in program.output


def test_wrong_log_settings_are_told_in_a_line_each_and_stop_no_uvicorn(
    programs: Programs, module_broker: NatsServer
) -> None:
    wrong = {"PYOCO_LOG_LEVEL": "LOUD", "PYOCO_LOG_FORMAT": "xml", "PYOCO_LOG_UTC": "perhaps"}
    program, url = start_uvicorn(programs, module_broker.url, **wrong)
    line_of(program, httpx.get(f"{url}/nothing"))
    told = [json.loads(line) for line in program.errors.splitlines()]
    assert {(one["err_id"], one["msg_id"]) for one in told} == {("ERR-PYOCO-0013", "MSG-PYOCO-0013")}
    for one, (variable, value) in zip(told, wrong.items(), strict=True):
        assert f"{variable} is '{value}'" in one["reason"]


def test_a_wrong_log_setting_stops_neither_gateway_nor_worker_nor_admin(
    programs: Programs, start_up: StartUp
) -> None:
    up = start_up(PYOCO_LOG_LEVEL="LOUD")
    run = httpx.post(f"{up.url}/runs", json={"flow_name": "hello", "tag": "demo"}).json()
    wait_for(
        lambda: httpx.get(f"{up.url}/runs/{run['run_id']}").json()["status"] == "COMPLETED", "a run that ends"
    )
    told = [json.loads(line) for line in up.program.errors.splitlines() if line.startswith("{")]
    assert sorted(line["service"] for line in told) == ["pyoco-server:http", "pyoco-server:worker"]
    assert {line["err_id"] for line in told} == {"ERR-PYOCO-0013"}
    admin = programs.run(
        "pyoco-server-admin", "events", run["run_id"], "--nats-url", up.broker_url, PYOCO_LOG_FORMAT="xml"
    )
    assert admin.process.returncode == 0
    (said,) = [json.loads(line) for line in admin.errors.splitlines()]
    assert (said["err_id"], said["service"]) == ("ERR-PYOCO-0013", "pyoco-server:admin")
