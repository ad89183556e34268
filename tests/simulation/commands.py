"""Commands that simulated clients send: right ones of every kind, repeated, misplaced, and wrong ones."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation import zones
from tests.simulation.world import World
from tocsin.domain import ids
from tocsin.domain.commands import Command
from tocsin.domain.instants import SECOND, Micros, format_rfc3339
from tocsin.domain.sharding import shard_of
from tocsin.ports.shard_log import COMMANDS

NAMES: Final = ("a", "b", "c")
"""A few clients' own ids, so that they are used again."""
KEYS: Final = ("k1", "k2")
ZONES: Final = ("Europe/Berlin", "Australia/Lord_Howe", "UTC", "Asia/Kolkata")
CRONS: Final = ("* * * * *", "*/20 * * * * *", "5,35 * * * * *", "*/2 * * * *", "30 2 * * *", "0 3 * * *")

POLICIES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"concurrency": "allow"},
    {"concurrency": "allow", "misfire_after_s": 0},
    {"concurrency": "allow", "misfire_after_s": 15},
    {"concurrency": "allow", "retry": {"max_attempts": 2, "base_s": 2, "max_s": 4}, "alert_on": ["failure"]},
    {"retry": {"max_attempts": 3, "backoff": "fixed", "base_s": 3}},
    {"catch_up": "skip", "misfire_after_s": 10, "alert_on": ["missed"]},
    {"catch_up": "skip", "grace_s": 20, "concurrency": "allow"},
    {"catch_up": "fire_all", "misfire_after_s": 5, "max_catch_up": 20},
    {"catch_up": "fire_all", "misfire_after_s": 5, "concurrency": "allow"},
    {"delivery": "at_most_once", "concurrency": "allow", "alert_on": ["failure"]},
    {"delivery": "at_most_once", "retry": {"max_attempts": 3, "backoff": "fixed", "base_s": 3}},
)
"""What jobs may ask for besides their times; policies that come later are added here."""


