"""Settings: every bound and address has a name here, a default, and an environment variable.

``TOCSIN_KAFKA__BOOTSTRAP_SERVERS`` sets ``kafka.bootstrap_servers``, and so on. Only ``bootstrap`` and ``cli`` read
this package; everything else is handed the values that it needs.
"""

from __future__ import annotations

import socket
from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tocsin.config.notifier import NotifierSettings
from tocsin.config.trigger import TriggerSettings
from tocsin.config.values import checked_names, listed
from tocsin.config.worker import WorkerSettings

__all__ = [
    "CassandraSettings",
    "ClusterSettings",
    "GatewaySettings",
    "KafkaSettings",
    "LaneSettings",
    "MetricsSettings",
    "NotifierSettings",
    "ProjectorSettings",
    "ReconcilerSettings",
    "Settings",
    "TriggerSettings",
    "WorkerSettings",
]


class KafkaSettings(BaseModel):
    """Where the log is."""

    bootstrap_servers: str = "127.0.0.1:9092"
    topic_prefix: str = "tocsin."
    extra: dict[str, str] = Field(
        default_factory=dict, description="librdkafka settings for every client (security.*, sasl.*)"
    )


class CassandraSettings(BaseModel):
    """Where the time index is. Cassandra 4.1+ or Scylla."""

    contact_points: Annotated[tuple[str, ...], NoDecode] = ("127.0.0.1",)
    port: int = 9042
    keyspace: str = "tocsin"
    local_datacenter: str | None = Field(None, description="None: that of the first contact point")
    replication_factor: int | None = Field(
        None,
        ge=1,
        description="only for a keyspace that `tocsin schema migrate` creates; None: 3, or 1 with fewer nodes",
    )
    request_timeout_s: float = 10.0
    username: str | None = Field(None, description="None: the store asks for no credentials")
    password: SecretStr | None = None
    requests_in_flight_max: int = Field(64, ge=1, description="requests of one process under way at once")
    page_rows_max: int = Field(5_000, ge=1, description="rows of an index bucket in one page")
    page_bytes_max: int = Field(
        2_000_000, ge=10_000, description="about how large a page of an index bucket may be, judged by the last one"
    )
    pages_waiting_bytes_max: int = Field(
        16_000_000, ge=1, description="index pages asked for and not yet taken up by the owner, before no more are"
    )
    batch_rows_max: int = Field(100, ge=1, description="rows of one partition in one batch")
    mixed_batch_rows_max: int = Field(30, ge=1, description="rows of several partitions in one batch")
    batch_bytes_max: int = Field(
        40_000, ge=1_000, description="of one batch; stay below the server's batch_size_fail_threshold"
    )

    @field_validator("contact_points", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)


