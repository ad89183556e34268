"""Reading fields out of a caller's mapping, collecting every fault instead of stopping at the first.

This is how all doors validate; nothing here knows what a job is.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from tocsin.domain.errors import Fault

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")

SHOWN_CHARS_MAX: Final = 120
"""How much of a wrong value an error repeats."""
_SHOWN_ITEMS_MAX: Final = 8
_SHOWN_DEPTH_MAX: Final = 3
HIDDEN: Final = "(hidden)"
"""Shown instead of what may be a secret: faults are logged, and kept on topics that others read."""
_SECRET_NAME: Final = re.compile(
    r"headers?$|authorization|cookie|passw|secret|token|credential|api[-_]?key|private[-_]?key", re.IGNORECASE
)
_URL_CREDENTIALS: Final = re.compile(r"//[^/?#\s'\"]*@")
_MASKED_CHARS_MAX: Final = 65_536
_LONG_DIGITS: Final = re.compile(rb"[0-9]{19}")

JSON_DEPTH_MAX: Final = 64
"""How deep free JSON may be nested; some readers of JSON give up at a few hundred levels."""
FAULTS_MAX: Final = 100
"""Faults that one input is told of; a body may hold a hundred thousand unknown fields."""


def shown(value: object) -> str:
    """Return a value as an error may show it: like its repr, but bounded in length and work, and safe to print."""
    text = _shown(value, _SHOWN_DEPTH_MAX)
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


def _shown(value: object, depth: int) -> str:
    if isinstance(value, str) and "//" in value:
        value = _URL_CREDENTIALS.sub(f"//{HIDDEN}@", value[:_MASKED_CHARS_MAX])
    if isinstance(value, str | bytes):
        return repr(value[:SHOWN_CHARS_MAX]) + ("…" if len(value) > SHOWN_CHARS_MAX else "")
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"  # Python refuses to write the longest ones out
    if isinstance(value, Mapping):
        pairs = islice(value.items(), _SHOWN_ITEMS_MAX if depth else 0)
        return _enclosed("{}", [f"{_shown(k, 0)}: {_shown_at(k, v, depth - 1)}" for k, v in pairs], len(value))
    if isinstance(value, list | tuple):
        items = value[: _SHOWN_ITEMS_MAX if depth else 0]
        return _enclosed("[]", [_shown(item, depth - 1) for item in items], len(value))
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def _shown_at(name: object, value: object, depth: int) -> str:
    """Return a value as it may be shown under its name."""
    return HIDDEN if value is not None and may_be_secret(name) else _shown(value, depth)


def may_be_secret(name: object) -> bool:
    """Tell whether what stands under a name is not to be shown: credentials, and all headers."""
    return isinstance(name, str) and _SECRET_NAME.search(name[:SHOWN_CHARS_MAX]) is not None


def _enclosed(brackets: str, items: list[str], count: int) -> str:
    rest = ["…"] if count > len(items) else []
    return f"{brackets[0]}{', '.join(items + rest)}{brackets[1]}"


def printable(name: object) -> str:
    """Return a field's name as an error may show it: as it is where it is harmless, else escaped; bounded."""
    if isinstance(name, str) and len(name) <= SHOWN_CHARS_MAX and name.isprintable():
        return name
    return shown(name)