def definition(world: World) -> dict[str, Any]:
    """Draw a job."""
    chance, now = world.chance, world.broker.now
    target = {"type": "http", "url": f"https://example.test/{chance.randrange(3)}", "timeout_s": 10}
    kind = chance.random()
    schedule: dict[str, Any]
    if kind < 0.45:
        at = now + round(chance.choice((-90, -5, 0, 0.001, 0.5, 2, 5, 12, 30, 61, 100, 5_000)) * SECOND)
        if chance.random() < 0.4:
            at -= at % (20 * SECOND)  # people like round times, so many are due at once
        schedule = {"schedule": {"run_at": format_rfc3339(at)}}
    elif kind < 0.55:
        schedule = {"delay_s": chance.choice((0, 0.25, 3, 20, 70, 4_000))}
    elif kind < 0.8:
        every: dict[str, Any] = {"every_s": chance.choice((2, 3, 7, 7.5, 20, 60))}
        if chance.random() < 0.3:
            every["anchor_at"] = format_rfc3339((now + chance.choice((-100, 10)) * SECOND) // SECOND * SECOND)
        schedule = {"schedule": every}
    elif kind < 0.96:
        schedule = {"schedule": {"cron": chance.choice(CRONS), "timezone": chance.choice(ZONES)}}
    else:
        schedule = {}
    return {**schedule, "target": target, **chance.choice(POLICIES)}


def _send(world: World, command: Command, shard: int | None = None, at: Micros | None = None) -> None:
    job_id = command.job_id or ""
    if shard is None:
        full = ids.full_job_id(command.tenant_id or ids.DEFAULT_TENANT, job_id) or job_id
        shard = shard_of(full, world.shards)
    world.tell(f"sends {command.kind} {command.command_id} of {job_id or 'a job'} to {shard}: {command.definition}")
    value = world.codec.encode_command(command)
    world.sent.append((shard, job_id.encode(), value))
    world.broker.append(COMMANDS, shard, job_id.encode(), value, at)


def _command_id(world: World) -> str:
    world.commands_sent += 1
    return f"c{world.commands_sent}"


def create(world: World) -> None:
    """Create a job under an id that a gateway made, or a client's own, or a key, or none."""
    chance, body = world.chance, definition(world)
    kind = chance.random()
    job_id: str | None
    shard = None
    if kind < 0.6:
        made = (world.broker.now - chance.choice((0, 0, 3, 2_000)) * 1000) // 1000
        job_id = ids.made_job_id(f"{made:012x}{world.commands_sent:020x}")
        world.jobs.append(job_id)
    elif kind < 0.85:
        job_id = chance.choice(NAMES)
    elif kind < 0.95:
        job_id, key = None, chance.choice(KEYS)
        body["idempotency_key"] = key
        keyed = ids.keyed_job_id(ids.DEFAULT_TENANT, key)
        shard = shard_of(keyed, world.shards)
        if keyed not in world.jobs:
            world.jobs.append(keyed)
    else:
        job_id, shard = None, chance.randrange(world.shards)
    if chance.random() < 0.05:
        shard = chance.randrange(world.shards)
    _send(world, Command("create", _command_id(world), job_id, None, 0, body), shard)


OVERLAPPING: Final[tuple[dict[str, Any], ...]] = (
    {"concurrency": "queue"},
    {"concurrency": "queue", "retry": {"max_attempts": 2, "backoff": "fixed", "base_s": 3}},
    {"concurrency": "queue", "catch_up": "fire_all", "misfire_after_s": 5, "max_catch_up": 20},
    {"concurrency": "queue", "max_duration_s": 6, "retry": {"max_attempts": 3, "backoff": "fixed", "base_s": 4}},
    {"concurrency": "replace"},
    {"concurrency": "replace", "retry": {"max_attempts": 3, "backoff": "fixed", "base_s": 3}},
    {"concurrency": "replace", "catch_up": "fire_all", "misfire_after_s": 5, "max_catch_up": 20},
    {"concurrency": "skip_if_running", "max_duration_s": 5},
)
"""Policies of jobs whose runs often overlap; only in some runs."""
GROUPS: Final = ("g1", "g2")


def create_overlapping(world: World) -> None:
    """Create a job that is often due while it runs; some are in a group."""
    chance, now = world.chance, world.broker.now
    schedule: dict[str, Any] = {"schedule": {"every_s": chance.choice((2, 3, 5, 7, 20))}}
    if chance.random() < 0.3:
        schedule = {"delay_s": chance.choice((0, 1, 5))} if chance.random() < 0.7 else {}
    target = {"type": "http", "url": "https://example.test/overlap", "timeout_s": 10}
    body = {**schedule, "target": target, **chance.choice(OVERLAPPING)}
    unique = f"{now // 1000:012x}{world.commands_sent:020x}"
    job_id = ids.made_job_id(unique)
    if chance.random() < 0.4:
        body["concurrency_group"] = group = chance.choice(GROUPS)
        job_id = ids.grouped_job_id(ids.DEFAULT_TENANT, group, unique)
    world.jobs.append(job_id)
    world.overlapping.append(job_id)
    _send(world, Command("create", _command_id(world), job_id, None, 0, body))


def trigger_overlapping(world: World) -> None:
    """Trigger a job whose runs overlap, now and then several times."""
    if world.overlapping:
        job_id = world.chance.choice(world.overlapping[-6:])
        for _ in range(world.chance.choice((1, 1, 2, 5))):
            _send(world, Command("trigger", _command_id(world), job_id, None, 0))


def cancel(world: World) -> None:
    """Cancel some execution: one that is active, or one that has ended."""
    ends, chance = world.oracle.ends, world.chance
    names = list(ends.active) if chance.random() < 0.9 else list(ends.ended)
    if not names:
        return
    name = chance.choice(names[-12:])
    job_id = name.split(".", 1)[0]
    shard = chance.randrange(world.shards) if chance.random() < 0.05 else None
    _send(world, Command("cancel", _command_id(world), job_id, None, 0, execution_id=name), shard)


def create_zoned(world: World) -> None:
    """Create a job by the clock of the zone of which there are other data."""
    made = world.broker.now // 1000
    job_id = ids.made_job_id(f"{made:012x}{world.commands_sent:020x}")
    world.jobs.append(job_id)
    schedule: dict[str, Any] = {"cron": world.chance.choice(zones.CRONS), "timezone": zones.ZONE}
    target = {"type": "http", "url": "https://example.test/zoned", "timeout_s": 10}
    body = {"schedule": schedule, "target": target, **world.chance.choice(POLICIES)}
    _send(world, Command("create", _command_id(world), job_id, None, 0, body))


def create_far(world: World) -> None:
    """Create a job that is due in an hour."""
    made = world.broker.now // 1000
    job_id = ids.made_job_id(f"{made:012x}{world.commands_sent:020x}")
    world.jobs.append(job_id)
    at = format_rfc3339(world.broker.now + 3_600 * SECOND)
    body = {"schedule": {"run_at": at}, "target": {"type": "http", "url": "https://example.test/far"}}
    _send(world, Command("create", _command_id(world), job_id, None, 0, body))


def change(world: World) -> None:
    """Update, pause, resume, trigger or delete some job."""
    chance = world.chance
    job_id = chance.choice((*NAMES, *world.jobs[-6:], *world.jobs[-6:]))
    kind = chance.choice(("update", "update", "pause", "resume", "resume", "trigger", "trigger", "delete"))
    body = None
    if kind == "update":
        body = definition(world)
        former = world.oracle.jobs.definition_of(job_id)
        if former is not None and chance.random() < 0.4:
            body = {**former, "target": body["target"]}  # another target, the same times
    wanted = None
    if chance.random() < 0.1:
        wanted = world.oracle.jobs.version_of(job_id)
    shard = chance.randrange(world.shards) if chance.random() < 0.05 else None
    command_id = None if chance.random() < 0.05 else _command_id(world)
    _send(world, Command(kind, command_id, job_id, None, 0, body, wanted), shard)


def change_twice(world: World) -> None:
    """Move a job that has far to go, twice in a row."""
    far = [job for job in world.oracle.jobs.known.values() if job.once and job.once > world.broker.now + 300 * SECOND]
    if not far:
        return
    job = world.chance.choice(far)
    for hours in (2, 3):
        at = format_rfc3339(world.broker.now + hours * 3_600 * SECOND)
        body = {"schedule": {"run_at": at}, "target": {"type": "http", "url": "https://example.test/moved"}}
        _send(world, Command("update", _command_id(world), job.job_id, None, 0, body))


def repeat(world: World) -> None:
    """Send the very bytes of an earlier command again, as a client does that heard no answer."""
    if world.sent:
        shard, key, value = world.sent[-1 - min(world.chance.randrange(8), len(world.sent) - 1)]
        world.tell(f"sends an earlier command to {shard} again")
        world.pass_time(1_000)
        world.broker.append(COMMANDS, shard, key, value)


def odd(world: World) -> None:
    """Send what is no valid command."""
    chance = world.chance
    shard = chance.randrange(world.shards)
    command_id = _command_id(world)
    target = {"type": "http", "url": "https://example.test/"}
    kind = chance.randrange(5)
    if kind == 0:
        world.tell(f"sends garbage to {shard}")
        world.broker.append(COMMANDS, shard, b"x", b"\x00garbage")
    elif kind == 1:
        _send(
            world, Command("create", command_id, "a", None, 0, {"schedule": {"cron": "61 * * * *"}, "target": target})
        )
    elif kind == 2:
        _send(world, Command("dance", command_id, "a", None, 0))
    elif kind == 3:
        _send(world, Command("create", command_id, "no id!", None, 0, {"delay_s": 1, "target": target}), shard)
    else:
        wrong = (shard_of("default@a", world.shards) + 1) % world.shards
        _send(world, Command("pause", command_id, "default@a", None, 0, forwarded_from="9/9"), wrong)
