"""The cluster of the operations page: three brokers with TLS, two gateways and a worker, all on loopback."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from pyoco_server import PyocoHttpClient
from pyoco_server.broker.find import find_nats_server
from tests.cli.programs import BIN, clean_environment, wait_for
from tests.conftest import free_port
from tests.docs.commands.certificates import write_certificates
from tests.docs.test_examples import ROOT, blocks

PAGE = "docs/operations/operations.md"
FLOWS = """
from pyoco import Flow, task

@task
def greet(name):
    return f"Hello, {name}!"

def resolve(name):
    return Flow(name) >> greet
"""


def brokers_block() -> str:
    [found] = re.findall(r"^```\n(server_name.*?)^```", (ROOT / PAGE).read_text(), re.M | re.S)
    return str(found)


def gateway_block() -> list[str]:
    [found] = [block for block in blocks(PAGE, "sh") if "PYOCO_NATS_REPLICAS" in block]
    return [line for line in found.splitlines() if line]


class Machines:
    """The page with the ports and the folder of this test instead of the names of its machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = {f"n{number}:{port}": free_port() for number in (1, 2, 3) for port in (4222, 6222)}
        self._addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}

    def here(self, text: str) -> str:
        for name, address in self._addresses.items():
            text = text.replace(name, address)
        return text.replace("/etc/nats", str(self.folder)).replace("…", "some-password")

    def configuration(self, name: str) -> str:
        """What the page says about n1, for this broker."""
        text = (
            self.here(brokers_block()).replace("n1", name).replace("/var/lib/nats", str(self.folder / name))
        )
        for port in (4222, 6222):
            text = text.replace(f"0.0.0.0:{port}", self._addresses[f"{name}:{port}"])
        return text


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextmanager
def three_brokers(machines: Machines) -> Iterator[None]:
    with ExitStack() as running:
        for name in ("n1", "n2", "n3"):
            file = machines.folder / f"{name}.conf"
            log = f'log_file: "{machines.folder / name}.log"\n'
            file.write_text(log + machines.configuration(name))
            command = [str(find_nats_server()), "-c", str(file)]
            running.enter_context(ended(subprocess.Popen(command, text=True)))
        wait_for(lambda: _has_leader(machines.folder), "a leader of the brokers")
        yield


@pytest.mark.slow
def test_the_cluster_of_the_page_serves_runs(tmp_path: Path) -> None:
    write_certificates(tmp_path, "n1", "n2", "n3", "client")
    (tmp_path / "my_flows.py").write_text(FLOWS)
    machines = Machines(tmp_path)
    lines = gateway_block()
    settings = [machines.here(line) for line in lines if line.startswith("export ")]
    create, gateway, worker = (line for line in lines if not line.startswith("export "))

    def started(line: str, **variables: str) -> subprocess.Popen[str]:
        environment = clean_environment(PATH=f"{BIN}:/usr/bin:/bin", **variables)
        script = "\n".join([*settings, f"exec {line}"])
        return subprocess.Popen(
            ["sh", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "errors").open("a"),
            text=True,
        )

    with three_brokers(machines), ExitStack() as running:
        with started(create) as creating:
            said, _ = creating.communicate(timeout=60)
        assert creating.returncode == 0, (tmp_path / "errors").read_text()
        key = json.loads(said)["api_key"]
        ports = [free_port(), free_port()]
        for port in ports:
            assert "--host 0.0.0.0" in gateway
            line = gateway.replace("0.0.0.0", f"127.0.0.1 --port {port} --data-dir {tmp_path / str(port)}", 1)
            running.enter_context(ended(started(line)))
        running.enter_context(ended(started(worker)))
        one, two = (f"http://127.0.0.1:{port}" for port in ports)
        for url in (one, two):
            wait_for(lambda url=url: _is_ready(url), f"a gateway at {url}")  # type: ignore[misc]
        with PyocoHttpClient(one, api_key=key) as client:
            run = client.submit_run("greeting", {"name": "you"}, "default")
        with PyocoHttpClient(two, api_key=key) as client:
            assert client.result(run["run_id"], timeout=30) == "Hello, you!"


def _has_leader(folder: Path) -> bool:
    return any("cluster new metadata leader" in log.read_text() for log in folder.glob("n?.log"))


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").is_success
    except httpx.TransportError:
        return False
