"""Create a job by producing one record: confluent-kafka and fastavro, nothing of tocsin but its schema file.

    python python_producer.py --bootstrap 127.0.0.1:9092 --schema schemas/JobCommand.avsc \\
        --url https://settle.internal/run --delay-s 5

The value is Avro in single-object encoding: the two bytes C3 01, the fingerprint of the schema, the record. So no
schema registry is needed. Any partitioner will do: an owner that gets a command for another shard passes it on.
"""

from __future__ import annotations

import argparse
import io
import json
import uuid
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import KafkaError, Message, Producer
from fastavro.schema import fingerprint, to_parsing_canonical_form


def encoded(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """Return a record in single-object encoding."""
    buffer = io.BytesIO()
    buffer.write(b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")))
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), record)
    return buffer.getvalue()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Create a job that calls a URL once.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="tocsin.commands")
    parser.add_argument("--schema", type=Path, default=Path("schemas/JobCommand.avsc"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--delay-s", type=float, default=5.0)
    parser.add_argument("--job-id", help="an id of your own: sending the same again creates nothing new")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    schema = json.loads(given.schema.read_text())
    job_id = given.job_id or f"example-{uuid.uuid4().hex[:12]}"
    command_id = f"example-{uuid.uuid4().hex}"
    command = {
        "kind": "create",
        "command_id": command_id,  # the outcome on tocsin.outcomes has it as its key
        "job_id": job_id,
        "definition": {
            "name": "made by a plain producer",
            "delay_s": given.delay_s,
            "target": {"type": "http", "url": given.url, "body": json.dumps({"user": 42})},
        },
    }

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        place = f"partition {message.partition()} offset {message.offset()}"
        print(f"{job_id} sent as {command_id}, {place}")  # noqa: T201 - for whoever runs it

    producer = Producer({"bootstrap.servers": given.bootstrap, "acks": "all", "enable.idempotence": True})
    producer.produce(given.topic, key=job_id, value=encoded(schema, command), on_delivery=delivered)
    if producer.flush(30):
        raise SystemExit("not delivered within 30 s")


if __name__ == "__main__":
    main()
