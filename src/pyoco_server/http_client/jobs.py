"""Calls about jobs: create, read, list, tags, cancel and erase. Logs and results are those of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyoco_server.http_client.calls import given, key_header, path_of
from pyoco_server.http_client.runs import wait_run
from pyoco_server.http_client.script import ApiRequest, Script, ask, send

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import JobAnswer, JobPageAnswer


def create_job(
    parameters: Mapping[str, object] | None = None,
    *,
    flow: str | None = None,
    tag: str | None = None,
    tags: list[str] | None = None,
    idempotency_key: str | None = None,
) -> Script[JobAnswer]:
    """A stored and queued job. `tag` names the workers; `tags` are labels."""
    body = {"parameters": dict(parameters or {}), "tags": tags or []} | given(flow=flow, tag=tag)
    return ask(ApiRequest("POST", "/jobs", json=body, headers=key_header(idempotency_key)))


def get_job(job_id: str) -> Script[JobAnswer]:
    """The job."""
    return ask(ApiRequest("GET", path_of("jobs", job_id)))


def list_jobs(
    *,
    tag: list[str] | None = None,
    status: str | None = None,
    limit: int | None = None,
    next_token: str | None = None,
) -> Script[JobPageAnswer]:
    """`{"jobs", "nextToken"?}`, the newest first. A job has all the tags that are given."""
    return ask(ApiRequest("GET", "/jobs", given(tag=tag, status=status, limit=limit, nextToken=next_token)))


def cancel_job(job_id: str) -> Script[None]:
    """Cancel the job. An ended or unknown job is left as it is."""
    yield from _done(ApiRequest("DELETE", path_of("jobs", job_id)))


def purge_job(job_id: str) -> Script[None]:
    """Erase an ended job. HTTPStatusError (409) while it is alive."""
    yield from _done(ApiRequest("DELETE", path_of("jobs", job_id), {"purge": "true"}))


def wait_job(job_id: str, timeout_sec: float | None = None) -> Script[JobAnswer]:
    """The job when it has ended; TimeoutError after `timeout_sec` (None: no limit)."""
    # A job is a run, and the gateway answers this request when the run ends.
    yield from wait_run(job_id, timeout_sec)
    return (yield from get_job(job_id))


def get_tags(job_id: str) -> Script[list[str]]:
    """The tags of the job, in the order they were added."""
    return ask(ApiRequest("GET", path_of("jobs", job_id, "tags")))


def add_tag(job_id: str, tag: str) -> Script[list[str]]:
    """All tags after this one was added. A tag that exists is not added again."""
    return ask(ApiRequest("POST", path_of("jobs", job_id, "tags"), json={"tag": tag}))


def remove_tag(job_id: str, tag: str) -> Script[None]:
    """Remove the tag, if the job has it."""
    yield from _done(ApiRequest("DELETE", path_of("jobs", job_id, "tags", tag)))


def _done(request: ApiRequest) -> Script[None]:
    response = yield from send(request)
    response.raise_for_status()
