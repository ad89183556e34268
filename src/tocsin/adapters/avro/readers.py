"""Reads records by their schema, for the kinds of schema that are used here; the counterpart of ``writers``.

fastavro looks up at each optional field what its branches are. Most fields of a definition are optional and absent, and
one that is absent costs a byte's comparison here. A test compares what is read with what fastavro reads, and shows that
damaged records are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from tocsin.adapters.avro.writers import other_than_null

Read = Callable[[bytes, int], tuple[Any, int]]
"""Takes bytes and where a value begins; returns the value and where it ends, which may be past the end of the bytes."""

_DOUBLE: Final = struct.Struct("<d").unpack_from
_DOUBLE_BYTES: Final = 8
_ABSENT: Final = 0
"""Which branch of a union of null and something is taken, as it stands in a record."""
_PRESENT: Final = 2


def reader_of(schema: Any, *, sparse: bool = False) -> Read:
    """Return what reads a value of a schema.

    Args:
        schema: as ``fastavro.parse_schema`` returns it, without logical types.
        sparse: fields that are absent are left out of records, instead of being None.

    Raises:
        ValueError: of what it reads (also IndexError, struct.error): the bytes are no such value. Who reads a whole
            record must also see that it ends where the bytes do: a text that is cut short is found so.
        NotImplementedError: the schema is of a kind that is not used here.
    """
    return _reader(schema, {}, sparse)


def _reader(schema: Any, named: dict[str, Read], sparse: bool) -> Read:
    if isinstance(schema, str):
        found = _PLAIN.get(schema) or named.get(schema)
        if found is None:
            raise NotImplementedError(f"no values of the type {schema} are read here")
        return found
    if isinstance(schema, list):
        return _optional(_reader(other_than_null(schema), named, sparse))
    kind = schema["type"]
    if kind == "record":
        return _record(schema, named, sparse)
    if kind == "array":
        return _array(_reader(schema["items"], named, sparse))
    if kind == "map":
        return _map(_reader(schema["values"], named, sparse))
    return _reader(kind, named, sparse)


def _record(schema: Any, named: dict[str, Read], sparse: bool) -> Read:
    fields: list[tuple[str, bool, Read]] = []

    def read(data: bytes, at: int) -> tuple[Any, int]:
        record: dict[str, Any] = {}
        for name, optional, read_field in fields:
            if optional:
                branch = data[at]
                at += 1
                if branch == _ABSENT:
                    if not sparse:
                        record[name] = None
                    continue
                if branch != _PRESENT:
                    raise ValueError(f"{name} is of no branch {branch}")
            record[name], at = read_field(data, at)
        return record, at

    # Named before its fields are looked at, for these may speak of it.
    named[schema["name"]] = read
    for field in schema["fields"]:
        inner = field["type"]
        optional = isinstance(inner, list)
        what = _reader(other_than_null(inner) if optional else inner, named, sparse)
        fields.append((field["name"], optional, what))
    return read


def _optional(read: Read) -> Read:
    def found(data: bytes, at: int) -> tuple[Any, int]:
        branch = data[at]
        if branch == _ABSENT:
            return None, at + 1
        if branch != _PRESENT:
            raise ValueError(f"there is no branch {branch}")
        return read(data, at + 1)

    return found


def _array(read: Read) -> Read:
    def found(data: bytes, at: int) -> tuple[Any, int]:
        items: list[Any] = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                item, at = read(data, at)
                items.append(item)
            count, at = _block(data, at)
        return items, at

    return found


def _map(read: Read) -> Read:
    def found(data: bytes, at: int) -> tuple[Any, int]:
        items: dict[str, Any] = {}
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                name, at = read_string(data, at)
                items[name], at = read(data, at)
            count, at = _block(data, at)
        return items, at

    return found


def _block(data: bytes, at: int) -> tuple[int, int]:
    """Read how many items follow; a negative number of them is followed by their size, which nobody needs here."""
    count, at = read_long(data, at)
    return (count, at) if count >= 0 else (-count, read_long(data, at)[1])


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Read a text."""
    n = data[at]
    if n & 1:  # less than nothing
        at, end = _span(data, at)
    elif n < 0x80:
        at += 1
        end = at + (n >> 1)
    elif (second := data[at + 1]) < 0x80:
        at += 2
        end = at + (n >> 1 & 0x3F | second << 6)
    else:
        at, end = _span(data, at)
    return str(data[at:end], "utf-8"), end


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    at, end = _span(data, at)
    return data[at:end], end


def _span(data: bytes, at: int) -> tuple[int, int]:
    length, at = read_long(data, at)
    if length < 0:
        raise ValueError(f"a length of {length} is none")
    return at, at + length


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a number.

    Most have one byte or two, or are times, most of which is the same for a second: that part is kept.
    """
    n = data[at]
    if n < 0x80:
        return n >> 1 ^ -(n & 1), at + 1
    second = data[at + 1]
    if second < 0x80:
        n = n & 0x7F | second << 7
        return n >> 1 ^ -(n & 1), at + 2
    third = data[at + 2]
    if third < 0x80:
        n = n & 0x7F | (second & 0x7F) << 7 | third << 14
        return n >> 1 ^ -(n & 1), at + 3
    rest, size = _varint_kept(data[at + 3 : at + 8]) or _varint(data[at + 3 : at + 10])
    n = n & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14 | rest << 21
    if n >> 64:
        raise ValueError("a number has more than 64 bits")
    return n >> 1 ^ -(n & 1), at + 3 + size


def _varint_within(data: bytes) -> tuple[int, int] | None:
    """Return the number that bytes begin with, and its size; None where it does not end within them."""
    n = 0
    for place, byte in enumerate(data):
        n |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return n, place + 1
    return None


_varint_kept = lru_cache(1_024)(_varint_within)


def _varint(data: bytes) -> tuple[int, int]:
    found = _varint_within(data)
    if found is None:
        raise ValueError("a number does not end, or has more than 64 bits")
    return found


def _int(data: bytes, at: int) -> tuple[int, int]:
    number, at = read_long(data, at)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{number} has more than 32 bits")
    return number, at


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE(data, at)[0], at + _DOUBLE_BYTES


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    value = data[at]
    if value > 1:
        raise ValueError(f"{value} is neither true nor false")
    return value == 1, at + 1


_PLAIN: Final[dict[str, Read]] = {
    "string": read_string,
    "bytes": _bytes,
    "long": read_long,
    "int": _int,
    "double": _double,
    "boolean": _boolean,
}
