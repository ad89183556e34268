"""What requests and answers about dead letters look like, for the OpenAPI document only."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tocsin.roles.gateway.models import Time
from tocsin.roles.gateway.target_models import TargetModel


class LetterModel(BaseModel):
    """Something that could not be served."""

    dead_letter_id: str
    kind: Literal["record", "entry", "work", "execution"] = Field(
        description="execution: its attempts are used up; the others could not be read, or made their owner fail"
    )
    reason: str
    at: Time = Field(description="when it was set aside")
    job_id: str | None
    execution_id: str | None
    redrives: int = Field(description="of an execution: how often it had been redriven by then")
    topic: str = Field(description="where the record stood")
    partition: int
    offset: int
    size: int = Field(description="bytes that were kept of it")


class LetterListModel(BaseModel):
    """A page of dead letters, newest first."""

    dead_letters: list[LetterModel]
    next_page_token: str | None = Field(description="null on the last page")


class ValueModel(BaseModel):
    """Bytes."""

    encoding: Literal["utf-8", "base64"]
    content: str


class LetterExecutionModel(BaseModel):
    """What a dead execution was to do, as its last dispatch had it."""

    attempt: int
    scheduled_for: Time
    target: TargetModel


class WholeLetterModel(LetterModel):
    """A dead letter with its bytes, at most 64 KiB of them."""

    execution: LetterExecutionModel | None = Field(
        description="what an execution's bytes say; null of other kinds, and of what was too large to keep whole"
    )
    value: ValueModel


class LetterFilterModel(BaseModel):
    """Which dead executions are to run again; an empty object means all."""

    job_id: str | None = Field(None, max_length=129, description="only those of this job")
    dead_letter_ids: list[str] | None = Field(None, min_length=1, max_length=500, description="only these")


class RedriveRequest(BaseModel):
    """Dead executions that are to be attempted again."""

    filter: LetterFilterModel
    max_per_s: float = Field(10.0, ge=0.01, le=1000, description="so many at most become due in a second")
    dry_run: bool = Field(False, description="only tell what would be redriven")
    limit: int = Field(100, ge=1, le=500, description="how many dead letters one request looks at")
    page_token: str | None = Field(None, max_length=100, description="next_page_token of the request before")


class RedriveResultModel(BaseModel):
    """What came of one dead letter."""

    dead_letter_id: str
    execution_id: str | None
    outcome: Literal["redriven", "would_be_redriven", "not_dead", "running", "not_found", "pending", "invalid"] = Field(
        description="not_dead: it was redriven before, or a newer dead letter stands for it, or it is UNKNOWN and may "
        "have run; running: an execution of the job is active, and its concurrency is skip_if_running; pending: its "
        "owner has not decided in time"
    )
    not_before: Time | None = Field(description="when its attempt becomes due")
    detail: str | None


class RedriveModel(BaseModel):
    """What came of a redrive."""

    dry_run: bool
    redriven: int = Field(description="how many were redriven, or would be")
    results: list[RedriveResultModel]
    next_page_token: str | None = Field(description="null when there are no more dead letters")
