"""What the OpenAPI document says of each route beyond its path."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from tocsin.roles.gateway import models
from tocsin.roles.gateway.requests import LIMIT_DEFAULT, LIMIT_MAX, PAGE_TOKEN_CHARS_MAX, TENANT_HEADER

_TENANT: Final = {
    "name": TENANT_HEADER,
    "in": "header",
    "description": "whose jobs; the tenant called default when absent",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "default": "default"},
}
_LIMIT: Final = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
}
_PAGE_TOKEN: Final = {
    "name": "page_token",
    "in": "query",
    "description": "next_page_token of the page before",
    "schema": {"type": "string", "maxLength": PAGE_TOKEN_CHARS_MAX},
}
_VALIDATE_ONLY: Final = {
    "name": "validate_only",
    "in": "query",
    "description": "true: only check the job, write nothing",
    "schema": {"type": "boolean", "default": False},
}

_PROBLEMS: Final = {
    404: "Nothing is known under that id.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request has faults; all that were found are listed.",
    501: "The contract names it; this version does not do it yet.",
    503: "A part of tocsin is not available; nothing was done.",
}


def _operation(
    operation_id: str,
    tag: str,
    answers: dict[int, tuple[type[BaseModel], str]],
    problems: tuple[int, ...] = (),
    parameters: tuple[dict[str, Any], ...] = (),
    body: type[BaseModel] | None = None,
) -> dict[str, Any]:
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": model, "description": description} for status, (model, description) in answers.items()
    }
    for status in problems:
        reference = {"$ref": f"#/components/schemas/{models.ProblemModel.__name__}"}
        responses[status] = {
            "description": _PROBLEMS[status],
            "content": {"application/problem+json": {"schema": reference}},
        }
    extra: dict[str, Any] = {"parameters": list(parameters)} if parameters else {}
    if body is not None:
        reference = {"$ref": f"#/components/schemas/{body.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return {"operation_id": operation_id, "tags": [tag], "responses": responses, "openapi_extra": extra}


_UNDECIDED: Final = (models.UndecidedModel, "No outcome in time; Location tells where to ask for it.")

CREATE_JOB: Final = _operation(
    "create_job",
    "jobs",
    {
        200: (models.ValidModel, "validate_only: the job is valid."),
        201: (models.JobModel, "Created, decided and durable."),
        202: _UNDECIDED,
    },
    (408, 413, 415, 422, 503),
    (_TENANT, _VALIDATE_ONLY),
    models.JobRequest,
)
LIST_JOBS: Final = _operation(
    "list_jobs", "jobs", {200: (models.JobListModel, "A page of jobs.")}, (422, 503), (_TENANT, _LIMIT, _PAGE_TOKEN)
)
GET_JOB: Final = _operation("get_job", "jobs", {200: (models.JobModel, "The job.")}, (404, 422, 501, 503), (_TENANT,))
DELETE_JOB: Final = _operation(
    "delete_job",
    "jobs",
    {200: (models.DeletedModel, "Deleted."), 202: _UNDECIDED},
    (404, 422, 501, 503),
    (_TENANT,),
)
LIST_RUNS: Final = _operation(
    "list_runs", "runs", {200: (models.RunListModel, "Attempts, newest first.")}, (404, 422, 503), (_TENANT, _LIMIT)
)
GET_RUN: Final = _operation(
    "get_run", "runs", {200: (models.ExecutionModel, "The execution.")}, (404, 422, 503), (_TENANT,)
)
GET_COMMAND: Final = _operation(
    "get_command", "commands", {200: (models.CommandModel, "What became of it.")}, (404, 422), (_TENANT,)
)
HEALTHZ: Final = _operation("healthz", "health", {200: (models.StatusModel, "The process is alive.")})
READYZ: Final = _operation("readyz", "health", {200: (models.StatusModel, "All parts answer.")}, (503,))
METRICS: Final[dict[str, Any]] = {
    "operation_id": "metrics",
    "tags": ["health"],
    "responses": {200: {"description": "Prometheus text format.", "content": {"text/plain": {}}}},
}
