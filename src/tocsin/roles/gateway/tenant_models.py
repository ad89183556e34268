"""What answers about a whole tenant look like, for the OpenAPI document only."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ResumedRetriesModel(BaseModel):
    """In how many shards a tenant's retries go on."""

    tenant_id: str
    resumed: int = Field(description="shards where they were paused")
    unchanged: int = Field(description="shards where they were not")
    pending: int = Field(description="shards that have not answered yet, and will")
