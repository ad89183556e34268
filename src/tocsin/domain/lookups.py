"""One question about an expression, as a mapping from outside: which times come next, or came before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from tocsin.domain import ids
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.fields import FieldReader, shown
from tocsin.domain.instants import SECOND, Micros, parse_rfc3339
from tocsin.domain.recurrence import CronError, compile_cron
from tocsin.domain.recurrence.zones import zone_timeline

TIMES_MAX: Final = 1_000
KNOWN: Final = ("expr", "timezone", "start", "n", "direction", "job_id")
_START_REMEDY: Final = "give an RFC 3339 time between 1970 and 2199, or one without an offset for wall time in the zone"


def look_up(mapping: object) -> list[Micros]:
    """Answer a question: ``{expr, timezone, start, n, direction, job_id}``.

    Args:
        mapping: ``start`` is an RFC 3339 time, or wall time in the zone where it has no offset: of one that the clock
            shows twice the first, of one that it skips the instant that the former offset gives. ``n`` is 1 where it is
            absent, ``direction`` is ``next`` or ``prev``, ``job_id`` is needed for ``H`` only.

    Returns:
        The times strictly after, or before, the start, nearest first, µs; fewer than n where there are no more.

    Raises:
        InvalidInput: with every fault that was found.
    """
    if not isinstance(mapping, Mapping):
        raise InvalidInput([Fault("", shown(mapping), "is not an object", f"give one with {', '.join(KNOWN)}")])
    faults: list[Fault] = []
    reader = FieldReader(mapping, "", faults)
    reader.finish(KNOWN, {})
    expression = _text(reader, "expr", 'give a cron expression such as "0 2 * * *"')
    timezone = _text(reader, "timezone", 'give an IANA zone such as "Asia/Kolkata"')
    remedy = f"give a whole number from 1 to {TIMES_MAX}"
    count = reader.whole("n", low=1, high=TIMES_MAX, unit="times", remedy=remedy)
    direction = reader.choice("direction", ("next", "prev"), default="next")
    job_id = None
    try:
        job_id = whole_job_id(reader.get("job_id"))
    except InvalidInput as error:
        faults.extend(error.faults)
    start = _text(reader, "start", _START_REMEDY)
    if faults or expression is None or timezone is None or start is None:
        raise InvalidInput(faults)
    try:
        plan = compile_cron(expression, timezone, job_id=job_id)
    except CronError as error:
        fault = error.fault()
        name = "expr" if fault.field == "cron" else fault.field
        raise InvalidInput([Fault(name, fault.value, fault.problem, fault.remedy)]) from None
    at: Micros | None = _start(start, timezone)
    step = plan.next_after if direction == "next" else plan.previous_before
    found: list[Micros] = []
    while len(found) < (count or 1) and at is not None and (at := step(at)) is not None:
        found.append(at)
    return found


def _text(reader: FieldReader, name: str, remedy: str) -> str | None:
    value = reader.get(name)
    if isinstance(value, str):
        return value
    reader.fault(name, value, "is missing" if value is None else "is not a text", remedy)
    return None


def whole_job_id(given: object, tenant_id: str | None = None) -> str | None:
    """Return the id under which a job is, or will be, kept.

    Args:
        given: the job's id; None where there is none.
        tenant_id: whose job it must be; None: the one that the id names, else the default one.

    Raises:
        InvalidInput: it is no job's id.
    """
    if given is None:
        return None
    named = given.rpartition("@")[0] if isinstance(given, str) else ""
    tenant = tenant_id or named or ids.DEFAULT_TENANT
    job_id = ids.full_job_id(tenant, given) if isinstance(given, str) and ids.NAME.fullmatch(tenant) else None
    if job_id is None:
        remedy = "give a job's id, in front of it its tenant and @ where that is not the default one"
        raise InvalidInput([Fault("job_id", shown(given), "is not a job id", remedy)])
    return job_id


def _start(text: str, timezone: str) -> Micros:
    try:
        moment = datetime.fromisoformat(text)
        naive = moment.isoformat() if moment.tzinfo is None else None
    except (ValueError, OverflowError):
        naive = None
    try:
        if naive is None:
            return parse_rfc3339(text)
        wall_s, rest = divmod(parse_rfc3339(f"{naive}Z"), SECOND)
    except ValueError as error:
        raise InvalidInput([Fault("start", shown(text), str(error), _START_REMEDY)]) from None
    clock = zone_timeline(timezone).first
    at_s, gap = clock.instant(wall_s), clock.gap(wall_s)
    return (at_s if gap is None else at_s + wall_s - gap[0]) * SECOND + rest
