"""Settings: every bound and address has a name here, a default, and an environment variable.

``TOCSIN_KAFKA__BOOTSTRAP_SERVERS`` sets ``kafka.bootstrap_servers``, and so on. Only ``bootstrap`` and ``cli`` read
this module; everything else is handed the values that it needs.
"""

from __future__ import annotations

import socket
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tocsin.config_programs import ProgramSettings
from tocsin.config_values import (
    SigningSecrets,
    check_recipient,
    checked_names,
    checked_networks,
    checked_secrets,
    listed,
)


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


class TriggerSettings(BaseModel):
    """Bounds of the owner's turn."""

    fires_per_turn_max: int = Field(5_000, ge=1)
    fire_bytes_per_turn_max: int = Field(16_000_000, ge=1)
    retry_bytes_per_turn_max: int = Field(8_000_000, ge=1, description="of what one shard dispatches again")
    report_bytes_per_turn_max: int = Field(
        8_000_000, ge=1, description="of what reports and verdicts of one shard lead to"
    )
    transaction_bytes_max: int = Field(
        64_000_000, ge=1, description="a turn that holds so much leaves the remaining shards to the next one"
    )
    commands_per_turn_max: int = Field(1_000, ge=1)
    command_bytes_per_turn_max: int = Field(8_000_000, ge=1)
    command_bytes_waiting_max: int = Field(32_000_000, ge=1, description="of one shard, before its partition pauses")
    unwritten_bytes_max: int = Field(64_000_000, ge=1, description="rows of one shard not acknowledged by the store")
    returned_per_s: int = Field(
        500, ge=1, description="dispatches of one tenant that workers gave back and that a shard sends out again"
    )
    tenant_failure_rate: float = Field(
        0.9, gt=0, le=1, description="of a tenant's attempts that ended in a shard: its retries pause there"
    )
    tenant_failures_min: int = Field(100, ge=1, description="so many of them must have failed within the window")
    tenant_failure_window_s: float = Field(60.0, gt=0)
    retries_pause_s: float = Field(600.0, gt=0, description="how long, unless somebody resumes them")
    retries_resumed_per_s: int = Field(
        20, ge=1, description="retries of one tenant that a shard sends out once their pause is over"
    )
    reports_per_turn_max: int = Field(5_000, ge=1)
    executions_kept_days: float = Field(
        7.0, gt=1, description="at most the retention of the lanes' topics; a day before, what is queued goes out anew"
    )
    reports_waiting_max: int = Field(50_000, ge=1, description="reports read and not decided, before no more are read")
    commands_waiting_max: int = Field(
        20_000, ge=1, description="commands of a shard read ahead before its partition pauses"
    )
    preload_minutes: int = Field(2, ge=1, description="minutes of the index held in memory ahead of now")
    preload_lead_s: float = Field(
        30.0, ge=1, description="how long before a minute comes into the preload its read begins"
    )
    bucket_reads_max: int = Field(4, ge=1, description="bucket reads of one shard under way at once")
    index_kept_s: float = Field(
        86_400.0, ge=0, description="how long a passed minute stays in the index before it is deleted whole"
    )
    buckets_deleted_per_turn_max: int = Field(60, ge=1, description="passed minutes of one shard deleted with one turn")
    unwritten_turns_max: int = Field(
        10_000, ge=1, description="turns whose index writes are not acknowledged, before commands wait"
    )
    work_portions_per_turn_max: int = Field(
        500, ge=1, description="portions of work longer than a turn (such as missed executions) of one shard"
    )
    work_bytes_per_turn_max: int = Field(4_000_000, ge=1)
    catch_up_per_s: float = Field(100.0, gt=0, le=1_000_000, description="missed runs of one shard")
    catch_up_job_per_s: float = Field(10.0, gt=0, le=1_000_000, description="missed runs of one job")
    park_after_s: float = Field(
        1.0, gt=0, description="a job's row that is slower to come is not waited for: its commands are parked"
    )
    parked_max: int = Field(10_000, ge=1, description="parked commands of one shard, before its commands wait")
    parked_bytes_max: int = Field(16_000_000, ge=1, description="their bytes")
    delta_bytes_max: int = Field(
        512_000, ge=10_000, description="a larger delta is written in parts; also a snapshot's chunk"
    )
    max_reaps: int = Field(
        3, ge=1, description="deaths of processes that ran an execution alone, before it becomes a dead letter"
    )
    alerts_per_turn_max: int = Field(
        20, ge=0, description="alerts of one shard told one by one in one turn; the rest is summed up by kind"
    )
    overlap_queue_max: int = Field(
        100,
        ge=1,
        le=10_000,
        description="executions of a job, or of a concurrency group, that wait behind an active one",
    )
    cursor_persist_s: float = Field(10.0, gt=0, description="an idle shard writes its cursor this often")
    zone_change_after_s: float = Field(
        600.0, ge=60, le=86_400, description="zone data count so long after an owner found others than its shard's"
    )
    poll_wait_max_s: float = Field(0.02, gt=0)
    transaction_timeout_s: float = Field(5.0, gt=0)
    session_timeout_s: float = Field(10.0, gt=0)
    rebuild_page_records_max: int = Field(
        2_000, ge=1, description="records of the jobs log read at once while the index is rebuilt"
    )
    log_kept_days: float = Field(7.0, gt=0, description="applied commands and reports younger than this are kept")


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


