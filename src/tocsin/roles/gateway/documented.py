"""What the OpenAPI document says of each route beyond its path."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from tocsin.domain.letters import KINDS
from tocsin.roles.gateway import callback_models, letter_models, log_models, models, tenant_models
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

_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "description": "the ETag of the job as it was read: the change takes effect only if the job is still that",
    "schema": {"type": "string", "pattern": '^("[0-9]{1,19}"|\\*)$'},
}

_ETAG: Final = {"description": "the job's version; for If-Match", "schema": {"type": "string"}}
_INDEX: Final = {
    "description": "pending: decided for good, but the store is away, so reads may not show it yet",
    "schema": {"type": "string", "enum": ["pending"]},
}
_LOCATION: Final = {"description": "where to read on", "schema": {"type": "string"}}

_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "an ETag that the caller has: if the job is still that, the answer is 304, without it",
    "schema": {"type": "string", "maxLength": 1024},
}

_PROBLEMS: Final = {
    403: "The key is not that of this execution, attempt and token.",
    404: "Nothing is known under that id.",
    408: "The body took too long to arrive.",
    409: "The job, or another one, stands against it; the detail says how.",
    412: "The job is not at the version that If-Match names.",
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
    *,
    body_required: bool = True,
) -> dict[str, Any]:
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": model, "description": description} for status, (model, description) in answers.items()
    }
    for status, (model, _) in answers.items():
        headers = {"ETag": _ETAG, "Tocsin-Index": _INDEX} if model in (models.JobModel, models.JobOrValidModel) else {}
        if status in (201, 202):
            headers["Location"] = _LOCATION
        if headers:
            responses[status]["headers"] = headers
    for status in problems:
        reference = {"$ref": f"#/components/schemas/{models.ProblemModel.__name__}"}
        responses[status] = {
            "description": _PROBLEMS[status],
            "content": {"application/problem+json": {"schema": reference}},
        }
    extra: dict[str, Any] = {"parameters": list(parameters)} if parameters else {}
    if body is not None:
        reference = {"$ref": f"#/components/schemas/{body.__name__}"}
        extra["requestBody"] = {"required": body_required, "content": {"application/json": {"schema": reference}}}
    return {"operation_id": operation_id, "tags": [tag], "responses": responses, "openapi_extra": extra}


_UNDECIDED: Final = (models.UndecidedModel, "No outcome in time; Location tells where to ask for it.")

CREATE_JOB: Final = _operation(
    "create_job",
    "jobs",
    {
        200: (
            models.JobOrValidModel,
            "The same job stood already under that job_id or idempotency_key. Or, with validate_only: it is valid.",
        ),
        201: (models.JobModel, "Created, decided and durable."),
        202: _UNDECIDED,
    },
    (408, 409, 413, 415, 422, 501, 503),
    (_TENANT, _VALIDATE_ONLY),
    models.JobRequest,
)
PUT_JOB: Final = _operation(
    "put_job",
    "jobs",
    {200: (models.JobOrValidModel, "The job as it is now. Or, with validate_only: it is valid."), 202: _UNDECIDED},
    (404, 408, 409, 412, 413, 415, 422, 501, 503),
    (_TENANT, _IF_MATCH, _VALIDATE_ONLY),
    models.JobRequest,
)
_VERB_PROBLEMS: Final = (404, 408, 409, 412, 413, 415, 422, 501, 503)
PAUSE_JOB: Final = _operation(
    "pause_job",
    "jobs",
    {200: (models.JobModel, "The job, paused."), 202: _UNDECIDED},
    _VERB_PROBLEMS,
    (_TENANT, _IF_MATCH),
    models.PauseRequest,
    body_required=False,
)
RESUME_JOB: Final = _operation(
    "resume_job",
    "jobs",
    {200: (models.JobModel, "The job, active."), 202: _UNDECIDED},
    _VERB_PROBLEMS,
    (_TENANT, _IF_MATCH),
)
TRIGGER_JOB: Final = _operation(
    "trigger_job",
    "jobs",
    {
        201: (models.TriggeredModel, "An execution is dispatched, or queued behind another; Location is its run."),
        202: _UNDECIDED,
    },
    _VERB_PROBLEMS,
    (_TENANT, _IF_MATCH),
)
LIST_JOBS: Final = _operation(
    "list_jobs", "jobs", {200: (models.JobListModel, "A page of jobs.")}, (422, 503), (_TENANT, _LIMIT, _PAGE_TOKEN)
)
GET_JOB: Final = _operation(
    "get_job", "jobs", {200: (models.JobModel, "The job.")}, (404, 422, 501, 503), (_TENANT, _IF_NONE_MATCH)
)
GET_JOB["responses"][304] = {"description": "The job is still what If-None-Match names.", "headers": {"ETag": _ETAG}}
DELETE_JOB: Final = _operation(
    "delete_job",
    "jobs",
    {200: (models.DeletedModel, "Deleted."), 202: _UNDECIDED},
    (404, 409, 412, 422, 501, 503),
    (_TENANT, _IF_MATCH),
)
LIST_RUNS: Final = _operation(
    "list_runs",
    "runs",
    {200: (models.RunListModel, "A page of attempts.")},
    (404, 422, 503),
    (_TENANT, _LIMIT, _PAGE_TOKEN),
)
GET_RUN: Final = _operation(
    "get_run", "runs", {200: (models.ExecutionModel, "The execution.")}, (404, 422, 503), (_TENANT,)
)
GET_LOG: Final = _operation(
    "get_run_log",
    "runs",
    {200: (log_models.LogModel, "What the attempt has printed so far, from a place on.")},
    (404, 422, 503),
    (
        _TENANT,
        {
            "name": "attempt",
            "in": "query",
            "description": "which one; the latest when absent",
            "schema": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
        },
        {
            "name": "after",
            "in": "query",
            "description": "next_after of the answer before",
            "schema": {"type": "string", "maxLength": 30},
        },
        _LIMIT,
    ),
)
RETRY_RUN: Final = _operation(
    "retry_run",
    "runs",
    {200: (models.RetriedModel, "It waits for its next attempt."), 202: _UNDECIDED},
    (404, 408, 409, 413, 415, 422, 503),
    (_TENANT,),
)
CANCEL_RUN: Final = _operation(
    "cancel_run",
    "runs",
    {200: (models.CancelledModel, "It has ended, or ends soon."), 202: _UNDECIDED},
    (404, 408, 409, 413, 415, 422, 503),
    (_TENANT,),
)
_CALLBACK_PROBLEMS: Final = (403, 404, 408, 413, 415, 422, 503)
_REPORTED: Final = (callback_models.ReportedModel, "It is logged, and counts if this dispatch is still waited for.")
COMPLETE_RUN: Final = _operation(
    "complete_run",
    "runs",
    {202: _REPORTED},
    _CALLBACK_PROBLEMS,
    body=callback_models.CompleteRequest,
)
FAIL_RUN: Final = _operation(
    "fail_run",
    "runs",
    {202: _REPORTED},
    _CALLBACK_PROBLEMS,
    body=callback_models.FailRequest,
)
LIST_LETTERS: Final = _operation(
    "list_dead_letters",
    "dead letters",
    {200: (letter_models.LetterListModel, "A page of dead letters.")},
    (404, 422, 503),
    (
        _TENANT,
        _LIMIT,
        _PAGE_TOKEN,
        {
            "name": "kind",
            "in": "query",
            "schema": {"type": "string", "enum": list(KINDS)},
        },
        {"name": "job_id", "in": "query", "description": "only of this job", "schema": {"type": "string"}},
    ),
)
GET_LETTER: Final = _operation(
    "get_dead_letter",
    "dead letters",
    {200: (letter_models.WholeLetterModel, "The dead letter.")},
    (404, 422, 503),
    (_TENANT,),
)
REDRIVE_LETTERS: Final = _operation(
    "redrive_dead_letters",
    "dead letters",
    {200: (letter_models.RedriveModel, "What came of each dead letter that was looked at.")},
    (404, 408, 413, 415, 422, 503),
    (_TENANT,),
    letter_models.RedriveRequest,
)
RESUME_RETRIES: Final = _operation(
    "resume_retries",
    "tenants",
    {200: (tenant_models.ResumedRetriesModel, "What came of it; shards that have not answered yet will.")},
    (404, 408, 413, 415, 422, 503),
)
GET_COMMAND: Final = _operation(
    "get_command", "commands", {200: (models.CommandModel, "What became of it.")}, (404, 422), (_TENANT,)
)
PREVIEW_SCHEDULE: Final = _operation(
    "preview_schedule",
    "schedules",
    {200: (models.PreviewModel, "What the expression means, and its next times.")},
    (422,),
    (
        _TENANT,
        {
            "name": "cron",
            "in": "query",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 256},
            "example": "30 2 * * *",
        },
        {
            "name": "timezone",
            "in": "query",
            "required": True,
            "description": "a name of the IANA zone database",
            "schema": {"type": "string", "minLength": 1, "maxLength": 64},
            "example": "America/New_York",
        },
        {
            "name": "n",
            "in": "query",
            "description": "how many times to list",
            "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        },
        {
            "name": "after",
            "in": "query",
            "description": "list times after this one, RFC 3339 with an offset; now when absent",
            "schema": {"type": "string", "maxLength": 40},
        },
        {
            "name": "gap",
            "in": "query",
            "schema": {"type": "string", "enum": ["shift", "skip"], "default": "shift"},
        },
        {
            "name": "overlap",
            "in": "query",
            "schema": {"type": "string", "enum": ["first", "second", "both"], "default": "first"},
        },
        {
            "name": "job_id",
            "in": "query",
            "description": "whose id picks the numbers for H; without one H is refused",
            "schema": {"type": "string", "maxLength": 129},
        },
    ),
)
HEALTHZ: Final = _operation("healthz", "health", {200: (models.StatusModel, "The process is alive.")})
READYZ: Final = _operation("readyz", "health", {200: (models.StatusModel, "All parts answer.")}, (503,))
METRICS: Final[dict[str, Any]] = {
    "operation_id": "metrics",
    "tags": ["health"],
    "responses": {200: {"description": "Prometheus text format.", "content": {"text/plain": {}}}},
}
