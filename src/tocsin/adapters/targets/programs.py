"""Programs as attempts: each on a leash, its output kept, its whole family ended with it.

What kind of program it is, and what its exit status means, is said by subclasses.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tocsin.adapters.targets.answers import one_line
from tocsin.adapters.targets.attempt_loop import CANCELLED, AttemptLoop
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.targets import TIMEOUT_S_MAX
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import LogPlace, RunLog, RunLogs
from tocsin.ports.targets import Attempt, AttemptEnd

LEASH: Final = str(Path(__file__).with_name("leash.py"))
READ_BYTES: Final = 65_536
STATUS_BYTES_MAX: Final = 4_096
BREATH_S: Final = 0.001
"""Between two full reads: who prints without end must not take the interpreter from all others."""
CUT_AFTER_S: Final = 30.0
"""How long past its graces what keeps a program may take to end it; far longer than all that it does then."""
HELD_S: Final = 1.0
"""How often it is looked whether a program is over, and how much longer its output is listened to then."""
LAST_LINE_CHARS: Final = 200
SAID_CLASSES: Final = ("exit", "temporary", "not_executable", "signal", "container")
"""Errors that the last line of the output belongs to."""


class ProgramSpec(NamedTuple):
    """What a leash is to run."""

    argv: Sequence[str]
    env: Mapping[str, str]
    timeout_s: float
    cwd: str | None = None
    """None: an empty directory that is removed at the end."""
    clean_up: Sequence[Sequence[str]] = ()
    """Commands that end what the program's own end does not; run where it was ended, or died by a signal."""
    linger_s: float = 0.0
    """How long what it leaves behind may go on before it is killed."""


