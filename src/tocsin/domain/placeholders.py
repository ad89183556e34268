"""Placeholders in bodies: names in double braces, which the worker replaces anew for each attempt.

A fixed list of names: no expressions, no conditions, no escapes, and nothing is ever executed. What they stand for are
ids, numbers and times, in which no character needs escaping in JSON, XML or a form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

PLACEHOLDERS: Final = ("execution_id", "job_id", "tenant_id", "scheduled_for", "attempt", "token")
PLACEHOLDERS_MAX: Final = 100
"""In one body: what they stand for may be longer than their names, and the filled body is bounded too."""
_OPENED: Final = re.compile(r"\{\{([^{}]{0,64}\}\})?")


def placeholder_problem(text: str) -> tuple[str, str] | None:
    """Return what is wrong with the placeholders of a text, if anything: the piece, and the problem."""
    count = 0
    for match in _OPENED.finditer(text):
        name = _name_in(match)
        if name not in PLACEHOLDERS:
            return text[match.start() : match.start() + 40], "is not a placeholder"
        count += 1
    if count > PLACEHOLDERS_MAX:
        return f"{count} placeholders", "are too many"
    return None


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced; what is none stays as it is."""
    return _OPENED.sub(lambda match: values.get(_name_in(match), match[0]), text)


def _name_in(match: re.Match[str]) -> str:
    return (match[1] or "").removesuffix("}}").strip(" ")
