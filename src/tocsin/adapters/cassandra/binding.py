"""Binding of values to prepared statements, for hot paths.

The driver's own ``bind`` looks every column up in a policy for encrypting columns, which costs several times what
packing the value does. Here the packers of a statement are looked up once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from cassandra.query import BoundStatement, PreparedStatement

Packer = Callable[[Any], bytes]

_BOOLEANS: Final = {False: b"\x00", True: b"\x01"}
_PACKERS: Final[dict[str, Packer]] = {
    "bigint": struct.Struct(">q").pack,
    "int": struct.Struct(">i").pack,
    "varchar": str.encode,
    "text": str.encode,
    "blob": bytes,
    "boolean": _BOOLEANS.__getitem__,
}


def packers_of(prepared: PreparedStatement) -> list[Packer]:
    """Return what turns each value of a statement into bytes; for types not known here, the driver does."""
    version = prepared.protocol_version
    types = [column.type for column in prepared.column_metadata]
    return [_PACKERS.get(one.typename) or _by_driver(one, version) for one in types]


def _by_driver(column_type: Any, version: int) -> Packer:
    return lambda value: column_type.serialize(value, version)


def bind(prepared: PreparedStatement, packers: Sequence[Packer], values: Sequence[Any]) -> BoundStatement:
    """Return the statement with all its values; None is null."""
    statement = BoundStatement(prepared)
    statement.raw_values = values
    statement.values = [None if value is None else pack(value) for pack, value in zip(packers, values, strict=True)]
    return statement
