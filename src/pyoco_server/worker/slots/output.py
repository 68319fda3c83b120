"""Everything that is printed in a slot's process. Owns where each line is sent.

During a run, lines are sent to the worker as messages. Outside of runs (a resolver may print while it is
loaded) they go to stderr, which the worker writes to its own stderr.
"""

from __future__ import annotations

import logging
import os

from pyoco_server.engine.tasks.current_attempt import CurrentAttempt, install_thread_inheritance
from pyoco_server.worker.recording.facts import Numbering
from pyoco_server.worker.slots.capture import capture_output, restore_streams
from pyoco_server.worker.slots.left_processes import LeftProcesses
from pyoco_server.worker.slots.link_writer import LinkWriter
from pyoco_server.worker.slots.task_pipes import TaskPipes

DESCRIPTORS = (1, 2)


class Output:
    def __init__(self, writer: LinkWriter) -> None:
        self._writer = writer
        self._run_id: str | None = None
        self._numbering = Numbering(fence=0)
        self._streams = capture_output(self._on_lines)
        self._pipes = TaskPipes(self._on_lines)
        self._pipes.install(self._on_fork)
        # A task may close descriptors 1 and 2, or point them elsewhere.
        self._kept = [(os.dup(descriptor), os.fstat(descriptor)) for descriptor in DESCRIPTORS]
        self._left = LeftProcesses(tuple(kept for kept, _ in self._kept))
        install_thread_inheritance()

    def begin(self, run_id: str, numbering: Numbering) -> None:
        self._run_id, self._numbering = run_id, numbering

    def end_of(self, task: str) -> None:
        """The task has ended: its output is sent before its end is reported."""
        for stream in self._streams:
            stream.end_lines_of(task)
        self._pipes.drain(task)

    def end(self) -> bool:
        """True: processes of the run may still print here, so no other run may be executed here."""
        self._pipes.forget()
        for stream in self._streams:
            stream.end_lines_of()
        self._run_id = None
        restore_streams(self._streams)
        for descriptor, (kept, known) in zip(DESCRIPTORS, self._kept, strict=True):
            if not _is_same(descriptor, known):
                os.dup2(kept, descriptor)
        return self._left.are_there()

    def _on_lines(
        self, at: float, stream: str, attempt: CurrentAttempt | None, lines: list[str], level: str | None
    ) -> None:
        if self._run_id is None or (attempt is not None and attempt.run_id != self._run_id):
            # Printed between runs, or by a thread that an earlier run has left: it belongs to no run's log.
            os.write(DESCRIPTORS[1], ("\n".join(lines) + "\n").encode())
            return
        task, number = None, None
        if attempt is not None:
            task, number = attempt.task, self._numbering.attempt_no(attempt.task, attempt.attempt)
        self._writer.print(at, (stream, task, number, level), lines)

    def _on_fork(self) -> None:
        self._writer.close_after_fork()
        logging.getLogger().handlers = [logging.StreamHandler()]
        self._run_id = None


def _is_same(descriptor: int, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), known)
    except OSError:
        return False