def has_surrogate(text: str) -> bool:
    """Tell whether a string holds half of a surrogate pair, which no UTF-8 can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def has_control(text: str) -> bool:
    """Tell whether a string holds a control character (C0, DEL or C1)."""
    return _CONTROL.search(text) is not None


def as_json(value: object) -> str | None:
    """Return a JSON value as compact JSON, or None where it is none that every reader takes.

    Such are NaN and infinities, names that are no text, integers beyond 64 bits, and what is nested deeper than
    ``JSON_DEPTH_MAX``.
    """
    level = [value]
    for _ in range(JSON_DEPTH_MAX + 1):
        nested: list[object] = []
        for item in level:
            if isinstance(item, Mapping):
                if not all(isinstance(name, str) for name in item):
                    return None
                nested.extend(item.values())
            elif isinstance(item, list | tuple):
                nested.extend(item)
            elif isinstance(item, int) and not -(2**63) <= item < 2**64:
                return None
        if not nested:
            try:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            except (TypeError, ValueError):
                return None
        level = nested
    return None


def with_whole_integers(text: bytes, loaded: Any) -> Any:
    """Return what a JSON text holds, with the integers that a quick reader made doubles of as integers again.

    They are too large all the same; but as integers they are refused under their names, and not silently rounded.

    Args:
        text: well-formed.
        loaded: what the quick reader made of it.
    """
    if _LONG_DIGITS.search(text) is None:
        return loaded
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # nested deeper than any field may be, and refused for that
        return loaded


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

    def fault(self, name: object, value: object, problem: str, remedy: str) -> None:
        """Record that a field is wrong; beyond ``FAULTS_MAX`` only that there are more."""
        if len(self.faults) < FAULTS_MAX:
            path = self.path(printable(name)) if name else self._path
            secret = value is not None and may_be_secret(name) and not (name == "headers" and isinstance(value, str))
            self.faults.append(Fault(path, HIDDEN if secret else shown(value), problem, remedy))
        elif len(self.faults) == FAULTS_MAX:
            self.faults.append(Fault("", f"more than {FAULTS_MAX} faults", "has too many faults", "mend these first"))

    def get(self, name: str) -> Any:
        return self._mapping.get(name)

    def has_any(self, names: Iterable[str]) -> bool:
        """Tell whether one of some fields is there."""
        get = self._mapping.get
        for name in names:  # noqa: SIM110 - a generator costs twice as much, and this is asked of every job
            if get(name) is not None:
                return True
        return False

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
        elif has_control(value):
            self.fault(name, value, "holds a control character", "leave out control characters such as CR, LF and NUL")
        else:
            return value
        return None

    def number(self, name: str, *, low: float, high: float, unit: str, above_low: bool = False) -> int | float | None:
        """Read a finite number between ``low`` and ``high`` inclusive (``above_low``: strictly above ``low``)."""
        value = self._mapping.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            problem = "is not a number"
        elif isinstance(value, float) and not math.isfinite(value):
            problem = "is not a finite number"
        elif not low <= value <= high or (above_low and value == low):
            problem = "is out of range"
        else:
            return value
        span = f"above {low:.15g} and up to {high:.15g}" if above_low else f"from {low:.15g} to {high:.15g}"
        self.fault(name, value, problem, f"give a number of {unit} {span}")
        return None

    def whole(self, name: str, *, low: int, high: int, unit: str, remedy: str = "") -> int | None:
        """Read a whole number between ``low`` and ``high`` inclusive; ``remedy``: what to do about a broken one."""
        value = self.number(name, low=low, high=high, unit=unit)
        if value is not None and value != int(value):
            self.fault(name, value, "is not a whole number", remedy or f"give a whole number of {unit}")
        return None if value is None else int(value)

    def flag(self, name: str) -> bool | None:
        """Read true or false; None where it is absent, or neither."""
        value = self._mapping.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.fault(name, value, "is neither true nor false", "give true or false")
        return None

    def child(self, name: str, *, required: bool = False, remedy: str = "give an object") -> FieldReader | None:
        """Read a nested object as a reader of its own."""
        value = self._mapping.get(name)
        if value is None:
            if required:
                self.fault(name, None, "is missing", remedy)
            return None
        if not isinstance(value, Mapping):
            self.fault(name, HIDDEN if may_be_secret(name) else value, "is not an object", remedy)
            return None
        return FieldReader(value, self.path(name), self.faults)

    def choice(
        self, name: str, choices: Sequence[str], *, default: str, later: Mapping[str, str] | None = None
    ) -> str | None:
        """Read one of a few words; absent, it is the default, and None where it is none of them.

        Args:
            name: of the field.
            choices: the words.
            default: what absence means.
            later: words that tocsin will understand in a later release, with what they will do.
        """
        value = self._mapping.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value in choices:
            return value
        listed = f"give one of: {', '.join(choices)}"
        if isinstance(value, str) and later and value in later:
            self.fault(name, value, f"is not supported yet: {later[value]}", listed)
        else:
            self.fault(name, value, "is not a choice", listed)
        return None

    def finish(self, known: Iterable[str], later: Mapping[str, str]) -> None:
        """Refuse what is left: fields that the contract names but tocsin cannot do yet, and unknown ones.

        Args:
            known: the names that were read.
            later: names that tocsin will understand in a later release, with what they will do.
        """
        names = list(known)
        for name, value in self._mapping.items():
            if name in names:
                continue
            if len(self.faults) > FAULTS_MAX:
                break
            if name in later:
                if value is not None:
                    self.fault(name, value, f"is not supported yet: {later[name]}", "leave the field out")
                continue
            near = difflib.get_close_matches(name[:64], names, n=1) if isinstance(name, str) else []
            hint = f"did you mean {near[0]!r}? " if near else ""
            listed = f"known fields: {', '.join(sorted(names))}"
            found = HIDDEN if may_be_secret(name) else value
            self.fault(name, found, "is an unknown field", hint + listed)
