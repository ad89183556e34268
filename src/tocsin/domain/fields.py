"""Reading fields out of a caller's mapping, collecting every fault instead of stopping at the first.

This is how all doors validate; nothing here knows what a job is.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from tocsin.domain.errors import Fault

SHOWN_CHARS_MAX = 120
"""How much of a wrong value an error repeats."""


def shown(value: object) -> str:
    """Return a value as an error may show it: its repr, cut, and safe to print."""
    if isinstance(value, str) and len(value) > SHOWN_CHARS_MAX:
        value = value[:SHOWN_CHARS_MAX] + "…"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX + 3 else text[:SHOWN_CHARS_MAX] + "…"


def has_surrogate(text: str) -> bool:
    """Tell whether a string holds half of a surrogate pair, which no UTF-8 can carry."""
    return any("\ud800" <= char <= "\udfff" for char in text)


class FieldReader:
    """Reads the fields of one mapping; faults of all readers of an input land in one list.

    Args:
        mapping: what the caller sent at ``path``. None values count as absent (Avro has no other way to say it).
        path: dotted path of the mapping in the input, empty at the top.
        faults: where faults are appended.
    """

    def __init__(self, mapping: Mapping[str, Any], path: str, faults: list[Fault]) -> None:
        self._mapping = mapping
        self._path = path
        self.faults = faults

    def path(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def fault(self, name: str, value: object, problem: str, remedy: str) -> None:
        """Record that a field is wrong."""
        self.faults.append(Fault(self.path(name) if name else self._path, shown(value), problem, remedy))

    def get(self, name: str) -> Any:
        return self._mapping.get(name)

    def text(self, name: str, *, chars_max: int, required: bool = False, remedy: str = "") -> str | None:
        """Read a string of 1 to ``chars_max`` characters without control characters or lone surrogates."""
        value = self._mapping.get(name)
        if value is None:
            if required:
                self.fault(name, None, "is missing", remedy or f"give a text of 1 to {chars_max} characters")
            return None
        if not isinstance(value, str):
            self.fault(name, value, "is not a text", remedy or f"give a text of 1 to {chars_max} characters")
        elif not 1 <= len(value) <= chars_max:
            self.fault(name, value, f"has {len(value)} characters", f"give 1 to {chars_max} characters")
        elif has_surrogate(value):
            self.fault(name, value, "holds half of a surrogate pair", "send well-formed Unicode")
        elif any(ord(char) < 32 or ord(char) == 127 for char in value):
            self.fault(name, value, "holds a control character", "leave out control characters such as CR, LF and NUL")
        else:
            return value
        return None

    def number(self, name: str, *, low: float, high: float, unit: str, above_low: bool = False) -> int | float | None:
        """Read a finite number between ``low`` and ``high`` inclusive (``above_low``: strictly above ``low``)."""
        value = self._mapping.get(name)
        if value is None:
            return None
        remedy = f"give a number of {unit} {f'above {low:g} up' if above_low else f'from {low:g}'} to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(name, value, "is not a number", remedy)
        elif isinstance(value, float) and not math.isfinite(value):
            self.fault(name, value, "is not a finite number", remedy)
        elif not low <= value <= high or (above_low and value == low):
            self.fault(name, value, "is out of range", remedy)
        else:
            return value
        return None

    def child(self, name: str, *, required: bool = False, remedy: str = "give an object") -> FieldReader | None:
        """Read a nested object as a reader of its own."""
        value = self._mapping.get(name)
        if value is None:
            if required:
                self.fault(name, None, "is missing", remedy)
            return None
        if not isinstance(value, Mapping):
            self.fault(name, value, "is not an object", remedy)
            return None
        return FieldReader(value, self.path(name), self.faults)

    def finish(self, known: Iterable[str], later: Mapping[str, str]) -> None:
        """Refuse what is left: fields that the contract names but tocsin cannot do yet, and unknown ones.

        Args:
            known: the names that were read.
            later: names that tocsin will understand in a later release, with what they will do.
        """
        names = list(known)
        for name, value in self._mapping.items():
            if name in names or value is None:
                continue
            if name in later:
                self.fault(name, value, f"is not supported yet: {later[name]}", "leave the field out")
                continue
            near = difflib.get_close_matches(str(name)[:64], names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            self.fault(str(name)[:64], value, "is an unknown field", f"{hint}known fields: {', '.join(sorted(names))}")
