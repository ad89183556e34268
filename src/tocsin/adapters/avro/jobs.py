"""Commands, outcomes and jobs as Avro; commands also as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from tocsin.adapters.avro.command_json import command_from_json
from tocsin.adapters.avro.schemas import cut_record, record_type
from tocsin.adapters.avro.targets import target_to_avro, written_target
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.definitions import JobDefinition, StoredDefinition, parse, to_mapping
from tocsin.domain.entries import EntryKey
from tocsin.domain.errors import Fault, InvalidInput, Undecodable
from tocsin.domain.jobs import Job, JobState


def _definition_to_avro(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Avro has no free-form JSON: metadata travels as JSON text, a structured body as the text that will be sent."""
    record = dict(mapping)
    if record.get("metadata") is not None:
        record["metadata"] = orjson.dumps(record["metadata"]).decode()
    if isinstance(record.get("target"), Mapping):
        record["target"] = target_to_avro(record["target"])
    return record


def _definition_from_avro(record: Mapping[str, Any]) -> dict[str, Any]:
    mapping = dict(record)
    if isinstance(mapping.get("metadata"), str):
        try:
            mapping["metadata"] = orjson.loads(mapping["metadata"])
        except orjson.JSONDecodeError as error:
            raise Undecodable(f"definition.metadata is not JSON: {error}") from error
    target = mapping.get("target")
    if isinstance(target, dict) and isinstance(target.get("payload"), str):
        try:
            mapping["target"] = {**target, "payload": orjson.loads(target["payload"])}
        except orjson.JSONDecodeError as error:
            raise Undecodable(f"definition.target.payload is not JSON: {error}") from error
    return mapping


class AvroJobCodec:
    """Fulfils ``ports.codec.JobCodec``."""

    def encode_command(self, command: Command) -> bytes:
        definition = command.definition
        return record_type("JobCommand").encode(
            {
                "kind": str(command.kind),
                "command_id": command.command_id,
                "job_id": command.job_id,
                "tenant_id": command.tenant_id,
                "reply_partition": command.reply_partition,
                "definition": None if definition is None else _definition_to_avro(definition),
                "if_version": command.if_version,
                "reason": command.reason,
                "forwarded_from": command.forwarded_from,
                "until": command.until,
                "zone_data": command.zone_data,
                "execution_id": command.execution_id,
                "attempts_before": command.attempts_before,
                "redrives_before": command.redrives_before,
                "not_before": command.not_before,
            }
        )

    def decode_command(self, value: bytes | None) -> Command:
        if value is not None and value[:1] == b"{":
            return command_from_json(value)
        record = record_type("JobCommand").decode_sparse(value)
        if (definition := record.get("definition")) is not None:
            record["definition"] = _definition_from_avro(definition)
        return Command(**record)

    def encode_outcome(self, outcome: CommandOutcome) -> bytes:
        return record_type("CommandOutcome").encode(
            {
                "command_id": outcome.command_id,
                "kind": outcome.kind,
                "job_id": outcome.job_id,
                "tenant_id": outcome.tenant_id,
                "accepted": outcome.accepted,
                "detail": str(outcome.detail),
                "decided_at": outcome.decided_at,
                "faults": [
                    {"field": f.field, "value": f.value, "problem": f.problem, "remedy": f.remedy}
                    for f in outcome.faults
                ],
                "version": outcome.version,
                "job": outcome.job,
                "execution_id": outcome.execution_id,
            }
        )

    def decode_outcome(self, value: bytes | None) -> CommandOutcome:
        record = record_type("CommandOutcome").decode(value)
        record["faults"] = tuple(Fault(**fault) for fault in record["faults"])
        return CommandOutcome(**record)

    def encode_job(self, job: Job) -> bytes:
        definition = job.definition
        record = {
            "job_id": job.job_id,
            "tenant_id": job.tenant_id,
            "version": job.version,
            "created_version": job.created_version,
            "state": str(job.state),
            "created_at": job.created_at,
            "updated_at": job.updated_at,
            "entry": None if job.entry is None else job.entry._asdict(),
            "replaced": [key._asdict() for key in job.replaced],
            "body_hash": job.body_hash,
            "paused_reason": job.paused_reason,
            "pending": job.pending,
            "paused_until": job.paused_until,
            "finished_at": job.finished_at,
        }
        if isinstance(definition, StoredDefinition):
            return cut_record("Job", "definition").encode(record, definition.encoded)
        record["definition"] = _definition_to_avro(to_mapping(definition, written_target))
        return record_type("Job").encode(record)

    def decode_job(self, value: bytes | None) -> Job:
        record = record_type("Job").decode_sparse(value)
        return _job_of(record, _checked(parse, record["definition"]))

    def decode_stored_job(self, value: bytes | None) -> Job:
        record, encoded = cut_record("Job", "definition").decode_sparse(value)
        return _job_of(record, _checked(lambda mapping: StoredDefinition.of(mapping, encoded), record["definition"]))


def _job_of(record: Mapping[str, Any], definition: JobDefinition) -> Job:
    if record["state"] not in JobState.__members__:
        raise Undecodable(f"has the unknown state {record['state'][:40]!r}")
    entry = record.get("entry")
    return Job(
        job_id=record["job_id"],
        tenant_id=record["tenant_id"],
        version=record["version"],
        created_version=record["created_version"],
        state=JobState(record["state"]),
        created_at=record["created_at"],
        updated_at=record["updated_at"],
        definition=definition,
        entry=None if entry is None else EntryKey(**entry),
        replaced=tuple(EntryKey(**key) for key in record["replaced"]),
        body_hash=record.get("body_hash"),
        paused_reason=record.get("paused_reason"),
        pending=record.get("pending"),
        paused_until=record.get("paused_until"),
        finished_at=record.get("finished_at"),
    )


def _checked(read: Callable[[Mapping[str, Any]], JobDefinition], record: Mapping[str, Any]) -> JobDefinition:
    try:
        return read(_definition_from_avro(record))
    except InvalidInput as error:
        raise Undecodable(f"holds a definition that is no longer valid: {error}") from error
