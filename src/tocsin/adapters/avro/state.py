"""A shard's deltas and snapshot chunks as Avro."""

from __future__ import annotations

from typing import Any

from tocsin.adapters.avro.schemas import record_type
from tocsin.domain.entries import Place
from tocsin.domain.shard_records import (
    Active,
    NamedSuccessor,
    ParkedCommand,
    ShardHeader,
    StateChunk,
    StateDelta,
    Void,
    WorkItem,
)


def _header_to_avro(header: ShardHeader) -> dict[str, Any]:
    return {
        "owner": header.owner,
        "released": header.released,
        "epoch": header.epoch,
        "shards": header.shards,
        "cursor": header.cursor._asdict(),
        "commands_offset": header.commands_offset,
        "reports_offset": header.reports_offset,
        "indexed_upto": header.indexed_upto,
        "successors_upto": header.successors_upto._asdict(),
        "deleted_upto": header.deleted_upto,
        "marked": header.marked,
    }


def _header_from_avro(record: dict[str, Any]) -> ShardHeader:
    successors_upto = record.pop("successors_upto")
    record["cursor"] = Place(**record["cursor"])
    return ShardHeader(**record, successors_upto=Place(**successors_upto) if successors_upto else record["cursor"])


def _active_from_avro(record: dict[str, Any]) -> Active:
    """Absent fields were written by a version that knew only executions that are queued."""
    return Active(**{name: value for name, value in record.items() if value is not None})


def _named_from_avro(records: list[dict[str, Any]]) -> tuple[NamedSuccessor, ...]:
    return tuple(NamedSuccessor(**record) for record in records)


def _voids_to_avro(voids: tuple[Void, ...]) -> list[dict[str, Any]]:
    return [v._asdict() | {"until": v.until._asdict()} for v in voids]


def _voids_from_avro(records: list[dict[str, Any]]) -> tuple[Void, ...]:
    return tuple(Void(r["job_id"], r["version"], Place(**r["until"]), r["decided_upto"]) for r in records)


class AvroStateCodec:
    """Fulfils ``ports.codec.StateCodec``."""

    def encode_delta(self, delta: StateDelta) -> bytes:
        return record_type("StateDelta").encode(
            {
                "number": delta.number,
                "part": delta.part,
                "parts": delta.parts,
                "at": delta.at,
                "header": _header_to_avro(delta.header),
                "dispatched": delta.dispatched,
                "last": delta.last,
                "ended": delta.ended,
                "voids": _voids_to_avro(delta.voids),
                "changed": [active._asdict() for active in delta.changed],
                "named": [successor._asdict() for successor in delta.named],
                "parked": [command._asdict() for command in delta.parked],
                "unparked": delta.unparked,
                "work": [item._asdict() for item in delta.work],
                "work_done": delta.work_done,
            }
        )

    def decode_delta(self, value: bytes | None) -> StateDelta:
        record = record_type("StateDelta").decode(value)
        return StateDelta(
            number=record["number"],
            part=record["part"],
            parts=record["parts"],
            at=record["at"],
            header=_header_from_avro(record["header"]),
            dispatched=tuple(record["dispatched"]),
            last=record["last"],
            ended=tuple(record["ended"]),
            voids=_voids_from_avro(record["voids"]),
            changed=tuple(map(_active_from_avro, record["changed"])),
            named=_named_from_avro(record["named"]),
            parked=tuple(ParkedCommand(**command) for command in record["parked"]),
            unparked=tuple(record["unparked"]),
            work=tuple(WorkItem(**item) for item in record["work"]),
            work_done=tuple(record["work_done"]),
        )

    def encode_chunk(self, chunk: StateChunk) -> bytes:
        return record_type("StateChunk").encode(
            {
                "base": chunk.base,
                "index": chunk.index,
                "header": _header_to_avro(chunk.header),
                "count": chunk.count,
                "active": [active._asdict() for active in chunk.active],
                "voids": _voids_to_avro(chunk.voids),
                "named": [successor._asdict() for successor in chunk.named],
                "parked": [command._asdict() for command in chunk.parked],
                "work": [item._asdict() for item in chunk.work],
            }
        )

    def decode_chunk(self, value: bytes | None) -> StateChunk:
        record = record_type("StateChunk").decode(value)
        return StateChunk(
            base=record["base"],
            index=record["index"],
            header=_header_from_avro(record["header"]),
            count=record["count"],
            active=tuple(map(_active_from_avro, record["active"])),
            voids=_voids_from_avro(record["voids"]),
            named=_named_from_avro(record["named"]),
            parked=tuple(ParkedCommand(**command) for command in record["parked"]),
            work=tuple(WorkItem(**item) for item in record["work"]),
        )
