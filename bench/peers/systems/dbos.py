"""DBOS Transact on Postgres: a worker process that listens on a queue, a client of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.services import (
    START_SEC,
    create_database,
    create_postgres,
    free_port,
    postgres_command,
    postgres_programs,
    postgres_user,
    wait_for_port,
    wait_until,
)
from bench.peers.system import CHAIN, FAN, Handle, Kind, System

POLL_SEC = 0.005  # the library's own is 1 s
QUEUE_POLL_SEC = 0.02  # the library's own is 1 s
PAGE = 500


class DbosPostgres(System):
    title = "DBOS"
    packages = ("dbos", "psycopg[binary]")
    debian = (("postgres", "postgresql"),)
    driven = "a workflow with one step per task; enqueue, status polled every 5 ms, queue every 20 ms"
    durability = "Postgres with fsync"
    share = 0.5

    def start_server(self) -> None:
        programs, port = postgres_programs(), free_port()
        assert programs is not None, "the installer has looked for it"
        self.folder.chmod(0o755)
        create_postgres(programs, self.folder / "data")
        command = postgres_command(programs, self.folder / "data", port)
        self.run_server("postgres", command, user=postgres_user())
        wait_for_port(port)
        create_database(programs, port)
        self.url = f"postgresql://postgres@127.0.0.1:{port}/bench"

    def start_worker(self, slots: int) -> None:
        command = [self.program("python"), "-m", "bench.peers.apps.dbos_app", slots, QUEUE_POLL_SEC]
        self.run_worker(command, {"BENCH_DBOS": self.url})

    def connect(self) -> None:
        self.client: Any = None
        if not wait_until(self._is_connected, START_SEC, 0.05):
            raise TimeoutError("the DBOS worker has not registered its queue")

    def disconnect(self) -> None:
        self.client.destroy()

    def submit(self, kind: Kind, number: int) -> Handle:
        arguments = {Kind.NOOP: (), Kind.CHAIN: (CHAIN,), Kind.FAN: (FAN,), Kind.NAP: (number,)}[kind]
        return self.client.enqueue({"queue_name": "bench", "workflow_name": kind.value}, *arguments)

    def wait(self, handle: Handle, seconds: float) -> bool:
        return wait_until(lambda: handle.get_status().status == "SUCCESS", seconds, POLL_SEC)

    def wait_all(self, handles: Sequence[Handle], seconds: float) -> int:
        """Polls the queue as a whole, which is cheaper for the database, and then counts the ends."""
        wait_until(lambda: not self.client.list_queued_workflows(limit=1, load_input=False), seconds, 0.02)
        ids = [handle.get_workflow_id() for handle in handles]
        pages = [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]
        return sum(len(self._completed(page)) for page in pages)

    def list_runs(self, limit: int) -> int | None:
        return len(self.client.list_workflows(limit=limit, sort_desc=True))

    def _completed(self, ids: list[str]) -> Sequence[object]:
        found: Sequence[object] = self.client.list_workflows(
            workflow_ids=ids, status="SUCCESS", load_input=False, load_output=False
        )
        return found

    def _is_connected(self) -> bool:
        """The tables and the queue exist when the worker has started."""
        from dbos import DBOSClient
        from sqlalchemy.exc import SQLAlchemyError

        client = None
        try:
            client = DBOSClient(
                system_database_url=self.url, system_database_pool_size=10, retry_connection_errors=False
            )
            if client.retrieve_queue("bench") is not None:
                self.client = client
                return True
        except SQLAlchemyError:
            pass
        if client is not None:
            client.destroy()
        return False
