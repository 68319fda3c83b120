"""The names of all commands: `pyoco-client NOUN VERB`, the short forms for runs, and older names.

A command is one row. Its first name is in the help and in the reference; its other names do the same. A
name with a space is in the group of its first word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyoco_server.cli.client import profiles
from pyoco_server.cli.client.commands import (
    approvals,
    batches,
    cancel,
    completion,
    config,
    dead_letters,
    flows,
    logs,
    runs,
    schedule_changes,
    schedules,
    submit,
    top,
    watch,
    wheels,
    workers,
)
from pyoco_server.cli.mcp import command as mcp


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    help: str
    example: str


@dataclass(frozen=True, slots=True)
class CommandRow:
    """`short`: a name without the group, in the help too. `older`: names of earlier versions, not there."""

    name: str
    call: Callable[..., None]
    example: str
    short: str = ""
    older: tuple[str, ...] = ()

    @property
    def names(self) -> Iterator[tuple[str, bool]]:
        """Each name, and whether the help has it."""
        yield self.name, True
        if self.short:
            yield self.short, True
        for name in self.older:
            yield name, False


GROUPS = (
    Group("run", "Submit runs, read them, cancel them.", submit.SUBMIT_EXAMPLE),
    Group("batch", "Submit many runs at once, follow and cancel them together.", batches.SUBMIT_EXAMPLE),
    Group("approval", "Answer tasks that wait for a person.", approvals.LIST_EXAMPLE),
    Group("schedule", "Start runs by time: once, at intervals, or by cron.", schedules.ADD_EXAMPLE),
    Group("flow", "Show what can be run.", "pyoco-client flow list"),
    Group("worker", "Show workers, drain them, hide them.", "pyoco-client worker list"),
    Group("dlq", "Show dead letters, and run what they are about again.", "pyoco-client dlq list"),
    Group("wheel", "Upload code for workers, and remove it.", wheels.UPLOAD_EXAMPLE),
    Group("config", "Keep addresses and keys of gateways as profiles.", profiles.SET_EXAMPLE),
)

ROWS = (
    CommandRow("run submit", submit.submit, submit.SUBMIT_EXAMPLE, "submit"),
    CommandRow("run submit-yaml", submit.submit_yaml, submit.YAML_EXAMPLE, older=("submit-yaml",)),
    CommandRow("run list", runs.list_, runs.LIST_EXAMPLE, "list"),
    CommandRow("run pages", runs.pages, runs.PAGES_EXAMPLE, older=("list-vnext",)),
    CommandRow("run get", runs.get, "pyoco-client run get RUN_ID --records", "get"),
    CommandRow("run tasks", runs.tasks, "pyoco-client run tasks RUN_ID", older=("tasks",)),
    CommandRow("run watch", watch.watch, watch.WATCH_EXAMPLE, "watch"),
    CommandRow("run logs", logs.logs, logs.EXAMPLE, "logs"),
    CommandRow("run result", runs.result, runs.RESULT_EXAMPLE, "result"),
    CommandRow("run why", runs.why, "pyoco-client run why RUN_ID", "why"),
    CommandRow("run open", runs.open_, "pyoco-client run open RUN_ID", "open"),
    CommandRow(
        "run cancel",
        cancel.cancel,
        cancel.EXAMPLES,
        "cancel",
    ),
    CommandRow("run retry", submit.retry, f"{submit.RETRY_EXAMPLE}; {submit.FORK_EXAMPLE}", "retry"),
    CommandRow("batch submit", batches.submit, batches.SUBMIT_EXAMPLE),
    CommandRow("batch list", batches.list_, "pyoco-client batch list"),
    CommandRow("batch show", batches.show, "pyoco-client batch show BATCH_ID"),
    CommandRow("batch watch", batches.watch, "pyoco-client batch watch BATCH_ID"),
    CommandRow("batch cancel", batches.cancel, batches.CANCEL_EXAMPLE),
    CommandRow("approval list", approvals.approvals, approvals.LIST_EXAMPLE, older=("approvals",)),
    CommandRow("approval approve", approvals.approve, approvals.APPROVE_EXAMPLE, older=("approve",)),
    CommandRow("approval reject", approvals.reject, approvals.REJECT_EXAMPLE, older=("reject",)),
    CommandRow("schedule add", schedules.add, schedules.ADD_EXAMPLE, older=("schedule-yaml",)),
    CommandRow("schedule list", schedules.list_, "pyoco-client schedule list", older=("schedules",)),
    CommandRow("schedule show", schedule_changes.show, schedule_changes.SHOW_EXAMPLE),
    CommandRow("schedule edit", schedule_changes.edit, schedule_changes.EDIT_EXAMPLE),
    CommandRow("schedule pause", schedule_changes.pause, schedule_changes.PAUSE_EXAMPLE),
    CommandRow("schedule resume", schedule_changes.resume, schedule_changes.RESUME_EXAMPLE),
    CommandRow("schedule backfill", schedule_changes.backfill, schedule_changes.BACKFILL_EXAMPLE),
    CommandRow("schedule stop-backfill", schedule_changes.stop_backfill, schedule_changes.STOP_EXAMPLE),
    CommandRow("schedule occurrences", schedule_changes.occurrences, schedule_changes.OCCURRENCES_EXAMPLE),
    CommandRow("schedule runs", schedules.runs, schedules.RUNS_EXAMPLE, older=("schedule-runs",)),
    CommandRow("schedule run", schedules.run, schedules.RUN_EXAMPLE),
    CommandRow("schedule delete", schedules.delete, schedules.DELETE_EXAMPLE, older=("schedule-delete",)),
    CommandRow("flow list", flows.flows, "pyoco-client flow list", older=("flows",)),
    CommandRow("worker list", workers.workers, workers.LIST_EXAMPLE, older=("workers",)),
    CommandRow("worker drain", workers.worker_drain, workers.DRAIN_EXAMPLE, older=("worker-drain",)),
    CommandRow("worker resume", workers.worker_resume, workers.RESUME_EXAMPLE, older=("worker-resume",)),
    CommandRow("worker hide", workers.worker_hide, workers.HIDE_EXAMPLE, older=("worker-hide",)),
    CommandRow("dlq list", dead_letters.list_, dead_letters.LIST_EXAMPLE),
    CommandRow("dlq get", dead_letters.get, "pyoco-client dlq get 17"),
    CommandRow("dlq redrive", dead_letters.redrive, "pyoco-client dlq redrive 17"),
    CommandRow("dlq dismiss", dead_letters.dismiss, dead_letters.DISMISS_EXAMPLE),
    CommandRow("wheel list", wheels.wheels, "pyoco-client wheel list", older=("wheels",)),
    CommandRow("wheel history", wheels.wheel_history, wheels.HISTORY_EXAMPLE, older=("wheel-history",)),
    CommandRow("wheel upload", wheels.wheel_upload, wheels.UPLOAD_EXAMPLE, older=("wheel-upload",)),
    CommandRow("wheel download", wheels.wheel_download, wheels.DOWNLOAD_EXAMPLE, older=("wheel-download",)),
    CommandRow("wheel delete", wheels.wheel_delete, wheels.DELETE_EXAMPLE, older=("wheel-delete",)),
    CommandRow("config set", config.set_, f"{profiles.SET_EXAMPLE} --key-file key.txt"),
    CommandRow("config list", config.list_, profiles.LIST_EXAMPLE),
    CommandRow("config use", config.use, config.USE_EXAMPLE),
    CommandRow("config remove", config.remove, "pyoco-client config remove prod"),
    CommandRow("config path", config.path, "pyoco-client config path"),
    CommandRow("top", top.top, "pyoco-client top"),
    CommandRow("metrics", flows.metrics, "pyoco-client metrics"),
    CommandRow("mcp", mcp.mcp, "PYOCO_API_KEY=... pyoco-client mcp"),
    CommandRow("completion", completion.completion, "pyoco-client completion bash"),
)