class ClusterSettings(BaseModel):
    """What a cluster is created with. Shards cannot be changed afterwards."""

    shards: int = Field(8, ge=1, le=4096)
    outcome_partitions: int = Field(1, ge=1)
    lane_partitions: int = Field(16, ge=1)
    pools: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        max_length=100,
        description="worker pools, by name and separated by commas, that `tocsin topics apply` makes topics for;"
        " one that is no longer named stays until its topic is deleted",
    )
    replication_factor: int | None = Field(
        None,
        ge=1,
        description="of topics that are created; None: 3, 1 with one broker, refused with two. With 3 or more, two "
        "replicas must be in sync",
    )

    @field_validator("pools", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("pools")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_names(value)


class LaneSettings(BaseModel):
    """How executions are spread over the partitions of a lane."""

    tenant_spread: int = Field(8, ge=1, description="how many of a lane's partitions serve one tenant")


class GatewaySettings(BaseModel):
    """The REST door."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535, description="0: any free port")
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="names, separated by commas, under which it may be asked (the header Host), loopback standing for"
        " all of this machine's own. None: on a loopback address those, else any. Name yours if a proxy on this machine"
        " passes the header on",
    )
    outcome_wait_s: float = Field(
        2.0, gt=0, description="how long a request waits for its command's outcome before 202"
    )
    delivery_timeout_s: float = Field(5.0, gt=0, description="how long the log may take to acknowledge a command")
    store_wait_s: float = Field(5.0, gt=0, description="how long a request waits for the store before it says so")
    body_wait_s: float = Field(20.0, gt=0, description="how long a body may take to arrive")
    body_bytes_max: int = Field(1_000_000, ge=1)
    connections_max: int = Field(20_000, ge=1, description="connections and requests at once, before 503")
    stop_grace_s: float = Field(10.0, ge=1, description="how long requests under way may go on after a stop was asked")
    outcomes_kept_max: int = Field(100_000, ge=1)
    outcomes_kept_bytes_max: int = Field(128_000_000, ge=1)
    pending_max: int = Field(10_000, ge=1, description="requests waiting for outcomes, before 503")

    @field_validator("hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)


class ProjectorSettings(BaseModel):
    """Bounds of the projector."""

    batch_records_max: int = Field(2_000, ge=1)
    batch_bytes_max: int = Field(8_000_000, ge=1)
    poll_wait_max_s: float = Field(0.1, gt=0)
    topics_refresh_s: float = Field(30.0, gt=0, description="how soon the topic of a new lane or pool is seen")
    group_protocol: str = Field(
        "consumer", pattern="^(consumer|classic)$", description="classic for brokers before 4.0"
    )


class ReconcilerSettings(BaseModel):
    """Bounds of the reconciler."""

    every_s: float = Field(60.0, gt=0, description="how often it looks at what has closed")
    settle_s: float = Field(120.0, ge=0, description="how long after its end a minute is looked at first")
    look_back_s: float = Field(3_600.0, ge=0, description="how far back it begins when it starts")
    minutes_per_look_max: int = Field(60, ge=1, description="of one shard")
    open_minutes_max: int = Field(
        1_000, ge=0, description="minutes with something still in motion that are looked at again; the newest"
    )
    reads_max: int = Field(64, ge=1, description="runs read at once")
    patience_s: float = Field(
        60.0, gt=0, description="how long it waits for the projectors, and for owners to go on, in one look"
    )
    alerts_max: int = Field(20, ge=0, description="of one look that are told one by one; the rest is summed up")


class MetricsSettings(BaseModel):
    """Prometheus metrics of the process; the gateway also serves them at /metrics."""

    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535, description="0: any free port, printed at start")


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(env_prefix="TOCSIN_", env_nested_delimiter="__", extra="ignore")

    name: str = Field(
        default_factory=socket.gethostname, description="the operator's name of this process; stays over restarts"
    )
    kafka: KafkaSettings = KafkaSettings()
    cassandra: CassandraSettings = CassandraSettings()
    cluster: ClusterSettings = ClusterSettings()
    lane: LaneSettings = LaneSettings()
    trigger: TriggerSettings = TriggerSettings()
    worker: WorkerSettings = WorkerSettings()
    gateway: GatewaySettings = GatewaySettings()
    projector: ProjectorSettings = ProjectorSettings()
    reconciler: ReconcilerSettings = ReconcilerSettings()
    notifier: NotifierSettings = NotifierSettings()
    metrics: MetricsSettings = MetricsSettings()
    ready_file: str | None = Field(
        default=None, description="written once the process serves, with its pid and addresses, as JSON"
    )
    heartbeat_every_s: float = Field(default=5.0, gt=0)
    callback_secrets: Annotated[
        tuple[Annotated[SecretStr, Field(min_length=32)], ...], NoDecode, Field(max_length=2)
    ] = Field(
        default=(),
        description="prove the callbacks of targets; the same on workers and gateways, separated by commas: one or,"
        " while it is replaced, two, the newest first, 32 random characters each",
    )

    @field_validator("callback_secrets", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)
