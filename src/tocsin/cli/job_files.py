"""Reading a definition from a file: JSON, or YAML with the types of JSON and no surprises.

YAML 1.1 reads ``2026-10-11`` as a date, ``on`` as true and ``1:30`` as ninety. A job's times are texts, so here only
what JSON knows is anything but a text.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Final

import yaml

from tocsin.cli.exits import REFUSED, Failure
from tocsin.cli.job_flags import read_text

VALUES_MAX: Final = 100_000
"""Values in a file, an alias counting for all that it stands for: a few lines of YAML can stand for billions."""


class _PlainLoader(yaml.SafeLoader):
    """YAML whose plain scalars are texts, unless JSON would read them as something else; other tags it knows none."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the loader's own way to say it
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge nothing: that is not of JSON."""


_SCALARS: Final[dict[str, re.Pattern[str]]] = {}
_WHOLE: Final = "-?(?:0|[1-9][0-9]*)"
for _tag, _pattern, _first in (
    ("bool", "true|false", "tf"),
    ("null", "null|~|", ["n", "~", ""]),
    ("int", _WHOLE, "-0123456789"),
    ("float", _WHOLE + r"(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", "-0123456789"),
):
    # The loader asks for a match at the beginning only.
    _whole = _SCALARS[_tag] = re.compile(rf"(?:{_pattern})\Z")
    _PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _whole, list(_first))


def _as_json(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """Read a number, true, false or null, also where a tag says that it is one: only as JSON writes it."""
    text = loader.construct_scalar(node)
    kind = node.tag.rpartition(":")[2]
    if _SCALARS[kind].match(text) is None and not (kind == "float" and _SCALARS["int"].match(text)):
        raise yaml.constructor.ConstructorError(None, None, f"{text[:40]!r} is no {kind}", node.start_mark)
    if kind == "null":
        return None
    return float(text) if kind == "float" else json.loads(text)


def _text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


def _sequence(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> list[Any]:
    return loader.construct_sequence(node, deep=True)


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    mapping = loader.construct_mapping(node, deep=True)
    if len(mapping) < len(node.value):
        raise yaml.constructor.ConstructorError(None, None, "a name is given twice", node.start_mark)
    return mapping


def _unknown(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    problem = f"the tag {node.tag.rpartition(':')[2][:40]!r} is none of JSON's types"
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


for _kind in _SCALARS:
    _PlainLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _as_json)
_PlainLoader.add_constructor("tag:yaml.org,2002:str", _text)
_PlainLoader.add_constructor("tag:yaml.org,2002:seq", _sequence)
_PlainLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
_PlainLoader.add_constructor(None, _unknown)


def read_definition(name: str) -> dict[str, Any]:
    """Return the definition that a file holds.

    Args:
        name: of the file; ``-`` is stdin.

    Raises:
        Failure: it cannot be read, or is no JSON and no YAML object.
    """
    text = read_text(name, "-f")
    if text.lstrip().startswith("{"):
        definition = _from_json(name, text)
    else:
        definition = _from_yaml(name, text)
    if _count(definition) > VALUES_MAX:
        raise Failure(REFUSED, f"-f: {name} holds more than {VALUES_MAX} values", "give one job; write aliases out")
    if not isinstance(definition, dict) or not all(isinstance(key, str) for key in definition):
        raise Failure(REFUSED, f"-f: {name} holds no object", "give a job as a JSON or YAML object with its fields")
    return definition


def _count(value: Any) -> int:
    """Return how many values a definition has when it is written out, at most a few more than ``VALUES_MAX``.

    One that holds itself, as aliases can, has no end of them.
    """
    count, waiting = 0, [value]
    while waiting and count <= VALUES_MAX:
        one = waiting.pop()
        count += 1
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return count


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(REFUSED, f"-f: {name} is not JSON: {error}", "mend it, or write it as YAML") from error


def _from_yaml(name: str, text: str) -> Any:
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        problem = getattr(error, "problem", None) or (first[0] if first else "it cannot be read")
        remedy = 'mend it; a cron expression has to stand in quotes: cron: "*/5 * * * *"'
        raise Failure(REFUSED, f"-f: {name} is not YAML: {problem}{where}", remedy) from error
