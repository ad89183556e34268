"""The flags that define a job, and what they make of a definition. Nothing is validated that the server validates."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from tocsin.cli.calendar_files import excluded_dates
from tocsin.cli.exits import REFUSED, Failure

TEXT_BYTES_MAX: Final = 1_000_000
"""As much as a gateway takes at all."""
_UNITS: Final = {
    unit: Decimal(size)
    for unit, size in (("ms", "0.001"), ("s", "1"), ("m", "60"), ("h", "3600"), ("d", "86400"), ("w", "604800"))
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
DURATION_REMEDY: Final = "give a number with a unit (ms, s, m, h, d, w), such as 30s, 15m or 1h30m"

_WHEN, _WHAT, _HOW, _WHO = "When", "What", "How", "Which job"

Name = Annotated[str | None, typer.Option("--name", help="For people; need not be unique.", rich_help_panel=_WHO)]
Label = Annotated[list[str] | None, typer.Option("--label", metavar="K=V", rich_help_panel=_WHO, help="Repeatable.")]
Cron = Annotated[str | None, typer.Option("--cron", metavar="EXPR", rich_help_panel=_WHEN, help="With --tz.")]
Tz = Annotated[
    str | None, typer.Option("--tz", metavar="ZONE", rich_help_panel=_WHEN, help="IANA zone, as Asia/Kolkata.")
]
Every = Annotated[str | None, typer.Option("--every", metavar="DURATION", rich_help_panel=_WHEN, help="As 15m.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", rich_help_panel=_WHEN, help="Once: RFC 3339 with an offset.")
]
In = Annotated[str | None, typer.Option("--in", metavar="DURATION", rich_help_panel=_WHEN, help="Once: as 30s.")]
Start = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", rich_help_panel=_WHEN, help="Nothing before it."),
]
End = Annotated[
    str | None,
    typer.Option("--end", metavar="TIME", rich_help_panel=_WHEN, help="Nothing after it."),
]
Spread = Annotated[
    str | None,
    typer.Option("--spread", metavar="DURATION", rich_help_panel=_WHEN, help="Up to so much later, by the job's id."),
]
CalendarFile = Annotated[
    str | None,
    typer.Option(
        "--calendar",
        metavar="FILE",
        rich_help_panel=_WHEN,
        help="Dates to leave out: an iCalendar file, or a date a line. With --cron.",
    ),
]
OnExcluded = Annotated[
    str | None,
    typer.Option("--on-excluded", rich_help_panel=_WHEN, help="skip (default) or shift to the next other date."),
]
Url = Annotated[
    str | None, typer.Option("--url", rich_help_panel=_WHAT, help="Call this URL. (The gateway is --gateway.)")
]
Method = Annotated[str | None, typer.Option("--method", rich_help_panel=_WHAT, help="Default: POST.")]
Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="K:V", rich_help_panel=_WHAT, help="Repeatable.")
]
Body = Annotated[
    str | None, typer.Option("--body", metavar="TEXT|@FILE", rich_help_panel=_WHAT, help="Sent as it is; @- is stdin.")
]
TimeoutS = Annotated[float | None, typer.Option("--timeout-s", rich_help_panel=_WHAT, help="Of one attempt.")]
Template = Annotated[
    bool | None,
    typer.Option("--template/--no-template", rich_help_panel=_WHAT, help="Fill {{attempt}} and the like in the body."),
]
Callback = Annotated[
    bool | None,
    typer.Option("--callback/--no-callback", rich_help_panel=_WHAT, help="The URL answers 202 and calls back."),
]
Topic = Annotated[str | None, typer.Option("--topic", rich_help_panel=_WHAT, help="Send a Kafka message here.")]
Key = Annotated[str | None, typer.Option("--key", rich_help_panel=_WHAT, help="Of the message.")]
Value = Annotated[
    str | None, typer.Option("--value", metavar="TEXT|@FILE", rich_help_panel=_WHAT, help="Of the message.")
]
Argv = Annotated[
    str | None,
    typer.Option("--argv", metavar="WORDS", rich_help_panel=_WHAT, help="Run this program; split as a shell would."),
]
Image = Annotated[str | None, typer.Option("--image", rich_help_panel=_WHAT, help="Run this container.")]
Pool = Annotated[str | None, typer.Option("--pool", rich_help_panel=_WHAT, help="Whose workers run it.")]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="K=V", rich_help_panel=_WHAT, help="Repeatable.")]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIR", rich_help_panel=_WHAT, help="Of the program.")]
Cpus = Annotated[str | None, typer.Option("--cpus", rich_help_panel=_WHAT, help="Of the container: at most, as 0.5.")]
Memory = Annotated[str | None, typer.Option("--memory", rich_help_panel=_WHAT, help="At most, as 512Mi.")]
Pids = Annotated[str | None, typer.Option("--pids", rich_help_panel=_WHAT, help="Processes at most.")]
MaxAttempts = Annotated[int | None, typer.Option("--max-attempts", rich_help_panel=_HOW, help="Of each execution.")]
BaseS = Annotated[float | None, typer.Option("--base-s", rich_help_panel=_HOW, help="The first retry's longest wait.")]
MaxS = Annotated[float | None, typer.Option("--max-s", rich_help_panel=_HOW, help="The longest wait of all.")]
RetryOn = Annotated[
    list[str] | None,
    typer.Option(
        "--retry-on",
        metavar="ERROR=true|false",
        rich_help_panel=_HOW,
        help="Attempted again after it? A status (404), a class (5xx) or an error (timeout). Repeatable.",
    ),
]
Concurrency = Annotated[
    str | None,
    typer.Option("--concurrency", rich_help_panel=_HOW, help="skip_if_running (default), allow, queue or replace."),
]
Group = Annotated[
    str | None,
    typer.Option("--group", rich_help_panel=_HOW, help="Jobs of a group never run at once; given at the create."),
]
MaxDuration = Annotated[
    str | None,
    typer.Option(
        "--max-duration", metavar="DURATION", rich_help_panel=_HOW, help="Of a run, over all its attempts; then DEAD."
    ),
]

CatchUp = Annotated[
    str | None,
    typer.Option("--catch-up", rich_help_panel=_HOW, help="What was missed: fire_once (default), skip or fire_all."),
]
MisfireAfter = Annotated[
    str | None,
    typer.Option("--misfire-after", metavar="DURATION", rich_help_panel=_HOW, help="Later is missed. Default: 60s."),
]
Grace = Annotated[
    str | None, typer.Option("--grace", metavar="DURATION", rich_help_panel=_HOW, help="With skip: so late still runs.")
]
MaxCatchUp = Annotated[
    int | None, typer.Option("--max-catch-up", rich_help_panel=_HOW, help="With fire_all: at most. Default: 100.")
]
OnResume = Annotated[
    str | None, typer.Option("--on-resume", rich_help_panel=_HOW, help="What a pause held back: skip or catch_up.")
]
Delivery = Annotated[
    str | None,
    typer.Option("--delivery", rich_help_panel=_HOW, help="at_least_once (default), or at_most_once: ends UNKNOWN."),
]
AlertOn = Annotated[
    list[str] | None,
    typer.Option(
        "--alert-on", metavar="WHAT", rich_help_panel=_HOW, help="failure, skip, missed or late; repeatable. Or none."
    ),
]
_GOES_WITH: Final = {"grace_s": "skip", "max_catch_up": "fire_all"}
"""Fields that mean something under one policy of catching up; an edit that leaves it leaves them out."""


def target_of(flags: JobFlags, before: dict[str, Any]) -> dict[str, Any] | None:
    """Return the target that flags make of the one before, None where they say nothing of it.

    Raises:
        typer.BadParameter: they speak of several kinds of targets, or of none.
    """
    http = {"url": flags.url, "method": flags.method, "body": flags.body}
    http |= {"template": flags.template, "callback": flags.callback}  # type: ignore[dict-item]
    message = {"topic": flags.topic, "key": flags.key, "value": flags.value}
    container = flags.image is not None or before.get("type") == "container"
    program = "container" if container else before.get("type") if flags.argv is None else "command"
    groups = (("http", http), ("message", message), (program or "command", _program(flags, before)))
    said = [(kind, given) for kind, fields in groups if (given := _present(fields))]
    if len(said) > 1:
        both = " and ".join(f"--{next(iter(given))}" for _, given in said[:2]).replace("_", "-")
        problem = "a job calls a URL, sends a message or runs a program: one of these, not both"
        raise typer.BadParameter(problem, param_hint=both)
    shared = _present({"timeout_s": flags.timeout_s})
    headers = {} if not flags.header else {"headers": _pairs(flags.header, ":", "--header")}
    if not said and not shared and not headers:
        return None
    kind, fields = said[0] if said else (before.get("type") or ("http" if shared else None), {})
    if kind is None:
        raise typer.BadParameter("name the target too: --url or --topic", param_hint="--header")
    for name in ("body", "value"):
        if name in fields:
            fields[name] = text_of(str(fields[name]), f"--{name}")
    return {**(before if before.get("type") == kind else {}), "type": kind, **fields, **shared, **headers}


def _program(flags: JobFlags, before: dict[str, Any]) -> dict[str, Any]:
    """Return what flags say of a command or a container; the server says what does not fit together."""
    said: dict[str, Any] = {"image": flags.image, "pool": flags.pool, "cwd": flags.cwd}
    if flags.argv is not None:
        try:
            said["argv"] = shlex.split(flags.argv)
        except ValueError as error:
            raise typer.BadParameter(f"{error}; it is split as a shell would", param_hint="--argv") from error
    if flags.env:
        said["env"] = _pairs(flags.env, "=", "--env")
    limits = _present({"cpus": flags.cpus, "memory": flags.memory, "pids": flags.pids})
    if limits:
        said["resources"] = {**(before.get("resources") or {}), **limits}
    return said


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class JobFlags:
    """The flags as they were given; None where not. Each field is an option of every command that takes flags."""

    name: Name = None
    label: Label = None
    cron: Cron = None
    tz: Tz = None
    every: Every = None
    at: At = None
    in_: In = None
    start: Start = None
    end: End = None
    spread: Spread = None
    calendar: CalendarFile = None
    on_excluded: OnExcluded = None
    url: Url = None
    method: Method = None
    header: Header = None
    body: Body = None
    timeout_s: TimeoutS = None
    template: Template = None
    callback: Callback = None
    topic: Topic = None
    key: Key = None
    value: Value = None
    argv: Argv = None
    image: Image = None
    pool: Pool = None
    env: Env = None
    cwd: Cwd = None
    cpus: Cpus = None
    memory: Memory = None
    pids: Pids = None
    max_attempts: MaxAttempts = None
    base_s: BaseS = None
    max_s: MaxS = None
    retry_on: RetryOn = None
    concurrency: Concurrency = None
    group: Group = None
    max_duration: MaxDuration = None
    catch_up: CatchUp = None
    misfire_after: MisfireAfter = None
    grace: Grace = None
    max_catch_up: MaxCatchUp = None
    on_resume: OnResume = None
    delivery: Delivery = None
    alert_on: AlertOn = None

    @property
    def any_given(self) -> bool:
        return any(getattr(self, field.name) not in (None, [], ()) for field in fields(self))

    def applied_to(self, definition: dict[str, Any]) -> dict[str, Any]:
        """Return a definition with what the flags say in place of what it said.

        Raises:
            typer.BadParameter: flags contradict one another, or lack one.
        """
        said = {
            "name": self.name,
            "labels": _pairs(self.label, "=", "--label") if self.label else None,
            "schedule": self._schedule(definition.get("schedule")),
            "target": target_of(self, definition.get("target") or {}),
            "retry": self._retry(definition.get("retry")),
            "concurrency": self.concurrency,
            "concurrency_group": self.group,
            "max_duration_s": seconds_of(self.max_duration, "--max-duration") if self.max_duration else None,
            "catch_up": self.catch_up,
            "misfire_after_s": seconds_of(self.misfire_after, "--misfire-after") if self.misfire_after else None,
            "grace_s": seconds_of(self.grace, "--grace") if self.grace else None,
            "max_catch_up": self.max_catch_up,
            "on_resume": self.on_resume,
            "delivery": self.delivery,
            "alert_on": ([] if self.alert_on == ["none"] else self.alert_on) if self.alert_on else None,
        }
        if self.catch_up is not None:
            definition = {k: v for k, v in definition.items() if _GOES_WITH.get(k, self.catch_up) == self.catch_up}
        return {**definition, **{name: value for name, value in said.items() if value is not None}}

    def _schedule(self, before: dict[str, Any] | None) -> dict[str, Any] | None:
        schedule, bounds = self._times(before), self._bounds(before or {})
        if schedule is None and bounds and not before:
            raise typer.BadParameter("say when: --cron, --every, --at or --in", param_hint=f"--{next(iter(bounds))}")
        return {**(schedule or before or {}), **bounds} if schedule or bounds else None

    def _bounds(self, before: dict[str, Any]) -> dict[str, Any]:
        """Return what goes with a schedule, whatever it is; the server says what does not fit together."""
        said: dict[str, Any] = {"start_at": self.start, "end_at": self.end}
        if self.spread is not None:
            said["spread_s"] = seconds_of(self.spread, "--spread")
        calendar = dict(before.get("calendar") or {})
        if self.calendar is not None:
            calendar["exclude"] = excluded_dates(read_text(self.calendar, "--calendar"), date.today())  # noqa: DTZ011
        if self.on_excluded is not None:
            calendar["on_excluded"] = self.on_excluded
        if self.calendar is not None or self.on_excluded is not None:
            said["calendar"] = calendar
        return {name: value for name, value in said.items() if value is not None}

    def _times(self, before: dict[str, Any] | None) -> dict[str, Any] | None:
        kinds = {"--cron": self.cron, "--every": self.every, "--at": self.at, "--in": self.in_}
        given = [flag for flag, value in kinds.items() if value is not None]
        if len(given) > 1:
            raise typer.BadParameter("a job has one schedule", param_hint=" and ".join(given))
        before = before if before and "cron" in before else {}
        if self.cron is not None or (self.tz is not None and before):
            zone = self.tz or before.get("timezone")
            if zone is None:
                raise typer.BadParameter("say in which zone: --tz Asia/Kolkata, or --tz UTC", param_hint="--cron")
            return {**before, "cron": self.cron or before.get("cron"), "timezone": zone}
        if self.tz is not None:
            raise typer.BadParameter("a zone goes with --cron only", param_hint="--tz")
        if self.every is not None:
            return {"every_s": seconds_of(self.every, "--every")}
        if self.at is not None:
            return {"run_at": self.at}
        return None if self.in_ is None else {"delay_s": seconds_of(self.in_, "--in")}

    def _retry(self, before: dict[str, Any] | None) -> dict[str, Any] | None:
        said: dict[str, Any] = {"max_attempts": self.max_attempts, "base_s": self.base_s, "max_s": self.max_s}
        if self.retry_on:
            pairs = _pairs(self.retry_on, "=", "--retry-on")
            said["retry_on"] = {name: _truth(text, "--retry-on") for name, text in pairs.items()}
        given = _present(said)
        return {**(before or {}), **given} if given else None


def takes_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each flag in place of its parameter ``flags``."""
    options = get_type_hints(JobFlags, include_extras=True)
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name == "flags":
            parameters += [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=o) for n, o in options.items()]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    @wraps(command)
    def run(**given: Any) -> None:
        flags = JobFlags(**{name: given.pop(name) for name in options})
        command(flags=flags, **given)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # what Typer reads a command by
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def seconds_of(text: str, flag: str) -> int | float:
    """Return a duration such as ``1h30m`` in seconds.

    Raises:
        typer.BadParameter: it is none.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is not a duration; {DURATION_REMEDY}", param_hint=flag)
    seconds = sum((Decimal(number) * _UNITS[unit] for number, unit in parts), Decimal(0))
    return int(seconds) if seconds == int(seconds) else float(seconds)


def text_of(given: str, flag: str) -> str:
    """Return a text as given, or that of the file that ``@FILE`` names.

    Raises:
        Failure: the file cannot be read as UTF-8, or is too large.
    """
    return read_text(given[1:], flag) if given.startswith("@") else given


def read_text(name: str, flag: str) -> str:
    """Return the text of a file, ``-`` being stdin; raises what ``text_of`` raises."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(TEXT_BYTES_MAX + 1)
        if len(data) > TEXT_BYTES_MAX:
            raise Failure(REFUSED, f"{flag}: {name} is too large", f"give at most {TEXT_BYTES_MAX} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise Failure(
            REFUSED, f"{flag}: {name} cannot be read: {error.strerror}", "name a file, or - for stdin"
        ) from error
    except UnicodeDecodeError as error:
        raise Failure(REFUSED, f"{flag}: {name} is not text in UTF-8", "save it as UTF-8") from error


def _truth(text: str, flag: str) -> bool:
    if text not in ("true", "false"):
        raise typer.BadParameter(f"{text!r} is neither true nor false", param_hint=flag)
    return text == "true"


def _pairs(given: Sequence[str], mark: str, flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        name, found, value = text.partition(mark)
        if not found or not name.strip():
            raise typer.BadParameter(f"{text!r} is not a name, {mark!r} and a text", param_hint=flag)
        if name.strip() in pairs:
            raise typer.BadParameter(f"{name.strip()!r} is given twice", param_hint=flag)
        pairs[name.strip()] = value.strip()
    return pairs
