"""``tocsin cron``: what expressions mean and when they are due, asked of this program and of no server."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from tocsin.cli.exits import EPILOG, REFUSED, Failure, failures_told
from tocsin.cli.shown import Output, OutputOption, plain, print_fields, print_json
from tocsin.domain.errors import CallerError, Fault, InvalidInput
from tocsin.domain.instants import format_rfc3339, parse_rfc3339
from tocsin.domain.lookups import look_up, whole_job_id
from tocsin.domain.previews import KINDS, TIMES_MAX, preview
from tocsin.domain.recurrence import TZDATA_VERSION, CronError

LINE_CHARS_MAX: Final = 10_000

app = typer.Typer(no_args_is_help=True, help="Cron expressions: in words, and when they are due.", epilog=EPILOG)


@app.command("explain")
def explain(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help='The expression, in quotes: "0 2 * * *".')],
    timezone: Annotated[str, typer.Option("--timezone", "--tz", metavar="ZONE", help="IANA zone.")],
    count: Annotated[int, typer.Option("-n", min=0, max=TIMES_MAX, help="How many times to show.")] = 10,
    after: Annotated[
        str | None, typer.Option("--after", metavar="TIME", help="Show times after this one. Default: now.")
    ] = None,
    job_id: Annotated[str | None, typer.Option("--job-id", metavar="JOB", help="Whose id picks the H.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say in words when an expression is due, and show its next times with what the clock does to them."""
    with failures_told():
        try:
            start = time.time_ns() // 1000 if after is None else parse_rfc3339(after)
        except ValueError as error:
            raise typer.BadParameter(f"{after!r} {error}", param_hint="--after") from None
        try:
            shown = preview(expression, timezone, start, count, job_id=whole_job_id(job_id))
        except CronError as error:
            raise _failure(error.fault()) from None
        except InvalidInput as error:
            raise _failure(error.faults[0]) from None
        if output is Output.JSON:
            print_json(shown.as_json())
            return
        print_fields(
            {
                "expression": shown.expression,
                "in words": shown.words,
                "kind": KINDS[shown.cadence],
                "zone": f"{shown.timezone} (zone data {TZDATA_VERSION})",
            }
        )
        for one in shown.as_json()["times"]:
            notes = f"  ({'; '.join(one['notes'])})" if one["notes"] else ""
            typer.echo(f"  {one['at']}{plain(notes)}")
        if len(shown.times) < count:
            typer.echo("  none after that up to the year 2199")


@app.command("next")
def next_times(
    batch: Annotated[
        str,
        typer.Option(
            "--batch", metavar="FILE", help="JSON lines {expr, timezone, start, n, direction, job_id}; - is stdin."
        ),
    ],
) -> None:
    """Answer many questions, one JSON line each: {"times": [...]} in UTC, or {"error": {...}}.

    start is RFC 3339, or wall time in the zone where it has no offset; absent, n is 1 and direction is next.
    A line that is wrong gets an error, and the rest goes on; the exit code is 0 where the file could be read.
    """
    with failures_told(), _opened(batch) as lines:
        for line in _bounded(lines):
            if line is None or line.strip():
                typer.echo(json.dumps(_answer(line), ensure_ascii=False))


def _answer(line: str | None) -> dict[str, Any]:
    try:
        if line is None:
            problem, remedy = f"is longer than {LINE_CHARS_MAX} characters", "give one question a line"
            raise InvalidInput([Fault("", "the line", problem, remedy)])
        try:
            question = json.loads(line)
        except (ValueError, RecursionError) as error:
            fault = Fault("", repr(line[:80]), f"is not JSON: {error}", "give one JSON object a line")
            raise InvalidInput([fault]) from None
        return {"times": [format_rfc3339(at) for at in look_up(question)]}
    except InvalidInput as error:
        faults = [{"field": f.field, "value": f.value, "problem": f.problem, "remedy": f.remedy} for f in error.faults]
        return {"error": {"detail": "; ".join(map(str, error.faults)), "faults": faults}}
    except CallerError as error:
        return {"error": {"detail": str(error), "faults": []}}


def _bounded(lines: IO[bytes]) -> Iterator[str | None]:
    """Yield the lines of a file; None for one that is too long to be a question."""
    while line := lines.readline(LINE_CHARS_MAX + 1):
        if len(line) <= LINE_CHARS_MAX or line.endswith(b"\n"):
            yield line.decode("utf-8", "replace")
            continue
        while line and not line.endswith(b"\n"):
            line = lines.readline(LINE_CHARS_MAX)
        yield None


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        problem = f"--batch: {name} cannot be read: {error.strerror}"
        raise Failure(REFUSED, problem, "name a file, or - for stdin") from error


def _failure(fault: Fault) -> Failure:
    name = {"cron": "EXPR", "timezone": "--timezone", "job_id": "--job-id"}.get(fault.field, fault.field)
    return Failure(REFUSED, f"{name}: {fault.problem} (got {fault.value})", fault.remedy)
