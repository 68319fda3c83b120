"""Restate: one node of restate-server, and one service process in Python."""

from __future__ import annotations

import platform
import uuid

from bench.peers.http import Http, HttpError
from bench.peers.services import START_SEC, free_port, wait_for_port, wait_until
from bench.peers.system import CHAIN, FAN, Handle, Kind, System

MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
COLUMNS = "id, target, status, created_at, completed_at"
QUERY = f"SELECT {COLUMNS} FROM sys_invocation ORDER BY created_at DESC LIMIT "


class Restate(System):
    title = "Restate"
    packages = ("restate-sdk", "hypercorn")
    npm = ("@restatedev/restate-server",)
    driven = "an invocation with one ctx.run per task; POST …/send with an idempotency key, GET …/attach"
    durability = "RocksDB log, one node"

    def start_server(self) -> None:
        self.ingress_port, self.admin_port, node, self.service_port = (free_port() for _ in range(4))
        machine = MACHINES.get(platform.machine(), "x64")
        package = f"node_modules/@restatedev/restate-server-linux-{machine}"
        program = self.npm_folder / package / "bin/restate-server"
        options = ["--no-logo", "--base-dir", self.folder / "data", "--bind-ip", "127.0.0.1"]
        settings = {
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.ingress_port}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin_port}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LISTEN_MODE": "tcp",
        }
        self.run_server("restate", [program, *options, "--bind-port", node], settings)
        self.http, self.admin = Http(self.ingress_port), Http(self.admin_port)

    def start_worker(self, slots: int) -> None:
        """The server pushes invocations to the service; it has no slots."""
        address = f"127.0.0.1:{self.service_port}"
        app = "bench.peers.apps.restate_app:app"
        self.run_worker([self.program("hypercorn"), "-b", address, app, "--log-level", "error"])

    def connect(self) -> None:
        wait_for_port(self.admin_port)
        wait_for_port(self.service_port)
        if not wait_until(self._register, START_SEC, 0.05):
            raise TimeoutError("Restate has not registered the service")

    def submit(self, kind: Kind, number: int) -> Handle:
        argument = {Kind.CHAIN: CHAIN, Kind.FAN: FAN}.get(kind, number)
        key = {"idempotency-key": uuid.uuid4().hex}
        return self.http.post(f"/bench/{kind}/send", argument, key)["invocationId"]

    def wait(self, handle: Handle, seconds: float) -> bool:
        try:
            self.http.get(f"/restate/invocation/{handle}/attach")
        except HttpError:
            return False
        return True

    def list_runs(self, limit: int) -> int | None:
        found = self.admin.post("/query", {"query": f"{QUERY}{limit}"}, {"accept": "application/json"})
        return len(found["rows"])

    def _register(self) -> bool:
        try:
            self.admin.post("/deployments", {"uri": f"http://127.0.0.1:{self.service_port}"})
        except (HttpError, OSError):
            return False
        return True
