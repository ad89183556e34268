"""When recurring jobs are due: cron expressions and intervals, evaluated as pure functions of an instant.

Instants are µs since the epoch, in UTC; the local calendar lives inside. The rules are those of the Vixie cron daemon
as Debian ships it, with the additions and choices of docs/cron.md. No library evaluates here: those at hand fire twice
in a repeated hour, or find out that a date is impossible only when they look for it.

Invariants: ``next_after(x) > x``; later questions never get earlier answers; an answer depends on nothing but the
expression, the zone database of the pinned package, and the instant. No clock, no logging; the only bytes read from
outside are zone files of that package.
"""

from __future__ import annotations

from tocsin.domain.recurrence.calendars import EXCLUDED_DATES_MAX, Calendar
from tocsin.domain.recurrence.compiling import compile_cron
from tocsin.domain.recurrence.errors import CronError
from tocsin.domain.recurrence.every import EveryPlan
from tocsin.domain.recurrence.hashed import check_for_all, write_out
from tocsin.domain.recurrence.hashing import offset_in
from tocsin.domain.recurrence.occurrences import Recurrence
from tocsin.domain.recurrence.parsing import uses_job_id
from tocsin.domain.recurrence.plan import CronPlan, DstPolicy
from tocsin.domain.recurrence.zones import TZDATA_VERSION, known_zone, require_zone, zone_names

__all__ = [
    "EXCLUDED_DATES_MAX",
    "TZDATA_VERSION",
    "Calendar",
    "CronError",
    "CronPlan",
    "DstPolicy",
    "EveryPlan",
    "Recurrence",
    "check_for_all",
    "compile_cron",
    "known_zone",
    "offset_in",
    "require_zone",
    "uses_job_id",
    "write_out",
    "zone_names",
]
