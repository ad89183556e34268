"""What the meters are told of a turn."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.effects import Step
from tocsin.engine.shard_engine import ShardEngine
from tocsin.ports.meters import TriggerMeter


def measure(
    meter: TriggerMeter,
    engines: Mapping[int, ShardEngine],
    now: Micros,
    committed_at: Micros,
    steps: Mapping[int, Step],
) -> None:
    """Count what a turn did, once it is committed."""
    if any(step.turn for step in steps.values()):
        meter.turn((committed_at - now) / SECOND)
    for shard, step in steps.items():
        if not step.turn:
            continue
        tally = step.tally
        if tally.lateness:
            meter.fired(shard, [(late + committed_at - now) / SECOND for late in tally.lateness])
        for kind, accepted in tally.commands:
            meter.command_decided(kind, accepted)
        for state, count in tally.completed.items():
            meter.completed(state, count)
        meter.stale_reports(tally.stale_reports)
        meter.redelivered(tally.redelivered)
        for kind, count in tally.dead_letters.items():
            meter.dead_letters(kind, count)
        for kind, count in tally.alerts.items():
            meter.alerted(kind, count)


def measure_standing(meter: TriggerMeter, engines: Mapping[int, ShardEngine], now: Micros) -> None:
    """Say how far every shard is: one that stands still makes no turns that would say it."""
    for shard, engine in engines.items():
        meter.cursor_age(shard, max(0.0, (now - engine.state.cursor.run_at) / SECOND))
        meter.unwritten_turns(shard, engine.backlog().unwritten_turns)
