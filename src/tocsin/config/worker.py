"""Settings of workers; a part of those in ``config``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from tocsin.config.programs import ProgramSettings
from tocsin.config.values import (
    SigningSecrets,
    checked_names,
    checked_networks,
    checked_secrets,
    listed,
)


class WorkerSettings(ProgramSettings):
    """Bounds of a worker process."""

    lanes: Annotated[tuple[str, ...], NoDecode] = Field(
        ("default", "message"), description="separated by commas; where only pools are named, none"
    )
    pools: Annotated[tuple[str, ...], NoDecode] = Field(
        (), max_length=100, description="names of pools that this worker serves, separated by commas"
    )
    running_max: int = Field(200, ge=1, description="attempts of this process under way at once")
    tenant_running_max: int | None = Field(
        None, ge=1, description="those of one tenant; None: as many as are still free, so half of them for one alone"
    )
    breaker_failures_min: int = Field(
        20, ge=1, description="failures of a tenant's target within breaker_window_s, before attempts of it stop"
    )
    breaker_failed_share: float = Field(0.9, gt=0, le=1, description="of all its attempts that ended meanwhile")
    breaker_window_s: float = Field(30.0, gt=0)
    breaker_open_s: float = Field(10.0, gt=0, description="after this one attempt is made, to see whether it is well")
    read_ahead_bytes_max: int = Field(
        16_000_000, ge=1, description="records fetched and not started; half of it in the client"
    )
    read_ahead_records_max: int = Field(
        2_000, ge=1, description="records of a lane that wait to be started, before fetching pauses"
    )
    window_max: int = Field(
        8_192, ge=64, le=8_192, description="offsets of a partition from the oldest unsettled one on"
    )
    begun_max: int = Field(500, ge=1, le=500, description="begun and unsettled offsets of a partition")
    poll_wait_max_s: float = Field(0.05, gt=0)
    commit_fresh_s: float = Field(5.0, gt=0)
    lease_after_s: float = Field(
        5.0, gt=0, description="an attempt that lasts longer is reported as RUNNING, and no longer depends on its lane"
    )
    session_timeout_s: float = Field(10.0, gt=0)
    stop_grace_s: float = Field(20.0, ge=0)
    stuck_attempts_max: int = Field(
        16, ge=1, description="attempts that cannot be stopped, before the process recycles itself"
    )
    app: str | None = Field(
        None,
        description="the app whose handlers this worker runs, as module:variable or path/to/file.py:variable; it serves"
        " the app's pool",
    )
    handler_processes: int = Field(4, ge=1, le=256, description="child processes for handlers that are plain functions")
    handler_wait_s: float = Field(
        5.0, ge=0, description="how long an attempt waits for one of them, before it is given back as not started"
    )
    alone_max: int = Field(
        8, ge=1, description="attempts that were lost twice and run in processes of their own, at once"
    )
    cancels_kept_max: int = Field(500_000, ge=1, description="cancelled executions that a lane remembers")
    message_batch_records_max: int = Field(
        500, ge=1, description="executions of the message lane settled in one transaction"
    )
    message_batch_bytes_max: int = Field(4_000_000, ge=1, description="messages and reports in one transaction")
    message_topic_age_s: float = Field(30.0, ge=0, description="how old what is known of a tenant's topic may be")
    transaction_timeout_s: float = Field(
        5.0, ge=1, description="how long the message lane's transaction may take before the brokers abort it"
    )
    response_bytes_max: int = Field(1_000_000, ge=1)
    allow_private_targets: bool = Field(
        False, description="let HTTP targets resolve to loopback, private and link-local addresses"
    )
    target_allow: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="networks such as 10.1.0.0/16, separated by commas, that HTTP targets may reach all the same"
    )
    target_deny: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="networks that HTTP targets may never reach, whatever else is allowed"
    )
    ca_file: str | None = Field(
        None, description="certificates, in PEM, that HTTP targets' are checked against beside those of the system"
    )
    signing_secrets: SigningSecrets = Field(
        default_factory=dict,
        description="with which HTTP requests are signed (Standard Webhooks): as JSON, by tenant or * for all others,"
        " one secret or, while it is replaced, two: whsec_ and the base64 of 24 to 64 bytes",
    )
    group_protocol: str = Field(
        "consumer", pattern="^(consumer|classic)$", description="classic for brokers before 4.0"
    )

    @property
    def all_lanes(self) -> tuple[str, ...]:
        """Every lane that this worker takes executions from; where only pools were named, theirs alone."""
        lanes = () if self.pools and "lanes" not in self.model_fields_set else self.lanes
        return tuple(dict.fromkeys((*lanes, *(f"pool.{pool}" for pool in self.pools))))

    @model_validator(mode="after")
    def _serves_something(self) -> WorkerSettings:
        if not self.all_lanes:
            raise ValueError("lanes and pools are both empty: name at least one")
        return self

    @field_validator("pools")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_names(value)

    @field_validator("target_allow", "target_deny", "lanes", "pools", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("target_allow", "target_deny")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_networks(value)

    @field_validator("signing_secrets")
    @classmethod
    def _are_secrets(cls, value: SigningSecrets) -> SigningSecrets:
        return checked_secrets(value)
