"""Heartbeats, dead letters, alerts and what workers are told, as Avro."""

from __future__ import annotations

from dataclasses import asdict

from tocsin.adapters.avro.schemas import record_type
from tocsin.domain.alerts import Alert
from tocsin.domain.fleet import Cancel, DeadLetter, Heartbeat


class AvroFleetCodec:
    """Fulfils ``ports.codec.FleetCodec``."""

    def encode_heartbeat(self, heartbeat: Heartbeat) -> bytes:
        return record_type("Heartbeat").encode(asdict(heartbeat))

    def decode_heartbeat(self, value: bytes | None) -> Heartbeat:
        record = record_type("Heartbeat").decode(value)
        return Heartbeat(**{**record, "pools": tuple(record["pools"])})

    def encode_cancel(self, cancel: Cancel) -> bytes:
        return record_type("Cancel").encode(asdict(cancel))

    def decode_cancel(self, value: bytes | None) -> Cancel:
        return Cancel(**record_type("Cancel").decode(value))

    def encode_dead_letter(self, letter: DeadLetter) -> bytes:
        return record_type("DeadLetter").encode(asdict(letter))

    def decode_dead_letter(self, value: bytes | None) -> DeadLetter:
        return DeadLetter(**record_type("DeadLetter").decode(value))

    def encode_alert(self, alert: Alert) -> bytes:
        return record_type("Alert").encode(
            {**asdict(alert), "kind": str(alert.kind), "alert_on": alert.alert_on and str(alert.alert_on)}
        )

    def decode_alert(self, value: bytes | None) -> Alert:
        return Alert(**record_type("Alert").decode(value))
