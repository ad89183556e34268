"""What a caller may ask for: the one validation that serves every door (REST, command topic, CLI).

``parse`` takes the mapping that a door received, whatever encoding it came in, and returns a definition or all faults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.fields import JSON_DEPTH_MAX, FieldReader, as_json, has_surrogate, shown
from tocsin.domain.ids import DEFAULT_TENANT, NAME
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.schedules import RunAt, Schedule, parse_schedule
from tocsin.domain.targets import Target, parse_target

NAME_CHARS_MAX: Final = 200
LABELS_MAX: Final = 32
LABEL_CHARS_MAX: Final = 128
METADATA_BYTES_MAX: Final = 16 * 1024

KNOWN: Final = ("name", "schedule", "run_at", "delay_s", "target", "labels", "metadata")
LATER: Final = {
    "job_id": "jobs under a client's own id",
    "idempotency_key": "creating a job once however often it is asked for",
    "retry": "retries of failed attempts",
    "concurrency": "deciding what happens when runs overlap",
    "concurrency_group": "deciding what happens when runs overlap",
    "max_duration_s": "ending runs that hang",
    "catch_up": "choosing what happens to missed occurrences",
    "misfire_after_s": "choosing what happens to missed occurrences",
    "grace_s": "choosing what happens to missed occurrences",
    "max_catch_up": "choosing what happens to missed occurrences",
    "on_resume": "pausing and resuming",
    "delivery": "at-most-once delivery",
    "priority": "lanes of different priority",
    "alert_on": "alerts",
    "finished_ttl_s": "removing finished jobs",
    "tasks": "workflows",
    "spread_s": "spreading a job inside a window",
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
    reader.finish(KNOWN, LATER)
    if faults or schedule is None or target is None:
        raise InvalidInput(faults)
    return JobDefinition(schedule, target, name, labels, metadata)


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


def to_mapping(definition: JobDefinition) -> dict[str, Any]:
    """Return a definition as the mapping that ``parse`` reads back to an equal definition."""
    target = definition.target
    schedule = definition.schedule
    mapping: dict[str, Any] = {
        "name": definition.name,
        "schedule": {"run_at": format_rfc3339(schedule.at)}
        if isinstance(schedule, RunAt)
        else {"delay_s": schedule.delay_s},
        "target": {
            "type": target.type,
            "url": target.url,
            "method": target.method,
            "headers": dict(target.headers) or None,
            "body": target.body,
            "timeout_s": target.timeout_s,
        },
        "labels": dict(definition.labels) or None,
        "metadata": None if definition.metadata is None else json.loads(definition.metadata),
    }
    mapping["target"] = {name: value for name, value in mapping["target"].items() if value is not None}
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
        reader.fault("metadata", value, "is not JSON, or nested too deep", remedy)
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
