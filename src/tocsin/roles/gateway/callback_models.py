"""What callbacks and the answers to them look like, for the OpenAPI document only."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tocsin.domain.policies import RETRY_S_MAX


class CompleteRequest(BaseModel):
    """Which dispatch has succeeded."""

    attempt: int = Field(ge=1, le=2**31 - 1, description="of the header Tocsin-Attempt")
    token: int = Field(ge=0, le=2**63 - 1, description="of the header Tocsin-Token")
    key: str = Field(min_length=64, max_length=64, description="of the header Tocsin-Callback-Key")
    result: str | None = Field(None, min_length=1, max_length=1_000, description="for people; kept with the run")


class FailRequest(BaseModel):
    """Which dispatch has failed, and whether another attempt may go better."""

    attempt: int = Field(ge=1, le=2**31 - 1, description="of the header Tocsin-Attempt")
    token: int = Field(ge=0, le=2**63 - 1, description="of the header Tocsin-Token")
    key: str = Field(min_length=64, max_length=64, description="of the header Tocsin-Callback-Key")
    error: str | None = Field(None, min_length=1, max_length=1_000, description="for people; kept with the run")
    retryable: bool = Field(True, description="false: no further attempt is made")
    retry_after_s: float | None = Field(
        None, ge=0, le=RETRY_S_MAX, description="lengthens the delay before the next attempt, up to the job's max_s"
    )


class ReportedModel(BaseModel):
    """A callback was taken."""

    execution_id: str
    attempt: int
    token: int
    reported: Literal["SUCCEEDED", "FAILED"]
    detail: str
