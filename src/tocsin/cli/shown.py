"""What commands print: JSON for programs, aligned text for people. Whatever others wrote is made safe to print."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table


class Output(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]

LINE_CHARS_MAX: Final = 200
"""So much of a long text stands in a line of a list; who shows one thing alone has the rest."""
_CONTROLS: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
_WIDE = 4_000
"""Where no terminal folds lines, none is cut either: what is piped is read by programs."""


def console() -> Console:
    """Return the console of stdout as it is now."""
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False, soft_wrap=not sys.stdout.isatty())


def plain(text: str) -> str:
    """Return a text without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def short(text: str) -> str:
    """Return a text as a line of a list has it: not too much of it."""
    return text if len(text) <= LINE_CHARS_MAX else f"{text[: LINE_CHARS_MAX - 1]}…"


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json_text(value, indent=2))


def json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON that a terminal shows and does not obey; JSON itself escapes only the first controls."""
    return json.dumps(value, indent=indent, ensure_ascii=False).translate(_CONTROLS)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values; those that are None or empty are left out. Values may have several lines."""
    table = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, value in fields.items():
        if value not in (None, ""):
            lines = "\n".join(map(plain, str(value).rstrip().splitlines()))
            table.add_row(f"[bold]{escape(name)}[/]", escape(lines))
    _print(table)


def print_rows(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; None is an empty cell."""
    table = Table(*(Column(head, overflow="fold") for head in heads), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*("" if cell is None else escape(plain(str(cell))) for cell in row))
    _print(table)


def _print(table: Table) -> None:
    """Print a table without the blanks that fill its last column up."""
    out = console()
    with out.capture() as captured:
        out.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def schedule_text(schedule: Mapping[str, Any] | None) -> str:
    """Return a schedule in a few words."""
    if not schedule:
        return "by hand only"
    if "cron" in schedule:
        return f"{schedule['cron']} ({schedule.get('timezone')})"
    if "every_s" in schedule:
        return f"every {duration_text(schedule['every_s'])}"
    if "run_at" in schedule:
        return f"once at {schedule['run_at']}"
    return f"once, {duration_text(schedule.get('delay_s', 0))} after it was asked for"


def target_text(target: Mapping[str, Any]) -> str:
    """Return a target in a few words."""
    if target.get("type") == "message":
        key = f", key {target['key']}" if "key" in target else ""
        return f"message to {target.get('topic')}{key}"
    if target.get("type") == "command":
        return f"{shlex.join(target.get('argv', ()))} in the pool {target.get('pool')}"
    if target.get("type") == "handler":
        return f"handler {target.get('name')} in the pool {target.get('pool')}"
    if target.get("type") == "container":
        return f"container {target.get('image')} in the pool {target.get('pool')}"
    return f"{target.get('method', 'POST')} {target.get('url')}"


def retry_text(retry: Mapping[str, Any] | None) -> str:
    """Return a retry policy in a few words."""
    if not retry:
        return "none: one attempt"
    chosen = [f"{name} {'retried' if again else 'final'}" for name, again in (retry.get("retry_on") or {}).items()]
    return (
        f"up to {retry['max_attempts']} attempts, {retry['backoff']} from {duration_text(retry['base_s'])}"
        f" to {duration_text(retry['max_s'])}" + "".join(f"; {words}" for words in chosen)
    )


def duration_text(seconds: float) -> str:
    """Return a duration in its largest whole unit: 900 is ``15m``, 90 is ``90s``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"
