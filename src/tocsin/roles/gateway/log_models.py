"""What answers about the output of attempts look like, for the OpenAPI document only."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tocsin.roles.gateway.models import State, Time


class ChunkModel(BaseModel):
    """A piece of what an attempt printed, of both streams as it came."""

    token: int = Field(description="of the dispatch that printed it; of a redelivered attempt there may be several")
    seq: int = Field(description="counts from 0 in each dispatch, without gaps")
    at: Time = Field(description="when its first byte was printed, by the worker's clock")
    text: str
    lost_bytes: int = Field(description="printed right before this text, and not kept")
    lost_why: Literal["limit", "store"] | None = Field(
        description="limit: more than is kept of one attempt; store: the store was too slow, or away"
    )
    last: bool = Field(description="the end of the dispatch's output; a worker that died writes none")


class LogModel(BaseModel):
    """What an attempt printed, in order."""

    execution_id: str
    attempt: int
    token: int | None = Field(description="of the attempt's latest dispatch")
    state: State = Field(description="of the attempt, as the view has it")
    chunks: list[ChunkModel]
    next_after: str | None = Field(description="goes on behind the last chunk, also behind one yet to come")