class Program:
    """One program on its leash."""

    def __init__(self, process: asyncio.subprocess.Process, status: int) -> None:
        self._process = process
        self._status = status

    @classmethod
    async def start(cls, spec: ProgramSpec, grace_s: float, scratch: str) -> Program:
        """Start a program.

        Args:
            spec: what to run.
            grace_s: between the polite and the forced end.
            scratch: where the directories of programs without one of their own are made.
        """
        status, tell = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", LEASH, str(tell)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # One pipe for both, so that their lines stand in the order in which they were printed.
                stderr=asyncio.subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                pass_fds=(tell,),
                start_new_session=True,
            )
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(tell)
        orders = json.dumps(
            {
                "argv": list(spec.argv),
                "env": dict(spec.env),
                "cwd": spec.cwd,
                "scratch": scratch,
                "grace_s": grace_s,
                "linger_s": spec.linger_s,
                "clean_up": [list(argv) for argv in spec.clean_up],
            }
        ).encode()
        assert process.stdin is not None
        process.stdin.write(struct.pack(">I", len(orders)) + orders)
        return cls(process, status)

    async def run(self, write: Callable[[bytes], None]) -> dict[str, Any]:
        """Pass output on until the program and all that it started have ended; return what the leash tells."""
        output = self._process.stdout
        assert output is not None
        watch = asyncio.get_running_loop().create_task(self._let_go_of_output())
        try:
            while data := await output.read(READ_BYTES):
                write(data)
                if len(data) == READ_BYTES:
                    await asyncio.sleep(BREATH_S)
            code = self._process.returncode
            if code is None:
                code = await self._process.wait()
            os.set_blocking(self._status, False)
            with suppress(BlockingIOError, ValueError):
                told: dict[str, Any] = json.loads(os.read(self._status, STATUS_BYTES_MAX))
                return told
            return {"leash": code}
        finally:
            watch.cancel()
            os.close(self._status)

    async def _let_go_of_output(self) -> None:
        """Hear no more of a program that is over: what the leash cannot end may hold its output open for ever."""
        while self._process.returncode is None:
            await asyncio.sleep(HELD_S)
        await asyncio.sleep(HELD_S)
        # Closing it is the reader's end too. A process has no public way to one of its pipes.
        transport: Any = self._process._transport  # type: ignore[attr-defined]
        transport.get_pipe_transport(1).close()

    def let_go(self) -> None:
        """Have it ended; ``run`` returns when it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)  # a program may have stopped what keeps it

    def cut(self) -> None:
        """Kill what keeps it, and it with that, but not what it has started."""
        with suppress(ProcessLookupError):
            self._process.kill()


class ProgramRunner(AttemptLoop):
    """Runs programs; subclasses give ``_spec`` and ``_judge``.

    Args:
        clock: stamps start and end.
        name: of the thread.
        logs: where output goes.
        grace_s: between the polite and the forced end of a program.
        scratch: where directories of programs without one of their own are made.
    """

    def __init__(self, clock: Clock, name: str, logs: RunLogs, grace_s: float, scratch: str) -> None:
        super().__init__(clock, name)
        self._logs = logs
        self._grace_s = grace_s
        self._scratch = scratch

    def _spec(self, attempt: Attempt) -> ProgramSpec:
        """Return what to run. Raises ``ValueError`` for a target of another kind."""
        raise NotImplementedError

    def _judge(self, code: int) -> AttemptError | None:
        """Return what an exit status means; None: success."""
        raise NotImplementedError

    async def _run(self, attempt: Attempt) -> AttemptEnd:
        started_at = self._clock.now()
        head = attempt.execution.head
        log = self._logs.open(LogPlace(head.execution_id, head.attempt, head.token))
        try:
            kind, error = await self._carry_out(self._spec(attempt), log)
        except asyncio.CancelledError:
            kind, error = ReportKind.CANCELLED, CANCELLED
        except Exception as exception:  # noqa: BLE001 - an attempt without an end would hold its place for ever
            text = str(exception) or type(exception).__name__
            kind, error = ReportKind.FAILED, AttemptError("internal", one_line(f"it could not be run: {text}"))
        tail = log.end()
        return AttemptEnd(attempt.ref, kind, started_at, self._clock.now(), _with_last_line(error, tail), tail or None)

    async def _carry_out(self, spec: ProgramSpec, log: RunLog) -> tuple[ReportKind, AttemptError | None]:
        if not 0 < spec.timeout_s <= TIMEOUT_S_MAX:
            raise ValueError(f"{spec.timeout_s!r} is not a timeout")
        program = await Program.start(spec, self._grace_s, self._scratch)
        running = self._loop.create_task(program.run(log.write))
        end: tuple[ReportKind, AttemptError | None]
        try:
            async with asyncio.timeout(spec.timeout_s):
                return self._verdict(await asyncio.shield(running))
        except TimeoutError:
            end = ReportKind.TIMED_OUT, AttemptError("timeout", f"no end within {spec.timeout_s:g} s")
        except asyncio.CancelledError:
            end = ReportKind.CANCELLED, CANCELLED
        program.let_go()
        patience_s = self._grace_s + spec.linger_s + CUT_AFTER_S
        until_s = self._loop.time() + patience_s
        while not running.done():
            # Asked to stop once more, it can do no more than it does.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running], timeout=patience_s)
            if self._loop.time() >= until_s:
                program.cut()
        return end

    def _verdict(self, told: Mapping[str, Any]) -> tuple[ReportKind, AttemptError | None]:
        if "exit" in told:
            error = self._judge(told["exit"])
            return (ReportKind.SUCCEEDED if error is None else ReportKind.FAILED), error
        return ReportKind.FAILED, _unnatural_end(told)


def _unnatural_end(told: Mapping[str, Any]) -> AttemptError:
    if "signal" in told:
        return AttemptError("signal", f"killed by {signal_name(told['signal'])}")
    if "failed" in told:
        return AttemptError("internal", one_line(f"it could not be started: {os.strerror(told['failed'])}"))
    if "error" in told:
        return AttemptError("not_executable", one_line(f"{told['what']}: {os.strerror(told['error'])}"))
    if "stuck" in told:
        return AttemptError("internal", "the kernel does not let it end")
    return AttemptError("signal", f"what keeps it was killed, and it with that ({told.get('leash')})")


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_last_line(error: AttemptError | None, tail: str) -> AttemptError | None:
    """Return an error with the last line of the output, which mostly says why."""
    lines = tail.splitlines()
    if error is None or not lines or error.error_class not in SAID_CLASSES:
        return error
    said = one_line(lines[-1], LAST_LINE_CHARS)
    return AttemptError(error.error_class, one_line(f"{error.message}: {said}"), error.status)
