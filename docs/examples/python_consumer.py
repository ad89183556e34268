"""Print what becomes of executions: confluent-kafka and fastavro, nothing of tocsin but its schema files.

    python python_consumer.py --bootstrap 127.0.0.1:9092 --schemas schemas

Read with ``isolation.level=read_committed``, as here: what the owner of a shard takes back was never said.
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer
from fastavro.schema import fingerprint, to_parsing_canonical_form

HEADER_BYTES = 10  # C3 01, and eight bytes of fingerprint


class EventReader:
    """Decodes events of every version whose schema it was given."""

    def __init__(self, directory: Path) -> None:
        self._newest = json.loads((directory / "ExecutionEvent.avsc").read_text())
        older = [json.loads(path.read_text()) for path in (directory / "history").glob("ExecutionEvent.*.avsc")]
        self._writers = {
            b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")): schema
            for schema in [*older, self._newest]
        }

    def read(self, value: bytes) -> dict[str, Any]:
        """Return one event; KeyError where its schema is not at hand: get the newer files."""
        writer = self._writers[value[:HEADER_BYTES]]
        record = fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), writer, self._newest)
        assert isinstance(record, dict)
        return record


def line(event: dict[str, Any]) -> str:
    """Return an event as one line."""
    head, error = event["head"], event["error"]
    why = f" {error['message']}" if error else ""
    again = " (redelivered)" if event["redelivered"] else ""
    return f"{head['execution_id']} attempt {head['attempt']}: {event['state']}{why}{again}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Print execution results.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="tocsin.execution-events")
    parser.add_argument("--group", default="print-results")
    parser.add_argument("--schemas", type=Path, default=Path("schemas"))
    parser.add_argument("--count", type=int, help="stop after so many")
    given = parser.parse_args()
    reader = EventReader(given.schemas)
    consumer = Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            "group.id": given.group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([given.topic])
    left = given.count
    try:
        while left is None or left > 0:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise SystemExit(str(message.error()))
            value = message.value()
            if value is not None:  # a tombstone says nothing about a result
                print(line(reader.read(value)), flush=True)  # noqa: T201 - what it is for
                left = None if left is None else left - 1
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
