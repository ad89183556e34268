"""Targets that are programs: commands of a worker's machine, and containers. Values and their validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tocsin.domain.fields import HIDDEN, FieldReader, has_surrogate
from tocsin.domain.pools import parse_pool
from tocsin.domain.time_limits import TIMEOUT_S_DEFAULT, parse_timeout

ARGUMENTS_MAX: Final = 1_024
ARGV_BYTES_MAX: Final = 64 * 1024
"""All arguments together. With that of the environment it keeps a job's records far below what a log takes."""
VARIABLES_MAX: Final = 256
ENV_BYTES_MAX: Final = 64 * 1024
CWD_CHARS_MAX: Final = 1_024
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
OWN_PREFIX: Final = "TOCSIN_"
IMAGE: Final = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?"  # a registry
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@[a-z0-9]{1,32}:[0-9a-f]{1,128})?"
)
"""A name, with a tag or a digest. Command lines take more: podman reads ``dir:/srv/x`` from the worker's own disk."""
IMAGE_CHARS_MAX: Final = 255
CPUS_MAX: Final = 1_024
MEMORY_BYTES: Final = 4 * 2**20, 2**44
PIDS_MAX: Final = 4_194_304
_CPUS: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")
_MEMORY: Final = re.compile(r"([0-9]{1,15})(Ki|Mi|Gi)?")
_PIDS: Final = re.compile(r"[0-9]{1,7}")
_UNITS: Final = {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """A program of the machine of a pool's workers, run without a shell.

    Attributes:
        argv: the program, by its path or by a name on PATH, and its arguments.
        pool: whose workers run it.
        env: variables of its own; tocsin adds those that tell whose run it is.
        cwd: where it starts, an absolute path; None: in an empty directory that is removed afterwards.
        timeout_s: limit of one attempt.
    """

    argv: tuple[str, ...]
    pool: str
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout_s: float = TIMEOUT_S_DEFAULT

    type: ClassVar[str] = "command"


@dataclass(frozen=True, slots=True)
class ContainerTarget:
    """A container, run by the workers of a pool.

    Attributes:
        image: as the workers' registry knows it.
        pool: whose workers run it.
        argv: in place of the image's own command; empty: that.
        env: variables of its own; tocsin adds those that tell whose run it is.
        resources: limits by name: ``cpus`` (a decimal number), ``memory`` (bytes, or with Ki, Mi or Gi) and ``pids``.
        timeout_s: limit of one attempt.
    """

    image: str
    pool: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S_DEFAULT

    type: ClassVar[str] = "container"


def parse_container(reader: FieldReader) -> ContainerTarget | None:
    """Read a container; None where faults were recorded."""
    before = len(reader.faults)
    remedy = "give an image such as registry.internal/reports:7"
    image = reader.text("image", chars_max=IMAGE_CHARS_MAX, required=True, remedy=remedy)
    if image is not None and IMAGE.fullmatch(image) is None:
        reader.fault("image", image, "is not the name of an image", remedy)
    argv = parse_argv(reader, required=False)
    env = parse_env(reader)
    resources = _parse_resources(reader)
    pool = parse_pool(reader)
    timeout_s = parse_timeout(reader)
    reader.finish(("type", "image", "argv", "pool", "env", "resources", "timeout_s"), {})
    if len(reader.faults) > before or image is None or pool is None:
        return None
    return ContainerTarget(image, pool, argv, env, resources, timeout_s)


def memory_bytes_of(text: str) -> int:
    """Return a limit of memory, as ``resources`` holds it, in bytes."""
    match = _MEMORY.fullmatch(text)
    return 0 if match is None else int(match[1]) * _UNITS[match[2]]


_LIMITS: Final[Mapping[str, tuple[re.Pattern[str], Callable[[str], bool], str]]] = {
    "cpus": (_CPUS, lambda text: 0.01 <= float(text) <= CPUS_MAX, f"give a number from 0.01 to {CPUS_MAX}"),
    "memory": (
        _MEMORY,
        lambda text: MEMORY_BYTES[0] <= memory_bytes_of(text) <= MEMORY_BYTES[1],
        "give 4Mi to 16384Gi, such as 512Mi",
    ),
    "pids": (_PIDS, lambda text: 1 <= int(text) <= PIDS_MAX, f"give a whole number from 1 to {PIDS_MAX}"),
}


def _parse_resources(target: FieldReader) -> dict[str, str]:
    reader = target.child("resources", remedy='give an object such as {"cpus": 0.5, "memory": "512Mi", "pids": 100}')
    if reader is None:
        return {}
    reader.finish(("cpus", "memory", "pids"), {})
    found: dict[str, str] = {}
    for name, (form, fits, remedy) in _LIMITS.items():
        given = reader.get(name)
        if given is None:
            continue
        text = _limit_text(given)
        if form.fullmatch(text) is None or not fits(text):
            reader.fault(name, given, "is not such a limit", remedy)
        else:
            found[name] = text
    return found


def _limit_text(given: object) -> str:
    """Return a number or a text as a text; anything else as an empty one."""
    if isinstance(given, float):
        return f"{given:g}"
    is_number = isinstance(given, int) and not isinstance(given, bool) and given.bit_length() <= 64
    return str(given) if is_number or isinstance(given, str) else ""


def parse_command(reader: FieldReader) -> CommandTarget | None:
    """Read a command; None where faults were recorded."""
    before = len(reader.faults)
    argv = parse_argv(reader, required=True)
    env = parse_env(reader)
    cwd = reader.text("cwd", chars_max=CWD_CHARS_MAX)
    if cwd is not None and not cwd.startswith("/"):
        reader.fault("cwd", cwd, "is not an absolute path", "give one such as /srv/reports, or leave it out")
    pool = parse_pool(reader)
    timeout_s = parse_timeout(reader)
    reader.finish(("type", "argv", "pool", "env", "cwd", "timeout_s"), {})
    if len(reader.faults) > before or not argv or pool is None:
        return None
    return CommandTarget(argv, pool, env, cwd, timeout_s)


def parse_argv(reader: FieldReader, *, required: bool) -> tuple[str, ...]:
    """Read a program and its arguments; empty where there are none, or faults were recorded."""
    remedy = 'give a list of texts such as ["/usr/bin/rsync", "-a", "/srv/a", "/srv/b"]; no shell reads it'
    given = reader.get("argv")
    if given is None or given == []:
        if required:
            reader.fault("argv", given, "is missing", remedy)
        return ()
    if not isinstance(given, list | tuple):
        reader.fault("argv", given, "is not a list", remedy)
        return ()
    if len(given) > ARGUMENTS_MAX:
        reader.fault("argv", f"{len(given)} arguments", "are too many", f"give at most {ARGUMENTS_MAX}")
        return ()
    for at, argument in enumerate(given):
        problem = _text_problem(argument) or ("is empty" if at == 0 and required and not argument else None)
        if problem is not None:
            # An argument may be a password.
            reader.fault(f"argv[{at}]", HIDDEN, problem, remedy)
            return ()
    if sum(len(argument.encode()) + 1 for argument in given) > ARGV_BYTES_MAX:
        reader.fault("argv", f"{len(given)} arguments", "are too large", f"give at most {ARGV_BYTES_MAX} bytes in all")
        return ()
    return tuple(given)


def parse_env(reader: FieldReader) -> dict[str, str]:
    """Read a program's own variables. Their values are shown nowhere: they may be secrets."""
    inner = reader.child("env", remedy="give an object of names and texts")
    if inner is None:
        return {}
    given = reader.get("env")
    if len(given) > VARIABLES_MAX:
        reader.fault("env", f"{len(given)} variables", "are too many", f"give at most {VARIABLES_MAX}")
        return {}
    env: dict[str, str] = {}
    bytes_left = ENV_BYTES_MAX
    for name, value in given.items():
        if not isinstance(name, str) or VARIABLE.fullmatch(name) is None:
            began = name.partition("=")[0] if isinstance(name, str) else name
            reader.fault("env", began, "is not a variable's name", "use up to 128 letters, digits and underscores")
        elif name.upper().startswith(OWN_PREFIX):
            inner.fault(name, HIDDEN, "is a name that tocsin keeps for itself", f"use no name that begins {OWN_PREFIX}")
        elif (problem := _text_problem(value)) is not None:
            inner.fault(name, HIDDEN, problem, "give a text")
        elif (bytes_left := bytes_left - len(name) - len(value.encode()) - 2) < 0:
            inner.fault(name, HIDDEN, "is too much", f"give at most {ENV_BYTES_MAX} bytes of variables in all")
        else:
            env[name] = value
    return env


def _text_problem(value: object) -> str | None:
    """Return why a value cannot be handed to a program; None where it can."""
    if not isinstance(value, str):
        return "is not a text"
    if "\x00" in value:
        return "holds a NUL, which ends a text for programs"
    return "holds half of a surrogate pair" if has_surrogate(value) else None
