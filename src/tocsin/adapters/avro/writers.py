"""Writes records by their schema, for the kinds of schema that are used here.

fastavro asks of each optional field which branch of its union a value fits, and for that looks a nested record through
with all it holds, once more at each level: of a job's snapshot that was four fifths of the time. Here every union is
null and one thing, so None decides. A test compares the bytes with those that fastavro writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from tocsin.adapters.avro.varints import zigzag_varint

Write = Callable[[bytearray, Any], None]


class Written(bytes):
    """A record that is written already, in place of its fields."""


_DOUBLE: Final = struct.Struct("<d").pack
_ABSENT: Final = 0
"""Which branch of a union of null and something is taken, as it stands in a record."""
_PRESENT: Final = 2


def writer_of(schema: Any) -> Write:
    """Return what appends a value of a schema to bytes.

    Args:
        schema: as ``fastavro.parse_schema`` returns it, without logical types.

    Raises:
        ValueError: of what it writes (also TypeError, OverflowError): the value does not fit.
        NotImplementedError: the schema is of a kind that is not used here.
    """
    return _writer(schema, {})


def _writer(schema: Any, named: dict[str, Write]) -> Write:
    if isinstance(schema, str):
        found = _PLAIN.get(schema) or named.get(schema)
        if found is None:
            raise NotImplementedError(f"no values of the type {schema} are written here")
        return found
    if isinstance(schema, list):
        return _optional(_writer(other_than_null(schema), named))
    kind = schema["type"]
    if kind == "record":
        return _record(schema, named)
    if kind == "array":
        return _array(_writer(schema["items"], named))
    if kind == "map":
        return _map(_writer(schema["values"], named))
    return _writer(kind, named)


def other_than_null(union: list[Any]) -> Any:
    """Return what a union holds beside null.

    Raises:
        NotImplementedError: it is not of null and one thing, as every union here is.
    """
    if len(union) != 2 or union[0] != "null":
        raise NotImplementedError(f"a union of {union} is none of null and one thing")
    return union[1]


def _record(schema: Any, named: dict[str, Write]) -> Write:
    fields: list[tuple[str, Any, bool, Write]] = []

    def write(out: bytearray, value: Any) -> None:
        if value.__class__ is not dict:
            if value.__class__ is Written:
                out += value
                return
            if not isinstance(value, Mapping):
                raise TypeError(f"a {type(value).__name__} is no record")
        get = value.get
        for name, default, optional, write_field in fields:
            found = get(name, default)
            if optional:
                if found is None:
                    out.append(_ABSENT)
                    continue
                out.append(_PRESENT)
            write_field(out, found)

    # Named before its fields are looked at, for these may speak of it.
    named[schema["name"]] = write
    for field in schema["fields"]:
        inner = field["type"]
        optional = isinstance(inner, list)
        what = _writer(other_than_null(inner) if optional else inner, named)
        fields.append((field["name"], field.get("default"), optional, what))
    return write


def _optional(write: Write) -> Write:
    def written(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(_ABSENT)
        else:
            out.append(_PRESENT)
            write(out, value)

    return written


def _array(write: Write) -> Write:
    if write is _bytes:
        return _bytes_array

    def written(out: bytearray, value: Any) -> None:
        if value:
            _long(out, len(value))
            for item in value:
                write(out, item)
        elif not isinstance(value, list | tuple):
            raise TypeError(f"a {type(value).__name__} is no array")
        out.append(0)

    return written


def _bytes_array(out: bytearray, value: Any) -> None:
    """Write an array of bytes: of a burst's delta it is all, so its items are not written one by one."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"a {type(value).__name__} is no array")
    if value:
        _long(out, len(value))
        lengths: dict[int, bytes] = {}
        parts: list[bytes] = []
        for item in value:
            length = len(item)
            if length not in lengths:
                lengths[length] = zigzag_varint(length)
            parts.append(lengths[length])
            parts.append(item)
        out += b"".join(parts)
    out.append(0)


def _map(write: Write) -> Write:
    def written(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(f"a {type(value).__name__} is no map")
        if value:
            _long(out, len(value))
            for name, item in value.items():
                _string(out, name)
                write(out, item)
        out.append(0)

    return written


def _string(out: bytearray, value: Any) -> None:
    text = str.encode(value)
    n = len(text) << 1
    if n < 0x80:
        out.append(n)
    else:
        _varint(out, n)
    out += text


def _bytes(out: bytearray, value: Any) -> None:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a {type(value).__name__} is not bytes")
    _varint(out, len(value) << 1)
    out += value


def _long(out: bytearray, value: Any) -> None:
    if 0 <= value < 1 << 63:
        out += zigzag_varint(value)
    elif -(1 << 63) <= value < 0:
        _varint(out, value << 1 ^ value >> 63)
    else:
        raise OverflowError(f"{value} has more than 64 bits")


def _int(out: bytearray, value: Any) -> None:
    if not -(1 << 31) <= value < 1 << 31:
        raise OverflowError(f"{value} has more than 32 bits")
    _varint(out, value << 1 ^ value >> 63)


def _double(out: bytearray, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a {type(value).__name__} is no number")
    out += _DOUBLE(value)


def _boolean(out: bytearray, value: Any) -> None:
    if value is not True and value is not False:
        raise TypeError(f"a {type(value).__name__} is neither true nor false")
    out.append(value)


def _varint(out: bytearray, n: int) -> None:
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)


_PLAIN: Final[dict[str, Write]] = {
    "string": _string,
    "bytes": _bytes,
    "long": _long,
    "int": _int,
    "double": _double,
    "boolean": _boolean,
}
