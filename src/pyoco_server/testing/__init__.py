"""Test flows: execute a flow in the test's own process, in virtual time, and get what happened as a value.

The engine, the rules of the lifecycle and the recording of results are those of a worker. There is no broker,
no gateway and no other process. `docs/how-to/testing-flows.md` is the guide.

    flow_run    `run_flow`: one run from its submission to its end, claim by claim
    journal     the log of the run in memory: commands are decided, events are folded
    simulation  threads of tasks, and how time passes while the engine waits
    answers, when, yaml_flow    what a test gives: answers to approvals, points in a run, a flow.yaml
    outcome     what a test gets
"""

from pyoco_server.lifecycle import events
from pyoco_server.lifecycle.run import TaskRecord
from pyoco_server.lifecycle.status import RunStatus, TaskStatus
from pyoco_server.testing.answers import Answer, Approve, AskedApproval, Reject
from pyoco_server.testing.flow_run import run_flow
from pyoco_server.testing.outcome import FinishedRun, NoResult, PrintedLine
from pyoco_server.testing.simulation import CodeTooSlow
from pyoco_server.testing.virtual_time import VirtualTime
from pyoco_server.testing.when import EventTest, failed, started, succeeded, waiting
from pyoco_server.testing.yaml_flow import YamlFlow

__all__ = [
    "Answer",
    "Approve",
    "AskedApproval",
    "CodeTooSlow",
    "EventTest",
    "FinishedRun",
    "NoResult",
    "PrintedLine",
    "Reject",
    "RunStatus",
    "TaskRecord",
    "TaskStatus",
    "VirtualTime",
    "YamlFlow",
    "events",
    "failed",
    "run_flow",
    "started",
    "succeeded",
    "waiting",
]
