"""Runs one program and leaves nothing of it behind: ``python leash.py <fd for the outcome>``, orders on stdin.

A script, run by its path and importing nothing of tocsin, one process for each program. Its stdin is the leash: once
the orders are read, the end of it (let go by the worker, or by its death, however sudden) ends the program: politely,
and after a grace by force. It adopts what the program's children leave behind, so that the program's end is that of all
that it has started. Linux only.

What it does not reach: processes that others start on the program's behalf (a container daemon, systemd), that run
under another user by a set-user-ID file, or that the kernel holds in an uninterruptible wait. Where the leash itself is
killed, the program dies with it, but not what the program has started.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # else nothing is imported that is not needed: each program waits for it
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.05
_KILL_LOOK_S = 0.005
_REAP_S = 5.0
"""How often children that nobody waits for are taken leave of while the program runs."""
_KILL_WAIT_S = 5.0
_CLEAN_UP_WAIT_S = 5.0
_OOM_SCORE = b"500"
"""So that the program goes before the worker when memory runs out."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read orders, run the program, and tell how it ended once nothing of it is left."""
    tell = int(sys.argv[1])
    os.set_inheritable(tell, False)
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # sent to all processes of a service, and not meant for this one
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    orders = _read_orders()
    if orders is None:
        return
    scratch = None
    try:
        if orders["cwd"] is None:
            orders["cwd"] = scratch = _make_scratch(orders["scratch"])
        outcome = _run(orders)
    except OSError as error:
        outcome = {"failed": error.errno}
    if scratch is not None:
        _remove(scratch)
    os.write(tell, json.dumps(outcome).encode())


def _read_orders() -> dict[str, Any] | None:
    size = _read(4)
    body = _read(struct.unpack(">I", size)[0]) if len(size) == 4 else b""
    try:
        orders: dict[str, Any] = json.loads(body)
    except ValueError:
        return None  # the worker died before it had said all of it
    return orders


def _read(size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := os.read(0, size - len(data))):
        data += piece
    return data


def _make_scratch(directory: str) -> str:
    path = f"{directory}/tocsin-{os.getpid()}-{os.urandom(6).hex()}"
    os.mkdir(path, 0o700)  # noqa: PTH102 - a module less to import
    return path


def _remove(path: str) -> None:
    """Remove a directory, also what a program has locked in it; nothing of the program is left by now."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    if os.path.exists(path):  # noqa: PTH110 - a module less to import
        with suppress(OSError):
            os.chmod(path, 0o700)  # noqa: PTH101
        for at, directories, _ in os.walk(path):  # which looks into a directory only after this has opened it
            for inner in [f"{at}/{name}" for name in directories]:
                with suppress(OSError):
                    if not os.path.islink(inner):  # noqa: PTH114
                        os.chmod(inner, 0o700)  # noqa: PTH101
        shutil.rmtree(path, ignore_errors=True)


def _run(orders: dict[str, Any]) -> dict[str, Any]:
    failed, fail = os.pipe()
    child = os.fork()
    if child == 0:
        _become(orders, fail)
    os.close(fail)
    failure = os.read(failed, 4_096)
    os.close(failed)
    if failure:
        os.waitpid(child, 0)
        told: dict[str, Any] = json.loads(failure)
        return told
    let_go = not _wait(child)
    if let_go:
        _end_politely(child, orders["grace_s"])
    status = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if let_go or status is None or status.si_code != os.CLD_EXITED:
        for argv in orders["clean_up"]:
            _clean_up(argv, orders["env"])
    until = time.monotonic() + orders["linger_s"]
    while time.monotonic() < until and _left(child):
        time.sleep(_LOOK_S)
    _kill_all(child)
    status = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG)
    with suppress(ChildProcessError):
        # The init of a container may be the worker, which waits for none of them.
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if status is None:
        return {"stuck": True}
    return {"exit" if status.si_code == os.CLD_EXITED else "signal": status.si_status}


def _become(orders: dict[str, Any], fail: int) -> NoReturn:
    """Be the program; in the forked process. Never returns."""
    what = "its process"
    try:
        parent = os.getppid()
        os.setsid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(one, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        _prefer_for_the_oom_killer()
        what = f"its directory {orders['cwd']}"
        os.chdir(orders["cwd"])
        what = orders["argv"][0]
        os.execvpe(what, orders["argv"], orders["env"])
    except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
        os.write(fail, json.dumps({"error": getattr(error, "errno", None) or 0, "what": what}).encode())
    finally:
        os._exit(127)


def _prefer_for_the_oom_killer() -> None:
    with suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)


def _wait(child: int) -> bool:
    """Wait for the program's end, True, or until it is let go, False."""
    watched = select.poll()
    watched.register(0, select.POLLIN | select.POLLHUP)
    try:
        ending = os.pidfd_open(child)
        watched.register(ending, select.POLLIN)
    except OSError:
        ending = -1
    while True:
        events = dict(watched.poll((_REAP_S if ending >= 0 else _LOOK_S) * 1000))
        _reap(child)
        if _has_ended(child):
            return True
        if 0 in events:
            return False


def _has_ended(child: int) -> bool:
    # It stays to be waited for: as long as it is, its number and that of its group are its own.
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(child: int) -> None:
    """Take leave of adopted children that have ended, but not of the program itself."""
    while (one := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and one.si_pid != child:
        os.waitpid(one.si_pid, 0)


def _end_politely(child: int, grace_s: float) -> None:
    with suppress(OSError):
        os.killpg(child, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while time.monotonic() < until and _left(child):
        time.sleep(_LOOK_S)


def _kill_all(child: int) -> None:
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    until = time.monotonic() + _KILL_WAIT_S
    while (left := _left(child)) and time.monotonic() < until:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_LOOK_S)


def _left(child: int) -> list[int]:
    """Return what descends from this process and lives."""
    if _has_ended(child):
        _reap(child)
        # Children of the dead are ours by now; mostly there are none, and a look at all processes is spared.
        if _children() == [child]:
            return []
    found = _processes()
    kin = {os.getpid()}
    while more := {pid for pid, (parent, _) in found.items() if parent in kin} - kin:
        kin |= more
    return [pid for pid in kin if pid != os.getpid() and found[pid][1] not in "ZX"]


def _children() -> list[int] | None:
    """Return the children of this process; None where this kernel does not tell."""
    try:
        file = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return None
    try:
        return [int(pid) for pid in os.read(file, 4_096).split()]
    finally:
        os.close(file)


def _processes() -> dict[int, tuple[int, str]]:
    """Return parent and state of every process, by its number."""
    found = {}
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries if entry.name.isdigit()]
    for name in names:
        with suppress(OSError, ValueError):
            file = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            try:
                # The command stands in parentheses, and may hold any character.
                state, parent = os.read(file, 4_096).rpartition(b")")[2].split()[:2]
            finally:
                os.close(file)
            found[int(name)] = (int(parent), state.decode())
    return found


def _clean_up(argv: list[str], env: dict[str, str]) -> None:
    """Run a command that removes what the program's end does not; bounded, and whatever comes of it."""
    helper = os.fork()
    if helper == 0:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(nothing, fd)
            os.execvpe(argv[0], argv, env)
        finally:
            os._exit(127)
    until = time.monotonic() + _CLEAN_UP_WAIT_S
    while time.monotonic() < until:
        if os.waitpid(helper, os.WNOHANG)[0]:
            return
        time.sleep(_LOOK_S)
    os.kill(helper, signal.SIGKILL)
    os.waitpid(helper, 0)


if __name__ == "__main__":
    main()
