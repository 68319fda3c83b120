"""Jobs as messages on the queue: what they carry, and what is no job."""

from __future__ import annotations

import msgspec
import pytest

from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.store.queue.jobs import UnreadableJob, decode_job, encode_job, submission_of
from tests.store.making import START, submission

# Deeper than any decoder goes.
DEEP = b"[" * 5_000 + b"]" * 5_000


def test_a_job_carries_the_whole_submission() -> None:
    event = submission(
        tenant_id="t",
        api_key_id="k",
        workflow_yaml="tasks: {}",
        workflow_yaml_sha256="ab",
        workflow_yaml_bytes=9,
        correlation_id="c",
        traceparent="p",
        tags=["default", "nightly"],
    )
    assert submission_of(decode_job(encode_job(event, event.tags))) == event


def test_a_plain_job_has_the_members_of_the_contract_and_no_others() -> None:
    event = submission("4f0e")
    assert msgspec.json.decode(encode_job(event, event.tags)) == {
        "run_id": "4f0e",
        "flow_name": "greet",
        "tag": "default",
        "tags": ["default"],
        "params": {"name": "Ada", "n": 3},
        "submitted_at": START,
    }


def test_a_job_of_another_producer_needs_only_what_the_contract_requires() -> None:
    job = decode_job(b'{"run_id": "r", "flow_name": "f", "tag": "t", "submitted_at": 5, "colour": "red"}')
    assert submission_of(job) == RunSubmitted(
        at=5.0, run_id="r", flow_name="f", params={}, tag="t", tags=["t"]
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"{}",
        b'{"run_id": "r", "flow_name": "f", "submitted_at": 5}',
        b'{"run_id": 5, "flow_name": "f", "tag": "t", "submitted_at": 5}',
        b'{"run_id": "r", "flow_name": "f", "tag": "t", "submitted_at": "noon"}',
        b'{"run_id": "r", "flow_name": "f", "tag": "t", "submitted_at": 5, "params": []}',
        b'{"run_id": "r", "flow_name": "f", "tag": "t", "submitted_at": 5, "tags": "t"}',
        b'{"run_id": "\xff", "flow_name": "f", "tag": "t", "submitted_at": 5}',
        b'{"run_id": "r", "flow_name": "f", "tag": "t", "submitted_at": 5, "params": {"a": ' + DEEP + b"}}",
    ],
)
def test_what_is_no_job_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(UnreadableJob):
        decode_job(data)
