"""What requests and answers look like, for the OpenAPI document only: nothing is validated with these."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Time = str


class ScheduleModel(BaseModel):
    """When a job is due: exactly one of the fields."""

    run_at: Time | None = Field(
        None,
        description="once, at this RFC 3339 time with an offset, in the years 1970 to 2199",
        examples=["2026-10-11T02:00:00+05:30"],
    )
    delay_s: float | None = Field(None, ge=0, description="once, so many seconds after the command was logged")


class TargetModel(BaseModel):
    """What is called."""

    type: Literal["http"]
    url: str = Field(
        max_length=2048, description="absolute http or https URL", examples=["https://settle.internal/run"]
    )
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "POST"
    headers: dict[str, str] | None = Field(None, description="the caller's own; what tocsin sets is refused here")
    body: str | dict[str, Any] | list[Any] | None = Field(
        None, description="a text is sent as it is, an object or a list as JSON"
    )
    timeout_s: float = Field(30.0, gt=0, le=86_400, description="limit of one attempt")


class JobRequest(BaseModel):
    """A job to create. Unknown fields are refused."""

    name: str | None = Field(None, min_length=1, max_length=200, description="for people; need not be unique")
    schedule: ScheduleModel | None = None
    run_at: Time | None = Field(None, description="the same as schedule.run_at")
    delay_s: float | None = Field(None, ge=0, description="the same as schedule.delay_s")
    target: TargetModel
    labels: dict[str, str] | None = Field(None, max_length=32)
    metadata: Any = Field(None, description="any JSON, at most 16 KiB, returned untouched")


class JobModel(BaseModel):
    """A job."""

    job_id: str
    tenant_id: str
    name: str | None
    state: Literal["ACTIVE"]
    version: int
    schedule: ScheduleModel
    target: TargetModel
    labels: dict[str, str] | None = None
    metadata: Any = None
    created_at: Time
    updated_at: Time
    next_run_at: Time | None = Field(description="null where nothing is to come")


class ValidModel(BaseModel):
    """Answer to validate_only: the job as it would be taken; nothing was written."""

    valid: Literal[True]
    tenant_id: str
    job: JobRequest


class JobListModel(BaseModel):
    """A page of jobs."""

    jobs: list[JobModel]
    next_page_token: str | None = Field(description="null on the last page")


class DeletedModel(BaseModel):
    """A job was deleted."""

    job_id: str
    deleted: Literal[True]
    detail: Literal["prevented", "already_fired"] = Field(description="prevented from firing, or had fired")
    message: str


class UndecidedModel(BaseModel):
    """A command whose outcome did not come in time."""

    command_id: str
    status: Literal["pending"]
    status_url: str
    job_id: str
    delivery: Literal["logged", "unknown"] = Field(description="unknown: it may be decided or lost")
    detail: str


class FaultModel(BaseModel):
    """One thing that is wrong with a request."""

    field: str
    value: str
    problem: str
    remedy: str


class CommandModel(BaseModel):
    """What became of a command."""

    command_id: str
    status: Literal["pending", "accepted", "rejected"]
    kind: str | None
    job_id: str | None
    detail: str | None
    faults: list[FaultModel]
    version: int | None


class ErrorModel(BaseModel):
    """Why an attempt did not succeed."""

    class_: str = Field(alias="class")
    message: str | None
    status: int | None


class RunModel(BaseModel):
    """One attempt of an execution."""

    execution_id: str
    job_id: str
    attempt: int
    token: int | None
    state: Literal["QUEUED", "SUCCEEDED", "DEAD"]
    attempt_state: str | None
    reason: str | None
    job_version: int | None
    scheduled_for: Time
    due_at: Time | None
    published_at: Time | None
    started_at: Time | None
    finished_at: Time | None
    decided_at: Time | None
    lateness_ms: float | None = Field(description="published after it was due, in milliseconds")
    worker_id: str | None
    redelivered: bool
    lane: str | None
    error: ErrorModel | None
    result: str | None


class RunListModel(BaseModel):
    """Attempts, newest first."""

    runs: list[RunModel]


class ExecutionModel(BaseModel):
    """An execution with its attempts, oldest first."""

    execution_id: str
    job_id: str
    scheduled_for: Time
    state: Literal["QUEUED", "SUCCEEDED", "DEAD"]
    attempts: list[RunModel]


class StatusModel(BaseModel):
    """How the process is."""

    status: Literal["alive", "ready"]


class ProblemModel(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    faults: list[FaultModel]
