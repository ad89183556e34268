"""What is read here is what fastavro reads, for every shipped schema; and damage is seen."""

from __future__ import annotations

import random
import struct
from io import BytesIO
from typing import Any

import fastavro
import pytest

from tests.unit.avro.test_writers import LONGS, NAMES, Inventor, by_fastavro
from tocsin.adapters.avro.readers import reader_of
from tocsin.adapters.avro.schemas import HEADER_BYTES, head_schema, record_tail, record_type
from tocsin.domain.errors import Undecodable


def read_by_fastavro(schema: Any, data: bytes) -> Any:
    return fastavro.schemaless_reader(BytesIO(data), schema, None)


@pytest.mark.parametrize("name", NAMES)
def test_records_are_read_as_fastavro_reads_them(name: str) -> None:
    kind = record_type(name)
    for seed in range(60):
        value = kind.encode(Inventor(seed).value(kind.schema))
        assert kind.decode(value) == read_by_fastavro(kind.schema, value[HEADER_BYTES:])


def test_heads_and_what_follows_them_too() -> None:
    for schema in (head_schema(), record_tail("ExecutionEvent"), record_tail("Execution")):
        for seed in range(30):
            data = by_fastavro(schema, Inventor(seed).value(schema))
            assert reader_of(schema)(data, 0) == (read_by_fastavro(schema, data), len(data))


def test_numbers_of_every_length_are_read_whatever_follows_them() -> None:
    around = [sign * (1 << bits) + near for bits in range(63) for sign in (1, -1) for near in (-1, 0, 1)]
    for number in (*LONGS, *around):
        data = by_fastavro("long", number)
        for behind in (b"", b"\x00", b"\x80\x80\x80\x80\x80\x80\x80", b"\xff" * 9):
            assert reader_of("long")(data + behind, 0) == (number, len(data))


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 8_191, 8_192, 1_100_000])
def test_texts_of_every_length_are_read(length: int) -> None:
    data = by_fastavro("string", "x" * length)
    assert reader_of("string")(data + b"\xff", 0) == ("x" * length, len(data))
    with pytest.raises(ValueError, match="length"):
        reader_of("string")(by_fastavro("long", -1 - length), 0)


@pytest.mark.parametrize("name", ["JobCommand", "Job", "AttemptReport"])
def test_a_record_cut_short_anywhere_or_with_more_behind_it_is_damaged(name: str) -> None:
    kind = record_type(name)
    value = kind.encode(Inventor(3).value(kind.schema))
    places = range(HEADER_BYTES, len(value)) if len(value) < 2_000 else random.Random(1).sample(range(len(value)), 500)
    for end in places:
        with pytest.raises(Undecodable):
            kind.decode(value[:end])
    with pytest.raises(Undecodable):
        kind.decode(value + b"\x00")


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("string", b"\x01"),
        ("string", b"\x04\xff\xfe"),
        ("bytes", b"\x03abc"),
        ("long", b"\x80"),
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\xff" * 10 + b"\x01"),
        ("int", b"\x80\x80\x80\x80\x20"),
        ("double", b"1234567"),
        ("boolean", b"\x02"),
        ("boolean", b""),
        (["null", "string"], b"\x04"),
        (["null", "string"], b"\x01"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "long"]}]}, b"\x06"),
    ],
)
def test_what_is_no_value_is_refused(schema: Any, data: bytes) -> None:
    with pytest.raises((ValueError, IndexError, struct.error)):
        reader_of(schema)(data, 0)


def test_arrays_and_maps_in_several_blocks_and_with_their_sizes_are_read() -> None:
    # A negative count is followed by the block's size in bytes; other writers put more than one block.
    array = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"
    assert reader_of({"type": "array", "items": "long"})(array, 0) == ([1, 2, 3], len(array))
    mapped = b"\x01\x06\x02a\x02" + b"\x02\x02b\x04" + b"\x00"
    assert reader_of({"type": "map", "values": "long"})(mapped, 0) == ({"a": 1, "b": 2}, len(mapped))


@pytest.mark.parametrize("schema", [["string", "null"], ["null", "long", "string"], "float", {"type": "fixed"}])
def test_schemas_of_other_kinds_are_refused_at_once(schema: Any) -> None:
    with pytest.raises(NotImplementedError):
        reader_of(schema)
