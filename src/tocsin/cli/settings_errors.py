"""What is wrong with the settings of the environment, told by the names of its variables."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_settings import SettingsError

from tocsin.domain.fields import HIDDEN, may_be_secret, shown

PREFIX = "TOCSIN_"


def told(error: ValidationError | SettingsError) -> list[str]:
    """Return a line for each fault: variable, problem, value, and what would be right."""
    if isinstance(error, ValidationError):
        return [_line(fault["loc"], str(fault["msg"]), fault["input"]) for fault in error.errors(include_url=False)]
    return [f"{name} cannot be read (got {value}); give what its setting in tocsin.config takes, objects as JSON"
            for name, value in _suspects(str(error))]  # fmt: skip


def _line(place: tuple[int | str, ...], problem: str, value: object) -> str:
    # Of an item in a list, the variable is that of the list.
    name = PREFIX + "__".join(str(part) for part in place if isinstance(part, str)).upper()
    found = HIDDEN if may_be_secret(name) else shown(value)
    return f"{name}: {problem[:1].lower()}{problem[1:]} (got {found}); mend it, or unset it for the default"


def _suspects(message: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of the setting that a message is about; which of them it was, it does not say."""
    fields = message.split('"')[1:2]
    names = sorted(name for name in os.environ if fields and name.upper().startswith(PREFIX + fields[0].upper()))
    for name in names:
        yield name, HIDDEN if may_be_secret(name) else shown(os.environ[name])
    if not names:
        yield f"a variable that begins with {PREFIX}", message
