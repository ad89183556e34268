"""What requests and answers look like, for the OpenAPI document only: nothing is validated with these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel

from tocsin.domain.definitions import LABEL_CHARS_MAX, LABELS_MAX
from tocsin.domain.error_classes import RETRY_ON_MAX
from tocsin.domain.policies import ATTEMPTS_MAX, DURATION_S_MAX, GROUP_CHARS_MAX, RETRY_S_MAX
from tocsin.domain.schedules import DELAY_S_MAX, EVERY_S_MAX, SPREAD_S_MAX
from tocsin.roles.gateway.target_models import TargetModel

Time = Annotated[str, Field(max_length=64)]
State = Literal["QUEUED", "RUNNING", "RETRY_SCHEDULED", "SUCCEEDED", "DEAD", "SKIPPED", "CANCELLED", "UNKNOWN"]


class DstModel(BaseModel):
    """What a job with a fixed time does where the clock of its zone changes."""

    gap: Literal["shift", "skip"] = Field(
        "shift", description="at a wall time that is skipped: run as the clock goes on"
    )
    overlap: Literal["first", "second", "both"] = Field("first", description="at a wall time that comes twice")


class CalendarModel(BaseModel):
    """Dates on which a job does not run, by the clock of its zone."""

    exclude: list[str] = Field(min_length=1, max_length=366, description="dates", examples=[["2026-12-25"]])
    on_excluded: Literal["skip", "shift"] = Field(
        "skip", description="shift: run at the same wall time on the next date that is not excluded"
    )


class ScheduleModel(BaseModel):
    """When a job is due: exactly one of cron, every_s, run_at and delay_s."""

    cron: str | None = Field(
        None,
        max_length=256,
        description="five fields, or six with seconds first, or a macro such as @daily; H is picked by the job's id; "
        "needs timezone",
        examples=["0 2 * * *"],
    )
    timezone: str | None = Field(
        None, max_length=64, description="of cron: a name of the IANA zone database", examples=["Asia/Kolkata"]
    )
    dst: DstModel | None = Field(None, description="of cron")
    start_at: Time | None = Field(None, description="of cron and every_s: no occurrence is before it")
    end_at: Time | None = Field(None, description="of cron and every_s: no occurrence is after it")
    calendar: CalendarModel | None = Field(None, description="of cron: dates that are left out")
    spread_s: float | None = Field(
        None,
        ge=0,
        le=SPREAD_S_MAX,
        description="each time is up to so much later; the job's id decides where in this window",
    )
    every_s: float | None = Field(None, ge=1, le=EVERY_S_MAX, description="an interval, in seconds")
    anchor_at: Time | None = Field(
        None, description="of every_s: where the interval counts from; default: the creation"
    )
    run_at: Time | None = Field(
        None,
        description="once, at this RFC 3339 time with an offset, in the years 1970 to 2199",
        examples=["2026-10-11T02:00:00+05:30"],
    )
    delay_s: float | None = Field(
        None, ge=0, le=DELAY_S_MAX, description="once, so many seconds after the command was logged"
    )


class RetryModel(BaseModel):
    """How often a failing execution is attempted, and how long tocsin waits in between."""

    max_attempts: int = Field(5, ge=1, le=ATTEMPTS_MAX, description="all attempts together")
    backoff: Literal["exponential", "fixed", "linear"] = "exponential"
    base_s: float = Field(30.0, ge=0, le=RETRY_S_MAX, description="the first delay's upper bound")
    max_s: float = Field(1800.0, ge=0, le=RETRY_S_MAX, description="no delay is longer")
    jitter: Literal["full", "none"] = Field("full", description="full: a delay is drawn evenly from 0 to its bound")
    retry_on: dict[str, bool] = Field(
        {},
        max_length=RETRY_ON_MAX,
        description="which errors are attempted again, where that does not go without saying: a status such as 404,"
        " a class such as 5xx, or an error class such as timeout; the most specific counts",
    )


Concurrency = Literal["skip_if_running", "allow", "queue", "replace"]
CatchUpMode = Literal["fire_once", "skip", "fire_all"]
DeliveryMode = Literal["at_least_once", "at_most_once"]
AlertWord = Literal["failure", "skip", "missed", "late"]
OnResumeMode = Literal["skip", "catch_up"]


class JobRequest(BaseModel):
    """A job to create, or what a job is to be from now on. Unknown fields are refused."""

    job_id: str | None = Field(
        None,
        pattern="^[A-Za-z0-9_-]{1,64}$",
        description="the client's own; kept as <tenant>@<id>. Creating it again is safe",
    )
    idempotency_key: str | None = Field(
        None, min_length=1, max_length=255, description="creating a job again under the same key is safe"
    )
    name: str | None = Field(None, min_length=1, max_length=200, description="for people; need not be unique")
    schedule: ScheduleModel | None = Field(None, description="none: the job runs only when it is triggered by hand")
    run_at: Time | None = Field(None, description="the same as schedule.run_at")
    delay_s: float | None = Field(None, ge=0, le=DELAY_S_MAX, description="the same as schedule.delay_s")
    spread_s: float | None = Field(
        None, ge=0, le=SPREAD_S_MAX, description="the same as schedule.spread_s, beside run_at or delay_s at this level"
    )
    target: TargetModel
    retry: RetryModel | None = Field(None, description="none: one attempt")
    concurrency: Concurrency = Field(
        "skip_if_running",
        description="when the job is due while an execution of it is active: skip it, run both, let it wait its turn "
        "(oldest first, up to a bound), or cancel the active one and run it once that is over",
    )
    concurrency_group: str | None = Field(
        None,
        min_length=1,
        max_length=GROUP_CHARS_MAX,
        description="jobs of a tenant with the same group never run at once, and concurrency decides among them; given "
        "at the create and fixed; goes with no job_id, no idempotency_key, and not with allow",
    )
    max_duration_s: float | None = Field(
        None,
        gt=0,
        le=DURATION_S_MAX,
        description="what is not over so long after its first dispatch, over all its attempts, is stopped and DEAD",
    )
    catch_up: CatchUpMode = Field(
        "fire_once",
        description="of what was missed: one late run for all, none, or each (oldest first, at a bounded rate)",
    )
    misfire_after_s: float = Field(60.0, ge=0, le=86_400, description="later than this, an occurrence is missed")
    grace_s: float | None = Field(
        None, ge=0, le=31_622_400, description="with skip: what is not later than this still runs"
    )
    max_catch_up: int = Field(100, ge=1, le=10_000, description="with fire_all: so many are run at most")
    on_resume: OnResumeMode | None = Field(
        None, description="of what passed in a pause; none: skipped, but a one-off fires late"
    )
    finished_ttl_s: float = Field(
        604_800.0,
        ge=0,
        le=315_576_000,
        description="how long the job is kept after its end, until its key is free again",
    )
    delivery: DeliveryMode = Field(
        "at_least_once", description="at_most_once: an attempt that may have begun is never made again; it ends UNKNOWN"
    )
    alert_on: list[AlertWord] = Field(
        [],
        max_length=4,
        description="alerts of its own: an execution that fails for good, an occurrence that is skipped, occurrences "
        "that were missed and are not run, a run that is later than misfire_after_s",
    )
    labels: dict[str, Annotated[str, Field(min_length=1, max_length=LABEL_CHARS_MAX)]] | None = Field(
        None, max_length=LABELS_MAX
    )
    metadata: Any = Field(None, description="any JSON, at most 16 KiB, returned untouched")


class JobModel(BaseModel):
    """A job."""

    job_id: str
    tenant_id: str
    name: str | None
    state: Literal["ACTIVE", "PAUSED", "FINISHED"]
    version: int
    paused_reason: str | None
    paused_until: Time | None = Field(description="when a paused job resumes by itself")
    finished_at: Time | None = Field(description="since when nothing of the job is to come")
    schedule: ScheduleModel | None = Field(description="as it was given; null: only triggered by hand")
    target: TargetModel
    retry: RetryModel | None
    concurrency: Concurrency
    concurrency_group: str | None
    max_duration_s: float | None
    catch_up: CatchUpMode
    misfire_after_s: float
    grace_s: float | None
    max_catch_up: int | None = Field(description="null unless catch_up is fire_all")
    on_resume: OnResumeMode | None
    finished_ttl_s: float
    delivery: DeliveryMode
    alert_on: list[AlertWord]
    idempotency_key: str | None
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


class JobOrValidModel(RootModel[JobModel | ValidModel]):
    """A job, or the answer to validate_only."""


class PauseRequest(BaseModel):
    """Why a job is paused, and until when."""

    reason: str | None = Field(None, min_length=1, max_length=500, description="for people; kept with the job")
    until: Time | None = Field(None, description="when the job resumes by itself; none: when it is told to")


class TriggeredModel(BaseModel):
    """An execution that was asked for by hand."""

    job_id: str
    execution_id: str
    scheduled_for: Time
    detail: Literal["triggered", "queued"] = Field(description="queued: it waits for the end of what is active")


class JobListModel(BaseModel):
    """A page of jobs."""

    jobs: list[JobModel]
    next_page_token: str | None = Field(description="null on the last page")


class DeletedModel(BaseModel):
    """A job was deleted."""

    job_id: str
    deleted: Literal[True]
    detail: Literal["prevented", "already_fired"] = Field(
        description="prevented from firing, or had fired for the last time"
    )
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
    execution_id: str | None = Field(description="of a trigger or a redrive")


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
    state: State
    attempt_state: Literal["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"] | None
    reason: str | None
    job_version: int | None
    scheduled_for: Time = Field(description="the nominal time")
    due_at: Time | None = Field(description="when the execution was to run; of a redriven one, from when on")
    published_at: Time | None = Field(description="when the attempt's latest dispatch was written")
    started_at: Time | None = Field(description="by the worker's clock")
    finished_at: Time | None = Field(description="by the worker's clock")
    decided_at: Time | None = Field(
        description="when its owner decided on its state, by the brokers' clock: not to be compared with the worker's"
    )
    retry_at: Time | None = Field(description="of RETRY_SCHEDULED: when the next attempt is due")
    skipped_upto: Time | None = Field(description="of SKIPPED: the last of the nominal times from scheduled_for on")
    skipped_count: int | None = Field(description="of SKIPPED: how many they are; result says where more")
    lateness_ms: float | None = Field(
        description="published so long after it was due, or, of a retry, after its delay was over; null of a "
        "redelivered attempt, and where the attempt before is not in the answer"
    )
    worker_id: str | None
    redelivered: bool
    redrives: int = Field(description="how often the execution had been redriven by this attempt")
    lane: str | None
    error: ErrorModel | None
    result: str | None


class RunListModel(BaseModel):
    """A page of attempts, newest first."""

    runs: list[RunModel]
    next_page_token: str | None = Field(description="null on the last page")


class ExecutionModel(BaseModel):
    """An execution with its attempts, oldest first."""

    execution_id: str
    job_id: str
    scheduled_for: Time
    state: State
    redrives: int = Field(description="how often it was redriven")
    attempts: list[RunModel]


class RetriedModel(BaseModel):
    """A dead run that is attempted again."""

    job_id: str
    execution_id: str
    attempt: int = Field(description="the one that is to come; attempts go on counting")


class CancelledModel(BaseModel):
    """A run that is cancelled."""

    job_id: str
    execution_id: str
    detail: Literal["cancelled", "cancelling"] = Field(
        description="cancelled: it had not started, and has ended; cancelling: it ends once it is known not to run"
    )
    message: str


class ComingModel(BaseModel):
    """A time at which an expression is due."""

    at: Time = Field(description="by the zone's clock")
    utc: Time
    notes: list[str] = Field(
        description="what the clock does to it", examples=[["03:00, because 02:30 does not exist that day"]]
    )


class PreviewModel(BaseModel):
    """What an expression means, before any job has it."""

    cron: str = Field(description="with numbers in place of H, where a job_id picks them")
    timezone: str
    description: str = Field(description="in words", examples=["At 02:30"])
    kind: Literal["fixed_time", "cadence"] = Field(description="how it meets changes of the clock")
    zone_data: str = Field(description="release of the zone database", examples=["2026a"])
    times: list[ComingModel]


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
