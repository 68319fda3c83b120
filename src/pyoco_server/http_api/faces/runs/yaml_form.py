"""Forms with a `flow.yaml`: the file and its text fields. An error lists every problem with its place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from pyoco_server.errors import ErrorDetail, Invalid, problem_at
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.middleware.tracing_headers import correlation_id_of, traceparent_of
from pyoco_server.operations.runs.submit import Submission

FILE = "workflow"
FIELDS = ("flow_name", "tag")
FORM_TYPES = frozenset({"multipart/form-data", "application/x-www-form-urlencoded"})
FIELD_BYTES_MAX = 8 * 1024
PARTS_MAX = 16

_NO_FILE = "Send the workflow as a file, as curl does with -F workflow=@flow.yaml."
# Members of `POST /runs` that have no effect here. They are refused instead of ignored.
_NOT_HERE = {
    "params": "The parameters of the run are the workflow's own: write them under flow.defaults.",
    "tags": "A workflow has one tag, which routes it: send it as tag.",
}


@asynccontextmanager
async def form_of(request: Request) -> AsyncIterator[FormData]:
    """Closes the files of the form at the end."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in FORM_TYPES:
        raise _wrong(f"The body is not multipart/form-data. {_NO_FILE}", type_="form_invalid")
    try:
        form = await request.form(max_files=1, max_fields=PARTS_MAX, max_part_size=FIELD_BYTES_MAX)
    except HTTPException as error:
        raise _wrong(f"The form cannot be read: {error.detail}", type_="form_invalid") from error
    except ClientDisconnect as error:
        raise _wrong("The form ended before its end.", type_="form_invalid") from error
    try:
        yield form
    finally:
        await form.close()


def submission_in(request: Request, form: FormData) -> Submission:
    problems = [problem(name, _NOT_HERE[name], "extra_forbidden") for name in form if name in _NOT_HERE]
    problems += not_single(form, FIELDS)
    if not form.getlist("flow_name"):
        problems.append(problem("flow_name", "Field required", "missing"))
    if problems:
        raise Invalid("The form is not a valid submission.", details=problems)
    caller = caller_of(request)
    return Submission(
        flow_name=str(form["flow_name"]).strip(),
        tag=text_in(form, "tag"),
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        correlation_id=correlation_id_of(request.headers),
        traceparent=traceparent_of(request.headers),
    )


async def workflow_in(form: FormData, bytes_max: int) -> bytes:
    """Reads one byte more than allowed: enough to see that the file is too large."""
    match form.getlist(FILE):
        case []:
            raise _wrong("Field required", type_="missing")
        case [UploadFile() as upload]:
            return await upload.read(bytes_max + 1)
        case _:
            raise _wrong(_NO_FILE)


def text_in(form: FormData, name: str) -> str | None:
    """An empty field, as browsers send it, counts as missing."""
    return str(form.get(name) or "").strip() or None


def not_single(form: FormData, names: Iterable[str]) -> list[ErrorDetail]:
    return [problem(name, "Give it once, as text.") for name in names if not _is_single(form.getlist(name))]


def problem(name: str, message: str, type_: str = "value_error") -> ErrorDetail:
    return problem_at(["body", name], message, type_)


def _is_single(values: list[UploadFile | str]) -> bool:
    return len(values) <= 1 and all(isinstance(value, str) for value in values)


def _wrong(message: str, type_: str = "value_error") -> Invalid:
    return Invalid.at(["body", FILE], message, type_)