class NotifierSettings(BaseModel):
    """Where alerts are posted to, and bounds of posting them."""

    webhooks: dict[str, str] = Field(
        default_factory=dict,
        max_length=10_000,
        description="URLs that alerts are posted to: as JSON, by tenant, * for all other tenants, and @operator for"
        " alerts that are no tenant's",
    )
    signing_secrets: SigningSecrets = Field(
        default_factory=dict, description="with which posts are signed: as worker.signing_secrets, and @operator"
    )
    allow_private: bool = Field(False, description="let webhooks resolve to loopback, private and link-local addresses")
    allow: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="networks, separated by commas, that webhooks may reach all the same"
    )
    deny: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="networks that webhooks may never reach, whatever else is allowed"
    )
    ca_file: str | None = Field(None, description="certificates, in PEM, to trust beside those of the system")
    timeout_s: float = Field(10.0, gt=0, le=60, description="how long one post may take")
    retry_first_s: float = Field(
        1.0, gt=0, description="how long a recipient is left alone after a failure; doubled with each further one"
    )
    retry_max_s: float = Field(300.0, gt=0)
    give_up_after_s: float = Field(3_600.0, gt=0, description="how long an alert is tried before it is dropped")
    queue_max: int = Field(1_000, ge=1, description="alerts of one tenant that wait; beyond, its oldest are dropped")
    waiting_max: int = Field(20_000, ge=1, description="alerts that wait; beyond, the longest queue gives way")
    posts_max: int = Field(64, ge=1, description="posts under way at once")
    recipient_posts_max: int = Field(4, ge=1, description="of these, for one tenant")
    poll_wait_max_s: float = Field(0.1, gt=0)
    group_protocol: str = Field(
        "consumer", pattern="^(consumer|classic)$", description="classic for brokers before 4.0"
    )

    @field_validator("allow", "deny", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("allow", "deny")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return checked_networks(value)

    @field_validator("webhooks")
    @classmethod
    def _are_webhooks(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            check_recipient(name)
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
                # The URL may hold a secret, so it is not repeated.
                raise ValueError(f"the webhook of {name!r} is no URL: give http:// or https://, a host and a path")
        return value

    @field_validator("signing_secrets")
    @classmethod
    def _are_secrets(cls, value: SigningSecrets) -> SigningSecrets:
        for name in value:
            check_recipient(name)
        return checked_secrets(value)


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
