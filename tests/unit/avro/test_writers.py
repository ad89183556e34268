"""What is written here is what fastavro writes, for every shipped schema."""

from __future__ import annotations

import random
from io import BytesIO
from typing import Any

import fastavro
import pytest

from tocsin.adapters.avro.schemas import HEADER_BYTES, head_schema, record_tail, record_type
from tocsin.adapters.avro.writers import writer_of
from tocsin.resources import schemas_dir

NAMES = sorted(path.stem for path in schemas_dir().glob("*.avsc"))
TEXTS = ("", "a", "x" * 63, "x" * 64, "Réveil ☃ 🔔", "y" * 20_000)
LONGS = (0, 1, -1, 63, 64, -64, -65, 2**20, 2**20 - 1, 1_800_000_000_000_000, 2**62, 2**63 - 1, -(2**63))


class Inventor:
    """Makes up values of a schema."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._named: dict[str, Any] = {}

    def value(self, schema: Any, depth: int = 0) -> Any:
        chance = self._chance
        if isinstance(schema, list):
            # Made up all the same, for a later field may be of a type that is named in it.
            found = self.value(schema[1], depth)
            return None if chance.random() < 0.4 else found
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            self._named[schema["name"]] = schema
            # What has a default may be left out.
            fields = {field["name"]: (field, self.value(field["type"], depth + 1)) for field in schema["fields"]}
            return {n: v for n, (field, v) in fields.items() if "default" not in field or chance.random() < 0.8}
        if kind == "array":
            return [self.value(schema["items"], depth + 1) for _ in range(chance.choice((0, 1, 3)))]
        if kind == "map":
            return {chance.choice(TEXTS): self.value(schema["values"], depth + 1) for _ in range(chance.choice((0, 2)))}
        return {
            "string": lambda: chance.choice(TEXTS),
            "bytes": lambda: chance.choice(TEXTS).encode(),
            "long": lambda: chance.choice(LONGS),
            "int": lambda: chance.choice((0, 1, -1, 200, 2**31 - 1, -(2**31))),
            "double": lambda: chance.choice((0.0, -1.5, 1e300, 3)),
            "boolean": lambda: chance.random() < 0.5,
        }[kind]()


def by_fastavro(schema: Any, value: Any) -> bytes:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    return buffer.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_records_are_written_as_fastavro_writes_them(name: str) -> None:
    kind = record_type(name)
    for seed in range(60):
        value = Inventor(seed).value(kind.schema)
        assert kind.encode(value)[HEADER_BYTES:] == by_fastavro(kind.schema, value), value


def test_heads_and_what_follows_them_too() -> None:
    for schema in (head_schema(), record_tail("ExecutionEvent"), record_tail("AttemptReport")):
        for seed in range(30):
            value, out = Inventor(seed).value(schema), bytearray()
            writer_of(schema)(out, value)
            assert bytes(out) == by_fastavro(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("string", 7),
        ("string", None),
        ("string", b"x"),
        ("string", "\ud800"),
        ("bytes", "x"),
        ("bytes", 7),
        ("long", "7"),
        ("long", 1.5),
        ("long", None),
        ("long", 2**63),
        ("long", -(2**63) - 1),
        ("int", 2**31),
        ("int", -(2**31) - 1),
        ("int", 0.5),
        ("double", "1.5"),
        ("double", True),
        ("boolean", 1),
        ("boolean", None),
        (["null", "string"], 7),
        (["null", "long"], "7"),
        ({"type": "array", "items": "long"}, None),
        ({"type": "array", "items": "long"}, ["x"]),
        ({"type": "map", "values": "string"}, None),
        ({"type": "map", "values": "string"}, {"a": 1}),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}, {}),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}, None),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}, 7),
    ],
)
def test_what_does_not_fit_is_refused_as_a_bad_value(schema: Any, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        writer_of(schema)(bytearray(), value)


@pytest.mark.parametrize("schema", [["string", "null"], ["null", "long", "string"], "float", {"type": "fixed"}])
def test_schemas_of_other_kinds_are_refused_at_once(schema: Any) -> None:
    with pytest.raises(NotImplementedError):
        writer_of(schema)
