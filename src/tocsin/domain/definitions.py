"""What a caller may ask for: the one validation that serves every door (REST, command topic, CLI).

``parse`` takes the mapping that a door received, whatever encoding it came in, and returns a definition or all faults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from tocsin.domain.alert_on import AlertOn, parse_alert_on
from tocsin.domain.catch_up import CatchUpPolicy, catch_up_mapping, parse_catch_up
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.exclusions import calendar_mapping
from tocsin.domain.fields import JSON_DEPTH_MAX, FieldReader, as_json, has_surrogate, shown
from tocsin.domain.ids import DEFAULT_TENANT, NAME
from tocsin.domain.instants import Micros, format_rfc3339
from tocsin.domain.policies import (
    DeliveryPolicy,
    Overlap,
    RetryPolicy,
    parse_delivery,
    parse_group,
    parse_max_duration,
    parse_overlap,
    parse_retry,
    retry_mapping,
)
from tocsin.domain.programs import CommandTarget, ContainerTarget
from tocsin.domain.recurrence import DstPolicy
from tocsin.domain.schedules import Delay, Every, Manual, RunAt, Schedule, parse_schedule
from tocsin.domain.targets import HandlerTarget, Target, parse_target

NAME_CHARS_MAX: Final = 200
LABELS_MAX: Final = 32
LABEL_CHARS_MAX: Final = 128
METADATA_BYTES_MAX: Final = 16 * 1024

KNOWN: Final = (
    "name", "schedule", "run_at", "delay_s", "spread_s", "target", "labels", "metadata",
    "retry", "concurrency", "catch_up", "misfire_after_s", "grace_s", "max_catch_up", "on_resume",
    "idempotency_key", "finished_ttl_s", "delivery", "concurrency_group", "max_duration_s", "alert_on",
)  # fmt: skip
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255
FINISHED_TTL_S_DEFAULT: Final = 604_800.0
FINISHED_TTL_S_MAX: Final = 315_576_000
"""Ten years."""
LATER: Final = {
    "priority": "lanes of different priority",
    "tasks": "workflows",
}
"""Fields of the contract that are refused by name until they work: never accepted and ignored."""


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """What the caller defined, checked and made uniform."""

    schedule: Schedule
    target: Target
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: str | None = None
    """The caller's own JSON, as text; returned untouched."""
    retry: RetryPolicy | None = None
    """None: one attempt."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUpPolicy = CatchUpPolicy()
    idempotency_key: str | None = None
    finished_ttl_s: float = FINISHED_TTL_S_DEFAULT
    """How long it is kept after its end."""
    delivery: DeliveryPolicy = DeliveryPolicy.AT_LEAST_ONCE
    concurrency_group: str | None = None
    """Jobs of its tenant with the same group never run at once; given at the create, and fixed."""
    max_duration_s: float | None = None
    """How long a run may take over all its attempts, from its first dispatch on."""
    alert_on: tuple[AlertOn, ...] = ()
    """Of what people are alerted beyond what always is."""


def parse(mapping: object) -> JobDefinition:
    """Check a job's definition.

    Args:
        mapping: the decoded body or record: names to JSON values. None counts as absent.

    Raises:
        InvalidInput: carrying every fault that was found.
    """
    if not isinstance(mapping, Mapping):
        raise InvalidInput([Fault("", shown(mapping), "is not an object", "send a job as a JSON object")])
    faults: list[Fault] = []
    reader = FieldReader(mapping, "", faults)
    name = reader.text("name", chars_max=NAME_CHARS_MAX)
    schedule = parse_schedule(reader)
    target = parse_target(reader)
    labels = _parse_labels(reader)
    metadata = _parse_metadata(reader)
    retry = parse_retry(reader)
    overlap = parse_overlap(reader)
    catch_up = parse_catch_up(reader)
    key = reader.text("idempotency_key", chars_max=IDEMPOTENCY_KEY_CHARS_MAX)
    finished_ttl_s = _parse_ttl(reader)
    delivery = parse_delivery(reader)
    group = parse_group(reader, overlap)
    if group is not None and key is not None:
        remedy = "give either: a job of a group has its id by the group, not by a key"
        reader.fault("idempotency_key", key, "goes with no concurrency_group", remedy)
    max_duration_s = parse_max_duration(reader)
    alert_on = parse_alert_on(reader)
    reader.finish(KNOWN, LATER)
    if faults or schedule is None or target is None:
        raise InvalidInput(faults)
    return JobDefinition(
        schedule, target, name, labels, metadata, retry, overlap, catch_up, key, finished_ttl_s, delivery,
        concurrency_group=group, max_duration_s=max_duration_s, alert_on=alert_on,
    )  # fmt: skip


def _parse_ttl(reader: FieldReader) -> float:
    ttl = reader.number("finished_ttl_s", low=0, high=FINISHED_TTL_S_MAX, unit="seconds")
    return FINISHED_TTL_S_DEFAULT if ttl is None else float(ttl)


class StoredDefinition(JobDefinition):
    """A definition as it stands in a snapshot, of which only what the end of a job asks for is parsed at once.

    It was checked before it was stored, and most versions of a job change nothing of it: so it is carried on as it is.
    Where it is no longer valid, whoever asks for the rest of it meets the ``InvalidInput`` of ``parse``.
    """

    __slots__ = ("_mapping", "encoded")

    encoded: bytes

    @classmethod
    def of(cls, mapping: Mapping[str, Any], encoded: bytes) -> StoredDefinition:
        """Return the definition that a mapping is, and that is written as these bytes.

        Raises:
            InvalidInput: its schedule, or how long it is kept, is no longer valid.
        """
        faults: list[Fault] = []
        reader = FieldReader(mapping, "", faults)
        schedule, ttl_s = parse_schedule(reader), _parse_ttl(reader)
        if faults or schedule is None:
            raise InvalidInput(faults)
        one = cls.__new__(cls)
        known = (("schedule", schedule), ("finished_ttl_s", ttl_s), ("encoded", encoded), ("_mapping", mapping))
        for name, value in known:
            object.__setattr__(one, name, value)
        return one

    def __getattr__(self, name: str) -> Any:
        """Parse the rest; only what is not there yet is looked for here."""
        if name not in _FIELDS:
            raise AttributeError(name)
        whole = parse(self._mapping)
        for each in _FIELDS:
            object.__setattr__(self, each, getattr(whole, each))
        return getattr(whole, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobDefinition):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment]


_FIELDS: Final = tuple(each.name for each in fields(JobDefinition))


def within_group(definition: JobDefinition, group: str | None) -> JobDefinition:
    """Return an edited definition in the concurrency group that its job was created in, which an edit leaves out.

    Raises:
        InvalidInput: it names another, or allows what a group does not.
    """
    if definition.concurrency_group not in (None, group):
        remedy = "leave it out of updates, and create another job for another group"
        problem = "is fixed by the job's create"
        raise InvalidInput(
            [Fault("definition.concurrency_group", shown(definition.concurrency_group), problem, remedy)]
        )
    if group is not None and definition.overlap is Overlap.ALLOW:
        remedy = f"give one of {Overlap.SKIP}, {Overlap.QUEUE}, {Overlap.REPLACE}"
        raise InvalidInput([Fault("definition.concurrency", "allow", "goes with no concurrency_group", remedy)])
    return replace(definition, concurrency_group=group)


def parse_tenant(value: object) -> str:
    """Check a tenant's id; None and the empty text mean the default tenant.

    Raises:
        InvalidInput: the id is not 1 to 64 letters, digits, hyphens and underscores.
    """
    if value is None or value == "":
        return DEFAULT_TENANT
    if isinstance(value, str) and NAME.fullmatch(value):
        return value
    remedy = "give 1 to 64 letters, digits, hyphens and underscores"
    raise InvalidInput([Fault("tenant_id", shown(value), "is not a tenant id", remedy)])


def target_mapping(target: Target) -> dict[str, Any]:
    """Return a target as the mapping that ``parse_target`` reads."""
    fields = {name: getattr(target, name) for name in target.__slots__}
    # Flags that are not set are left out, so that a definition from before there were any stays what it was.
    fields = {name: value for name, value in fields.items() if value is not False}
    if isinstance(target, HandlerTarget):
        fields["payload"] = None if target.payload is None else json.loads(target.payload)
    elif isinstance(target, CommandTarget | ContainerTarget):
        fields |= {"argv": list(target.argv) or None, "env": dict(target.env) or None}
        if isinstance(target, ContainerTarget):
            fields["resources"] = dict(target.resources) or None
    else:
        fields["headers"] = dict(target.headers) or None
    return _present({"type": target.type, **fields})


def to_mapping(definition: JobDefinition, of_target: Callable[[Target], Any] = target_mapping) -> dict[str, Any]:
    """Return a definition as the mapping that ``parse`` reads back to an equal definition.

    ``of_target``: what to put in the place of its target, for who writes that otherwise.
    """
    retry, ttl_s = definition.retry, definition.finished_ttl_s
    return _present(
        {
            "name": definition.name,
            "schedule": _schedule_mapping(definition.schedule),
            "target": of_target(definition.target),
            "labels": dict(definition.labels) or None,
            "metadata": None if definition.metadata is None else json.loads(definition.metadata),
            "retry": None if retry is None else retry_mapping(retry),
            "concurrency": None if definition.overlap is Overlap.SKIP else str(definition.overlap),
            **catch_up_mapping(definition.catch_up),
            "idempotency_key": definition.idempotency_key,
            "finished_ttl_s": None if ttl_s == FINISHED_TTL_S_DEFAULT else ttl_s,
            "delivery": None if definition.delivery is DeliveryPolicy.AT_LEAST_ONCE else str(definition.delivery),
            "concurrency_group": definition.concurrency_group,
            "max_duration_s": definition.max_duration_s,
            "alert_on": [str(word) for word in definition.alert_on] or None,
        }
    )


def _schedule_mapping(schedule: Schedule) -> dict[str, Any] | None:
    if isinstance(schedule, Manual):
        return None
    spread = schedule.spread_s or None
    if isinstance(schedule, RunAt):
        return _present({"run_at": format_rfc3339(schedule.at), "spread_s": spread})
    if isinstance(schedule, Delay):
        return _present({"delay_s": schedule.delay_s, "spread_s": spread})
    bounds = {"start_at": _time(schedule.start_at), "end_at": _time(schedule.end_at), "spread_s": spread}
    if isinstance(schedule, Every):
        return _present({"every_s": schedule.every_s, "anchor_at": _time(schedule.anchor_at), **bounds})
    dst = None if schedule.dst == DstPolicy() else {"gap": schedule.dst.gap, "overlap": schedule.dst.overlap}
    calendar = calendar_mapping(schedule.calendar)
    what = {"cron": schedule.expression, "timezone": schedule.timezone, "dst": dst, "calendar": calendar}
    return _present({**what, **bounds})


def _time(instant: Micros | None) -> str | None:
    return None if instant is None else format_rfc3339(instant)


def _present(mapping: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if value is not None}


def _parse_labels(reader: FieldReader) -> dict[str, str]:
    inner = reader.child("labels", remedy="give an object of names and texts")
    given = reader.get("labels")
    if inner is None or not given:
        return {}
    if len(given) > LABELS_MAX:
        reader.fault("labels", f"{len(given)} labels", "are too many", f"give at most {LABELS_MAX}")
        return {}
    labels = {}
    for name in given:
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            remedy = "use 1 to 64 letters, digits, hyphens and underscores"
            reader.fault("labels", name, "is not a label's name", remedy)
            continue
        text = inner.text(name, chars_max=LABEL_CHARS_MAX, required=True)
        if text is not None:
            labels[name] = text
    return labels


def _parse_metadata(reader: FieldReader) -> str | None:
    value = reader.get("metadata")
    if value is None:
        return None
    text = as_json(value)
    if text is None:
        remedy = f"give any JSON value nested at most {JSON_DEPTH_MAX} levels deep, with integers of at most 64 bits"
        reader.fault("metadata", value, "is not JSON that every reader takes", remedy)
        return None
    if has_surrogate(text):
        reader.fault("metadata", "(JSON)", "holds half of a surrogate pair", "send well-formed Unicode")
    elif len(text.encode()) > METADATA_BYTES_MAX:
        reader.fault(
            "metadata", f"{len(text)} characters", "is too large", f"give at most {METADATA_BYTES_MAX} bytes of JSON"
        )
    else:
        return text
    return None
