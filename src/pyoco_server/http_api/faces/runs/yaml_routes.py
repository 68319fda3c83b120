"""`POST /runs/yaml`: submit a form with a `flow.yaml` as a run."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.faces.runs import idempotent_runs, wire
from pyoco_server.http_api.faces.runs.schemas import ACCEPTED, YAML_FORM
from pyoco_server.http_api.faces.runs.yaml_form import form_of, submission_in, workflow_in
from pyoco_server.http_api.requests.idempotency import key_of, key_param
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.operation import Content, Operation, json_of
from pyoco_server.operations.runs.submit import validate
from pyoco_server.operations.runs.submit_yaml import submit_yaml, with_workflow


async def submit_run_yaml(request: Request) -> Response:
    gateway = ready_gateway(request)
    key = key_of(request)
    async with form_of(request) as form:
        wanted = submission_in(request, form)
        workflow = await workflow_in(form, gateway.config.workflow_yaml_max_bytes)
        asked = idempotent_runs.asked_in(form, workflow) if key is not None else {}
    if key is not None:
        valid = validate(await with_workflow(wanted, workflow, gateway.config), gateway.config)
        return await idempotent_runs.submit_once(gateway.store, key, asked, valid)
    return json_answer(wire.accepted(await submit_yaml(gateway.store, wanted, workflow)))


OPERATIONS = [
    Operation(
        "POST",
        "/runs/yaml",
        submit_run_yaml,
        "Submit a run together with its flow",
        {200: json_of("Accepted and queued", ACCEPTED)},
        [key_param()],
        Content(kinds={"multipart/form-data": YAML_FORM}),
        errors=[409, 413, 422],
    )
]
