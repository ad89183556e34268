"""When two versions of a schema are fully compatible: readers of either can read what writers of the other wrote."""

from __future__ import annotations

from typing import Any


def incompatibilities(old: Any, new: Any, path: str = "") -> list[str]:
    """Return what keeps two schemas from being compatible both ways; stricter than Avro, which allows promotions."""
    names: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    return _compare(old, new, path, names)


def _compare(old: Any, new: Any, path: str, names: tuple[dict[str, Any], dict[str, Any]]) -> list[str]:
    old, new = _resolve(old, names[0]), _resolve(new, names[1])
    if isinstance(old, list) or isinstance(new, list):
        if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
            return [f"{path}: {old} became {new}"]
        return [fault for a, b in zip(old, new, strict=True) for fault in _compare(a, b, path, names)]
    if isinstance(old, str) or isinstance(new, str):
        return [] if old == new else [f"{path}: {old} became {new}"]
    if old["type"] != new["type"] or old.get("name") != new.get("name"):
        return [f"{path}: {old['type']} {old.get('name')} became {new['type']} {new.get('name')}"]
    if old["type"] == "record":
        return _compare_fields(old, new, path, names)
    inner = {"array": "items", "map": "values"}.get(old["type"])
    return _compare(old[inner], new[inner], f"{path}[]", names) if inner else []


def _compare_fields(old: Any, new: Any, path: str, names: tuple[dict[str, Any], dict[str, Any]]) -> list[str]:
    before = {field["name"]: field for field in old["fields"]}
    after = {field["name"]: field for field in new["fields"]}
    faults = []
    for name in [*before, *(name for name in after if name not in before)]:
        here = f"{path}.{name}"
        if name in before and name in after:
            faults += _compare(before[name]["type"], after[name]["type"], here, names)
            continue
        only = before.get(name) or after[name]
        _register(only["type"], names[0 if name in before else 1])
        if "default" not in only:
            faults.append(f"{here}: {'removed' if name in before else 'added'} without a default")
    return faults


def _resolve(schema: Any, names: dict[str, Any]) -> Any:
    if isinstance(schema, str):
        known = names.get(schema)
        # A named type is compared where it is defined; a second mention only has to be of the same name.
        return f"name:{schema}" if known is not None else schema
    if isinstance(schema, dict) and schema["type"] not in ("record", "array", "map"):
        return schema["type"]
    _register(schema, names)
    return schema


def _register(schema: Any, names: dict[str, Any]) -> None:
    if isinstance(schema, dict) and schema.get("type") == "record":
        names[schema["name"]] = schema
