"""Settings of triggers; a part of those in ``config``."""

from __future__ import annotations

from pydantic import BaseModel, Field


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
    job_alerts_every_s: float = Field(
        60.0, ge=1, le=86_400, description="how far apart alerts are by which one job asks to be told of the same"
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
    overlap_allow_max: int = Field(
        10_000, ge=1, le=1_000_000, description="executions of a job that are active beside one another, with `allow`"
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
