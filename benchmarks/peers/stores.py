"""The peers' stores: PostgreSQL and Redis, each in a directory of its own with the durability it has by default."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.peers.programs import PeerFailed
from benchmarks.rig import STOP_S, wait_until

POSTGRES_USER: Final = "postgres"
"""Of the system: PostgreSQL refuses to run as root."""
POSTGRES_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}
"""Memory and checkpoints as its documentation advises for a server of its own; durability as it is by default."""
DATABASE: Final = "peers"
SAID: Final = "--said--"


class Postgres:
    """A server that runs, and one connection to it for looking."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port
        words = [_postgres_tool("psql"), "-XqAt", "-h", "127.0.0.1", "-p", str(port), "-U", POSTGRES_USER, DATABASE]
        self._psql = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rows(self, query: str) -> list[str]:
        """Return what a query finds, a line for each row."""
        assert self._psql.stdin is not None and self._psql.stdout is not None
        self._psql.stdin.write(f"{query};\n\\echo {SAID}\n")
        self._psql.stdin.flush()
        found: list[str] = []
        for line in self._psql.stdout:
            if line.strip() == SAID:
                return found
            found.append(line.strip())
        raise PeerFailed("the connection for looking into PostgreSQL is gone")

    def number(self, query: str) -> int:
        """Return the one number that a query finds."""
        return int(self.rows(query)[0])

    def close(self) -> None:
        self._psql.kill()
        self._psql.wait()


@contextmanager
def postgres(directory: Path) -> Iterator[Postgres]:
    """Run an empty PostgreSQL with a database for the peers."""
    data, port = directory / "postgres", _free_port()
    data.mkdir()
    as_user: list[str] = []
    if os.geteuid() == 0:
        owner = pwd.getpwnam(POSTGRES_USER)
        os.chown(data, owner.pw_uid, owner.pw_gid)
        directory.chmod(0o755)
        as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--"]
    make = [_postgres_tool("initdb"), "-D", str(data), "-U", POSTGRES_USER, "--auth=trust", "-E", "UTF8", "--locale=C"]
    subprocess.run([*as_user, *make], check=True, stdout=subprocess.DEVNULL, cwd="/")
    settings = {**POSTGRES_SETTINGS, "port": str(port), "unix_socket_directories": str(data)}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (directory / "postgres.log").open("wb") as log:
        words = [*as_user, _postgres_tool("postgres"), "-D", str(data), *options]
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd="/")
    at = ["-h", "127.0.0.1", "-p", str(port), "-U", POSTGRES_USER]
    try:
        wait_until(lambda: _succeeds([_postgres_tool("pg_isready"), *at]))
        subprocess.run([_postgres_tool("createdb"), *at, DATABASE], check=True)
        looking = Postgres(server.pid, port)
        try:
            yield looking
        finally:
            looking.close()
    finally:
        server.kill() if server.poll() is not None else server.send_signal(3)  # at once, without a checkpoint
        server.wait(STOP_S)


class Redis:
    """A server that runs, and one connection to it for looking."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port
        self._stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def ask(self, *words: str) -> object:
        """Return the answer to a command: a number, a text, or a list."""
        self._stream.write(b"*%d\r\n" % len(words))
        for word in words:
            self._stream.write(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()))
        self._stream.flush()
        return self._answer()

    def _answer(self) -> object:
        line = self._stream.readline().decode().strip()
        kind, rest = line[:1], line[1:]
        if kind == ":":
            return int(rest)
        if kind == "$":
            return self._stream.read(int(rest) + 2)[:-2].decode() if int(rest) >= 0 else ""
        if kind == "*":
            return [self._answer() for _ in range(int(rest))]
        return rest


@contextmanager
def redis(directory: Path) -> Iterator[Redis]:
    """Run an empty Redis that keeps an append-only file, synchronised every second: its default once there is one."""
    port = _free_port()
    (directory / "redis").mkdir()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory / "redis"),
             "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]  # fmt: skip
    with (directory / "redis.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        wait_until(lambda: _succeeds(["redis-cli", "-p", str(port), "ping"]))
        yield Redis(server.pid, port)
    finally:
        server.kill()
        server.wait()


def versions() -> dict[str, str]:
    """Return what the peers run on, as each program names itself; what is not here is left out."""
    programs = {"PostgreSQL": [_postgres_tool("postgres"), "--version"], "Redis": ["redis-server", "--version"],
                "Java": ["java", "-version"]}  # fmt: skip
    found = {}
    for name, words in programs.items():
        with suppress(OSError):
            said = subprocess.run(words, capture_output=True, text=True, check=False)
            found[name] = (said.stdout or said.stderr).partition("\n")[0]
    return found


def _postgres_tool(name: str) -> str:
    """Return a program of PostgreSQL; Debian keeps the servers' out of the path, by version."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        raise PeerFailed(f"{name} is not here; benchmarks/peers/setup.sh installs it")
    return found


def _succeeds(words: Sequence[str]) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
