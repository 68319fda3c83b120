"""pyoco-server from this checkout: broker and gateway by `pyoco-server up`, one worker."""

from __future__ import annotations

from bench.peers.http import Http, HttpError
from bench.peers.services import START_SEC, free_port, wait_for_port, wait_until
from bench.peers.system import CHAIN, FAN, NAP_SEC, ROOT, Handle, Kind, System

FLOWS = {
    Kind.NOOP: "noop",
    Kind.CHAIN: f"chain_{CHAIN}",
    Kind.FAN: f"fan_{FAN}",
    Kind.NAP: f"nap_{NAP_SEC:.0f}",
}
WAIT_SEC_MAX = 60
POLL_SEC = 0.02
QUIET: dict[str, object] = {"PYOCO_LOAD_DOTENV": 0, "PYOCO_LOG_LEVEL": "WARNING"}


class Pyoco(System):
    title = "pyoco-server"
    packages = (str(ROOT),)
    driven = "a run of a flow; POST /runs, GET /runs/{id}?wait="
    durability = "JetStream on disk, flushed every 100 ms"
    mode = "interval"

    def start_server(self) -> None:
        port = free_port()
        command = [self.program("pyoco-server"), "up", "--no-worker", "--host", "127.0.0.1", "--port", port]
        data: dict[str, object] = {"PYOCO_DATA_DIR": self.folder / "data", "PYOCO_DURABILITY": self.mode}
        self.run_server("up", command, data | QUIET)
        wait_for_port(port)
        self.http = Http(port)
        if not wait_until(self._is_ready, START_SEC, POLL_SEC):
            raise TimeoutError("the gateway is not ready")

    def start_worker(self, slots: int) -> None:
        worker = [self.program("pyoco-worker"), "--nats-url", self.broker_url, "--tags", "default"]
        options = ["--worker-id", "bench", "--concurrency", slots]
        resolver = ["--flow-resolver", f"{ROOT / 'bench' / 'flows.py'}:resolve"]
        self.run_worker([*worker, *options, *resolver], QUIET)

    def connect(self) -> None:
        wait_until(lambda: bool(self.http.get("/workers")), START_SEC, POLL_SEC)

    def submit(self, kind: Kind, number: int) -> Handle:
        params = {"number": number} if kind is Kind.NAP else {}
        return self.http.post("/runs", {"flow_name": FLOWS[kind], "params": params})["run_id"]

    def wait(self, handle: Handle, seconds: float) -> bool:
        run = self.http.get(f"/runs/{handle}?wait={min(WAIT_SEC_MAX, max(1, int(seconds)))}")
        is_over = run["status"] not in ("PENDING", "RUNNING")
        if is_over or seconds <= WAIT_SEC_MAX:
            return bool(run["status"] == "COMPLETED")
        return self.wait(handle, seconds - WAIT_SEC_MAX)

    def list_runs(self, limit: int) -> int | None:
        return len(self.http.get(f"/runs?limit={limit}"))

    def _is_ready(self) -> bool:
        try:
            self.broker_url: str = self.http.get("/ready")["broker"]["url"]
        except HttpError:
            return False
        return True


class PyocoAlways(Pyoco):
    title = "pyoco-server (always)"
    durability = "JetStream on disk, flushed before every acknowledgement"
    mode = "always"
