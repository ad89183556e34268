"""Whole processes on a real broker and store: started, killed and asked as an operator and a client would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import not_
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tocsin.adapters.avro import AvroCodec
from tocsin.devcluster import Endpoints
from tocsin.domain.executions import ExecutionEvent

ROLES = ("trigger", "worker", "projector", "gateway")
PATIENCE_S = 90.0
"""How long a condition may take on a busy machine before it counts as never."""


def wait_for(what: str, ask: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Ask until the answer is true; fail with what was waited for and the last answer."""
    return _ask_until(bool, what, ask, patience_s)


def wait_until_empty(what: str, ask: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Ask until nothing is left; fail with what was waited for and what is left."""
    _ask_until(not_, what, ask, patience_s)


def _ask_until(is_it: Callable[[Any], bool], what: str, ask: Callable[[], Any], patience_s: float) -> Any:
    deadline = time.monotonic() + patience_s
    while not is_it(answer := ask()):
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s for {what}; last answer: {answer!r}"
        time.sleep(0.1)
    return answer


@dataclass
class Call:
    """One request that the target received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def execution_id(self) -> str:
        return self.headers["idempotency-key"].strip('"')


class Target:
    """An HTTP server on loopback that remembers its calls; ``delay_s`` makes it slow."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.delay_s = 0.0
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                target.calls.append(Call(self.command, self.path, headers, body, time.time()))
                time.sleep(target.delay_s)
                status = int(self.path.rsplit("/", 1)[1]) if "/status/" in self.path else 200
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            do_GET = do_POST = do_PUT = answer  # noqa: N815 - the names that http.server looks for

            def log_message(self, *_: Any) -> None:
                """Silence: the calls are remembered."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Answer:
    """What the gateway answered."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class System:
    """All four roles on one cluster, with topics and a keyspace of their own."""

    endpoints: Endpoints
    unique: str
    directory: Path
    target: Target = field(default_factory=Target)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """More of the environment of every process."""

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "TOCSIN_KAFKA__BOOTSTRAP_SERVERS": self.endpoints.kafka_bootstrap,
            "TOCSIN_KAFKA__TOPIC_PREFIX": f"{self.unique}.",
            "TOCSIN_CASSANDRA__CONTACT_POINTS": ",".join(self.endpoints.cassandra_contact_points),
            "TOCSIN_CASSANDRA__PORT": str(self.endpoints.cassandra_port),
            "TOCSIN_CASSANDRA__KEYSPACE": self.unique,
            "TOCSIN_WORKER__ALLOW_PRIVATE_TARGETS": "true",
            "TOCSIN_TRIGGER__SESSION_TIMEOUT_S": "6",
            "TOCSIN_CALLBACK_SECRETS": "only-for-tests-of-whole-processes",
            **self.settings,
        }

    def create(self) -> None:
        """Make tables and topics by the commands that an operator uses."""
        for words in (["schema", "migrate"], ["topics", "apply"]):
            command = [sys.executable, "-m", "tocsin", *words]
            done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

    def start(self, *roles: str, name: str | None = None) -> None:
        """Start roles, and return when each says that it serves; ``name``: another process of the one role."""
        if name is not None:
            self.start_unready(roles[0], name)
            self.wait_ready(name)
            return
        for role in roles or ROLES:
            self.start_unready(role)
        for role in roles or ROLES:
            self.wait_ready(role)

    def start_unready(
        self, role: str, name: str | None = None, env: dict[str, str] | None = None, more: Sequence[str] = ()
    ) -> None:
        """Start one role, and return at once; ``env``: more of its environment, ``more``: of its command line."""
        name = name or role
        ready = self._ready_file(name)
        ready.unlink(missing_ok=True)
        words = [sys.executable, "-m", "tocsin", role, "--name", f"{self.unique}-{name}", "--ready-file", str(ready)]
        words += more
        if role == "gateway":
            words += ["--port", "0"]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(words, env=self.env | (env or {}), stdout=log, stderr=log)

    def _ready_file(self, role: str) -> Path:
        return self.directory / f"{role}.json"

    def facts(self, name: str) -> dict[str, Any]:
        """Return what a process said of itself when it was ready."""
        facts: dict[str, Any] = json.loads(self._ready_file(name).read_text())
        return facts

    def wait_ready(self, role: str) -> None:
        def ready() -> bool:
            code = self.processes[role].poll()
            assert code is None, f"{role} ended with {code}: {self.log_of(role)[-2000:]}"
            return self._ready_file(role).exists()

        wait_for(f"{role} to be ready", ready)
        if role == "gateway":
            wait_for("the gateway to be ready", lambda: self.ask("GET", "/readyz").status == 200)

    def log_of(self, role: str) -> str:
        return (self.directory / f"{role}.log").read_text()

    def kill(self, role: str) -> None:
        self.processes[role].kill()
        self.processes[role].wait(20)

    def stop(self, *roles: str) -> None:
        """Stop roles politely; they must end by themselves, with exit code 0."""
        for role in roles or ROLES:
            if self.processes[role].poll() is None:
                self.processes[role].send_signal(signal.SIGTERM)
        for role in roles or ROLES:
            assert self.processes[role].wait(60) == 0, f"{role}: {self.log_of(role)[-2000:]}"

    def shards_owned(self) -> dict[str, int]:
        """Return how many shards each living trigger says it owns."""
        owned = {}
        for name, process in self.processes.items():
            facts = self._ready_file(name)
            told = json.loads(facts.read_text()) if facts.exists() else {}
            if process.poll() is None and told.get("role") == "trigger":
                with urllib.request.urlopen(told["metrics_url"], timeout=10) as response:
                    text = response.read().decode()
                owned[name] = int(float(text.split("\ntocsin_shards_owned ")[1].split("\n")[0]))
        return owned

    def refresh(self) -> None:
        """Make all roles run, and the target quick and forgetful, whatever an earlier test left."""
        for name in [name for name in self.processes if name not in ROLES]:
            self.processes.pop(name).kill()
        down = [role for role in ROLES if role not in self.processes or self.processes[role].poll() is not None]
        if down:
            self.start(*down)
        self.target.delay_s = 0.0
        self.target.calls.clear()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(20)
        self.target.close()

    @property
    def gateway_url(self) -> str:
        return str(json.loads(self._ready_file("gateway").read_text())["gateway_url"])

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Send one request to the gateway. A body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.gateway_url + path, data, headers or {}, method=method)
        if data is not None and "content-type" not in {name.lower() for name in headers or {}}:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return _answer(response)
        except urllib.error.HTTPError as error:
            return _answer(error)

    def create_job(self, *, path: str = "/run", **fields: Any) -> str:
        """Create a one-off and return its id, whether the gateway knew the outcome already or not."""
        target = {"type": "http", "url": self.target.url + path}
        body = {"target": target, **fields}
        answer = self.ask("POST", "/v1/jobs", body)
        while answer.status == 503:
            # It was certainly not logged, as on a machine that is too busy; a client asks again.
            time.sleep(float(answer.headers.get("retry-after", 1)))
            answer = self.ask("POST", "/v1/jobs", body)
        assert answer.status in (201, 202), answer
        return str(answer.body["job_id"])

    def runs(self, job_id: str) -> list[dict[str, Any]]:
        answer = self.ask("GET", f"/v1/jobs/{job_id}/runs?limit=50")
        return answer.body["runs"] if answer.status == 200 else []

    def events(self) -> list[ExecutionEvent]:
        """Read all committed events with a plain consumer."""
        return [AvroCodec().decode_event(value) for _, value in self.read("execution-events")]

    def published(self) -> Counter[str]:
        """Count committed first dispatches by execution id, as any read_committed reader sees them.

        What is dispatched again after a loss or a failure says so in its head, under a higher token.
        """
        heads = [AvroCodec().decode_head(value) for _, value in self.read("executions.default")]
        return Counter(head.execution_id for head in heads if (head.attempt, head.losses) == (1, 0))

    def dispatches(self) -> Counter[str]:
        """Count all committed dispatches by their key: none may be there twice."""
        return Counter(key.decode() for key, _ in self.read("executions.default"))

    def read(self, topic: str) -> list[tuple[bytes, bytes]]:
        name = f"{self.unique}.{topic}"
        consumer = Consumer(
            {
                "bootstrap.servers": self.endpoints.kafka_bootstrap,
                "group.id": f"{self.unique}-reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            partitions = consumer.list_topics(name, timeout=20).topics[name].partitions
            consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])
            records, ended = [], set()
            while len(ended) < len(partitions):
                message = consumer.poll(10)
                assert message is not None, f"{name} does not answer"
                if message.error():
                    ended.add(message.partition())
                else:
                    records.append((message.key(), message.value()))
            return records
        finally:
            consumer.close()


def _answer(response: Any) -> Answer:
    text = response.read()
    headers = {name.lower(): value for name, value in response.headers.items()}
    is_json = "json" in headers.get("content-type", "")
    return Answer(response.status, headers, json.loads(text) if is_json and text else text)
