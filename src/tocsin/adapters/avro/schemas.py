"""The shipped schemas, and the single-object encoding of the Avro specification.

A record is written as ``C3 01``, the CRC-64-AVRO fingerprint of its schema (8 bytes, little endian) and its body.
Readers look the writer's schema up by the fingerprint among the shipped ones, older versions included, so an
upgraded process reads what its predecessors wrote.
"""

from __future__ import annotations

import json
from functools import cache
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from tocsin.adapters.avro.readers import Read, reader_of
from tocsin.adapters.avro.writers import Write, writer_of
from tocsin.domain.errors import Undecodable
from tocsin.resources import schemas_dir

MAGIC: Final = b"\xc3\x01"
HEADER_BYTES: Final = 10
"""Magic and fingerprint; a record's body begins here."""


def fingerprint_bytes(schema: Any) -> bytes:
    """Return the 8 bytes by which single-object encoding names a schema."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def without_logical_types(schema: Any) -> Any:
    """Return a schema whose instants are plain integers; its encoding and fingerprint are the same.

    fastavro makes a datetime of every ``timestamp-micros``, which costs more than all the rest of a record.
    """
    if isinstance(schema, dict):
        if "logicalType" in schema:
            return schema["type"]
        return {name: without_logical_types(value) for name, value in schema.items()}
    if isinstance(schema, list):
        return [without_logical_types(item) for item in schema]
    return schema


class RecordType:
    """One record type: writes with the current schema, reads every version that is shipped."""

    def __init__(self, name: str, current: Any, history: list[Any]) -> None:
        self.name = name
        self.schema = parse_schema(without_logical_types(current))
        self._write = writer_of(self.schema)
        self._read = reader_of(self.schema)
        self._read_sparse = reader_of(self.schema, sparse=True)
        self.prefix = MAGIC + fingerprint_bytes(current)
        self._writers = {MAGIC + fingerprint_bytes(old): parse_schema(without_logical_types(old)) for old in history}
        self._writers[self.prefix] = self.schema

    def encode(self, record: dict[str, Any]) -> bytes:
        out = bytearray(self.prefix)
        self._write(out, record)
        return bytes(out)

    def check_prefix(self, value: bytes | None) -> Any:
        """Return the schema that a record says it was written with.

        Raises:
            Undecodable: it is not a record of this type in any version we know.
        """
        if not value:
            raise Undecodable(f"an empty value is not a {self.name}")
        writer = self._writers.get(bytes(value[:HEADER_BYTES]))
        if writer is None:
            if value[:2] != MAGIC:
                raise Undecodable(f"does not begin as a single-object encoded {self.name} does")
            raise Undecodable(f"has the fingerprint of no known version of {self.name}")
        return writer

    def decode(self, value: bytes | None) -> dict[str, Any]:
        """Read a record.

        Raises:
            Undecodable: the bytes are not a record of this type in any version we know.
        """
        record: dict[str, Any] = self._decode(value, self._read)
        return record

    def decode_sparse(self, value: bytes | None) -> dict[str, Any]:
        """Read a record as ``decode`` does, but leave out what is absent, in the records within it too."""
        record: dict[str, Any] = self._decode(value, self._read_sparse)
        return record

    def read_with(self, read: Read, value: bytes | None) -> Any:
        """Read a record with a reader that reads it in another way."""
        return self._decode(value, read)

    def _decode(self, value: bytes | None, read: Read) -> Any:
        writer = self.check_prefix(value)
        assert value is not None
        try:
            if writer is not self.schema:
                value = self._as_present(value, writer)
            record, end = read(value, HEADER_BYTES)
        except Exception as error:
            # Parsing raises whatever it runs into: EOFError, UnicodeDecodeError, IndexError, OverflowError, …
            raise Undecodable(f"is a damaged {self.name}: {type(error).__name__}: {error}") from error
        if end != len(value):
            where = "ends within" if end > len(value) else "has bytes after the end of"
            raise Undecodable(f"{where} the {self.name}")
        return record

    def _as_present(self, value: bytes, writer: Any) -> bytes:
        """Return a record of a former version as one of the present; bytes behind its end stay behind it."""
        buffer = BytesIO(value)
        buffer.seek(HEADER_BYTES)
        record: Any = fastavro.schemaless_reader(buffer, writer, self.schema)
        return self.encode(record) + buffer.read()


class CutRecord:
    """A record type with a field that is carried on as bytes: Avro writes a record as its fields one after another."""

    def __init__(self, whole: RecordType, field: str) -> None:
        schema: Any = whole.schema
        place = next(n for n, one in enumerate(schema["fields"]) if one["name"] == field)
        before, after = (
            {**schema, "fields": schema["fields"][:place]},
            {**schema, "fields": schema["fields"][place + 1 :]},
        )
        self._whole = whole
        self._field = field
        self._readers = [reader_of(one, sparse=True) for one in (before, schema["fields"][place]["type"], after)]
        self._writers = writer_of(before), writer_of(after)

    def decode_sparse(self, value: bytes | None) -> tuple[dict[str, Any], bytes]:
        """Read a record as ``RecordType.decode_sparse`` does; return it, and the bytes of the field.

        Raises:
            Undecodable: the bytes are not a record of this type in any version we know.
        """
        found: tuple[dict[str, Any], bytes] = self._whole.read_with(self._read, value)
        return found

    def encode(self, record: dict[str, Any], field: bytes) -> bytes:
        """Write a record of which the field is written already."""
        write_before, write_after = self._writers
        out = bytearray(self._whole.prefix)
        write_before(out, record)
        out += field
        write_after(out, record)
        return bytes(out)

    def _read(self, value: bytes, at: int) -> tuple[tuple[dict[str, Any], bytes], int]:
        read_before, read_field, read_after = self._readers
        record, begin = read_before(value, at)
        record[self._field], end = read_field(value, begin)
        rest, at = read_after(value, end)
        return ({**record, **rest}, value[begin:end]), at


@cache
def cut_record(name: str, field: str) -> CutRecord:
    """Return a record type with one field that is carried on as bytes."""
    return CutRecord(record_type(name), field)


@cache
def record_type(name: str) -> RecordType:
    """Return the record type of a shipped schema: ``record_type("Execution")``."""
    directory = schemas_dir()
    current = json.loads((directory / f"{name}.avsc").read_text())
    older = [json.loads(path.read_text()) for path in sorted((directory / "history").glob(f"{name}.*.avsc"))]
    return RecordType(name, current, older)


@cache
def record_tail(name: str) -> Any:
    """Return the schema of what follows the head in a record that begins with one.

    Avro writes a record as its fields one after another, so head bytes and tail bytes make the whole.
    """
    schema = without_logical_types(json.loads((schemas_dir() / f"{name}.avsc").read_text()))
    schema["fields"] = schema["fields"][1:]
    return parse_schema(schema)


@cache
def tail_writer(name: str) -> Write:
    """Return what writes that."""
    return writer_of(record_tail(name))


@cache
def tail_reader(name: str) -> Read:
    """Return what reads that."""
    return reader_of(record_tail(name))


@cache
def head_writer() -> Write:
    """Return what writes the head that executions, reports and events share."""
    return writer_of(head_schema())


@cache
def target_writer() -> Write:
    """Return what writes a target, which is the same record in definitions and in executions."""
    schema: Any = record_type("Execution").schema
    fields = schema["fields"]
    return writer_of(next(field["type"] for field in fields if field["name"] == "target"))


@cache
def head_schema() -> Any:
    """Return the schema of the head that executions, reports and events share."""
    schema = without_logical_types(json.loads((schemas_dir() / "Execution.avsc").read_text()))
    head = dict(schema["fields"][0]["type"], namespace=schema["namespace"])
    return parse_schema(head)
