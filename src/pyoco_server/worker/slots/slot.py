"""One slot, on the worker's side: its process, its link, and the runs in it.

The process has a process group of its own, so that killing the group also ends the processes that user code
has started. `processes` makes it. It ends with the worker: its link closes, and a guard kills its group.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import assert_never

import msgspec

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.printable import one_line
from pyoco_server.worker.slots import messages as m
from pyoco_server.worker.slots.edition import Edition, ResolverBroken, SlotDied
from pyoco_server.worker.slots.link import Link, PipeReader
from pyoco_server.worker.slots.processes import START_TIMEOUT_SEC, SlotProcess, SlotProcesses
from pyoco_server.worker.slots.slot_run import SlotRun
from pyoco_server.worker.slots.slot_runs import SlotRuns
from pyoco_server.worker.wheels.folder import tenant_place

# From SIGTERM to SIGKILL, for a process that was asked to stop and did not.
KILL_AFTER_SEC = 0.5
# In the id of a clock that counts the processor time of a process (Linux).
_SCHEDULER_CLOCK = 2


class Slot:
    """`on_idle` is called when its last run has left, and when its process has ended between two runs."""

    def __init__(
        self,
        config: NatsBackendConfig,
        processes: SlotProcesses,
        edition: Edition,
        on_idle: Callable[[Slot], None],
    ) -> None:
        self._config = config
        # Read once: they are parsed from the settings, and every run is sent with them.
        self._callable_packages, self._flow_env = config.callable_packages, config.flow_env_names
        self._processes = processes
        self.edition = edition
        self.tenant: str | None = None
        self.flows: dict[str, str] = {}
        self.flow_params: dict[str, list[dict[str, object]]] = {}
        self._process: SlotProcess | None = None
        self._link = Link(self._on_message, self._on_end)
        self._pipes = [PipeReader(stream, self._on_lines) for stream in ("stdout", "stderr")]
        self._pipes_read_at = 0  # the number of reads of the link by then
        self._killing: asyncio.TimerHandle | None = None
        self.is_usable = True
        self._is_closing = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        most = config.worker_interleaved_runs
        self.runs = SlotRuns(self, self._link, most, lambda: on_idle(self))

    async def start(self) -> None:
        """Returns when the resolver is loaded. Raises ResolverBroken or SlotDied if that fails."""
        outputs = [pipe.writer for pipe in self._pipes]
        self._process, link = await self._processes.start(self.edition, outputs)
        for pipe in self._pipes:
            pipe.open()
        with suppress(ConnectionError):  # it has ended already; the link reports it
            link.send(m.GO_ON)  # its group is guarded now
        await asyncio.get_running_loop().create_connection(lambda: self._link, sock=link)
        async with asyncio.timeout(START_TIMEOUT_SEC):
            await self._ready

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_alive(self) -> bool:
        assert self._process is not None
        return self.is_usable and self._process.is_alive()

    def is_blocked(self) -> bool:
        """Whether all threads sleep or are stopped. False where the kernel does not tell."""
        assert self._process is not None
        try:
            threads = [*Path(f"/proc/{self._process.pid}/task").iterdir()]
            states = [(one / "stat").read_text().rpartition(")")[2].split()[0] for one in threads]
        except OSError:
            return False
        return bool(states) and not {"R", "Z", "X"}.intersection(states)

    def processor_sec(self) -> float | None:
        """Of all its threads, exact to the present moment. None where the kernel does not tell."""
        assert self._process is not None
        try:
            return time.clock_gettime((~self._process.pid << 3) | _SCHEDULER_CLOCK)
        except OSError:
            return None

    @property
    def is_unused(self) -> bool:
        return self.runs.count == 0

    @property
    def load_sec(self) -> float | None:
        """How long a further short run may have to wait here; None if none may join."""
        return self.runs.load_sec if self.is_usable else None

    def send(self, placed: SlotRun) -> None:
        claimed = placed.claimed
        run, numbering = claimed.stored.run, claimed.numbering
        placed.send(
            m.RunFlow(
                number=placed.number,
                lane=placed.lane,
                run_id=run.run_id,
                fence=numbering.fence,
                attempts=dict(numbering.attempts),
                flow_name=run.flow_name,
                params=msgspec.json.encode(run.params),
                recorded=claimed.recorded,
                metadata=claimed.metadata,
                result_bytes_max=self._config.result_max_bytes,
                timeout_sec=self._config.run_timeout_sec or None,
                workflow_yaml=claimed.submission.workflow_yaml,
                callable_packages=self._callable_packages,
                flow_env=self._flow_env,
                import_path=self._tenants_wheels(),
                failures=claimed.failures,
                awaited=claimed.awaited,
                clock_offset=clock.offset(),
            )
        )
        if not self.is_usable:  # the process has died since it was chosen
            self.runs.break_off()

    def _tenants_wheels(self) -> str | None:
        if self.edition.path is None or self.tenant is None:
            return None
        place = tenant_place(self.edition.path, self.tenant)
        return str(place) if place.is_dir() else None

    def terminate(self) -> None:
        """SIGTERM, then SIGKILL if that has no effect, to the whole process group."""
        self.is_usable = False
        self._signal(signal.SIGTERM)
        if self._killing is None:
            loop = asyncio.get_running_loop()
            self._killing = loop.call_later(KILL_AFTER_SEC, self._signal, signal.SIGKILL)

    async def close(self) -> None:
        """Kill the process at once. Nothing that matters may be running in it."""
        self._is_closing = True
        self._signal(signal.SIGKILL)
        if self._killing is not None:
            self._killing.cancel()
        self._link.close()
        if self._process is not None:
            await self._process.wait()
        for pipe in self._pipes:
            pipe.close()
        self.runs.close()

    def _on_message(self, message: m.FromSlot) -> None:
        match message:  # the most frequent first
            case m.Executed() | m.Reported() | m.Printed():
                self.runs.receive(message)
            case m.Ready():
                self.flows, self.flow_params = message.flows, message.params
                self._link.send(m.UsePage(path=self.runs.page_path))
                self._ready.set_result(None)
            case m.BrokenMessage():
                self._ready.set_exception(ResolverBroken(message.error))
            case m.EndedMessage():
                self._read_pipes()
                self.is_usable = self.is_usable and not message.must_be_replaced
                self.runs.receive_end(message)
            case _:
                assert_never(message)

    def _read_pipes(self) -> None:
        """Before the end of a run. Once for all messages that were read together: what was printed before
        the last of them is in the pipes by now."""
        if self._pipes_read_at != self._link.reads:
            self._pipes_read_at = self._link.reads
            for pipe in self._pipes:
                pipe.end_line()

    def _on_lines(self, stream: str, lines: list[str]) -> None:
        if not self.runs.add_lines(stream, lines):
            sys.stderr.write("".join(f"{one_line(line)}\n" for line in lines))

    def _on_end(self) -> None:
        self.is_usable = False
        if not self._ready.done():
            self._ready.set_exception(SlotDied("its process ended while it was starting"))
        elif not self.runs.is_idle:
            self._signal(signal.SIGKILL)  # also the processes that it had started
            for pipe in self._pipes:
                pipe.end_line()
            self.runs.break_off()
        elif not self._is_closing:
            self.runs.break_off()

    async def how_it_ended(self) -> str:
        assert self._process is not None
        code = await self._process.wait()
        if code is None:
            return "its process ended; its exit code is not known"
        return (
            f"its process was killed by {_name(-code)}"
            if code < 0
            else f"its process ended with exit code {code}"
        )

    def _signal(self, sig: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal_group(sig)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"
