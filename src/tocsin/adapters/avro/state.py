"""A shard's deltas and snapshot chunks as Avro."""

from __future__ import annotations

from typing import Any

from tocsin.adapters.avro.schemas import record_type
from tocsin.domain.entries import Place
from tocsin.domain.shard_records import Active, ShardHeader, StateChunk, StateDelta, Void


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
    }


def _header_from_avro(record: dict[str, Any]) -> ShardHeader:
    record["cursor"] = Place(**record["cursor"])
    return ShardHeader(**record)


def _voids_to_avro(voids: tuple[Void, ...]) -> list[dict[str, Any]]:
    return [{"job_id": v.job_id, "version": v.version, "until": v.until._asdict()} for v in voids]


def _voids_from_avro(records: list[dict[str, Any]]) -> tuple[Void, ...]:
    return tuple(Void(r["job_id"], r["version"], Place(**r["until"])) for r in records)


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
                "ended": delta.ended,
                "voids": _voids_to_avro(delta.voids),
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
            ended=tuple(record["ended"]),
            voids=_voids_from_avro(record["voids"]),
        )

    def encode_chunk(self, chunk: StateChunk) -> bytes:
        return record_type("StateChunk").encode(
            {
                "base": chunk.base,
                "index": chunk.index,
                "header": _header_to_avro(chunk.header),
                "count": chunk.count,
                "active": [{"execution": a.execution, "published_at": a.published_at} for a in chunk.active],
                "voids": _voids_to_avro(chunk.voids),
            }
        )

    def decode_chunk(self, value: bytes | None) -> StateChunk:
        record = record_type("StateChunk").decode(value)
        return StateChunk(
            base=record["base"],
            index=record["index"],
            header=_header_from_avro(record["header"]),
            count=record["count"],
            active=tuple(Active(**active) for active in record["active"]),
            voids=_voids_from_avro(record["voids"]),
        )
