"""Submit a run together with its flow: a `flow.yaml` that is fully validated before anything is stored.

The first event and the jobs of the run contain the text; the snapshot contains its digest and size. The
parameters of the run are the defaults of the flow.
"""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import TooLarge
from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from pyoco_server.workflow_yaml import extract_flow_defaults, parse_workflow_yaml_bytes

TOO_LARGE = "ERR-PYOCO-0016"
# An upper bound for the rest of the commit: names, ids, tags.
AROUND_BYTES = 16 * 1024


async def submit_yaml(store: Store, wanted: Submission, workflow: bytes) -> StoredRun:
    """`wanted` has the name, tags and owner of the run. Everything else is in the workflow."""
    return await submit(store, await with_workflow(wanted, workflow, store.config))


async def with_workflow(wanted: Submission, workflow: bytes, config: NatsBackendConfig) -> Submission:
    check_size(len(workflow), config)
    # In a thread: to parse a large file would delay other requests.
    parsed = await asyncio.to_thread(parse_workflow_yaml_bytes, workflow)
    text, params = workflow.decode("utf-8"), extract_flow_defaults(parsed)
    _check_commit(text, params, config)
    return replace(
        wanted,
        params=params,
        workflow_yaml=text,
        workflow_yaml_sha256=parsed.sha256,
        workflow_yaml_bytes=parsed.size_bytes,
    )


def check_size(size: int, config: NatsBackendConfig) -> None:
    limit = config.workflow_yaml_max_bytes
    if size > limit:
        raise TooLarge(
            f"The workflow has more than {limit} bytes (PYOCO_WORKFLOW_YAML_MAX_BYTES). "
            "Make it smaller: large data belongs elsewhere.",
            err_id=TOO_LARGE,
        )


def _check_commit(text: str, params: dict[str, object], config: NatsBackendConfig) -> None:
    """Text and defaults are in one message of the log, in which quotes and line ends take two bytes."""
    size = len(msgspec.json.encode(text)) + len(msgspec.json.encode(params)) + AROUND_BYTES
    if size > config.commit_max_bytes:
        raise TooLarge(
            f"The workflow with its defaults takes {size} bytes in the log, more than "
            f"{config.commit_max_bytes} (PYOCO_COMMIT_MAX_BYTES). Make it smaller.",
            err_id=TOO_LARGE,
        )
