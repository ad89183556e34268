"""The gateway as a process: it serves without log and store, says what is missing, and stops when asked."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

PROGRAM = """
import sys
from tocsin.bootstrap.gateway import run_gateway
from tocsin.config import Settings
sys.exit(run_gateway(Settings()))
"""
PATIENCE_S = 60.0


def start(tmp_path: Path, **settings: str) -> subprocess.Popen[str]:
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")},
        "TOCSIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "TOCSIN_CASSANDRA__CONTACT_POINTS": "127.0.0.1",
        "TOCSIN_CASSANDRA__PORT": "1",
        "TOCSIN_GATEWAY__PORT": "0",
        "TOCSIN_GATEWAY__BODY_WAIT_S": "1",
        "TOCSIN_READY_FILE": str(tmp_path / "ready.json"),
        **settings,
    }
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = start(tmp_path)
    try:
        ready = tmp_path / "ready.json"
        give_up_at = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < give_up_at, "the gateway does not become ready"
            time.sleep(0.05)
        yield process, json.loads(ready.read_text())
    finally:
        process.kill()
        process.communicate()


def call(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def announced(url: str, body_bytes: int, **headers: str) -> int:
    """Announce a body and send none of it: one that is refused may not be read, and its sender not be heard out."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    try:
        connection.putrequest("POST", "/v1/jobs")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(body_bytes))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_serves_alone_says_what_is_missing_and_stops_when_asked(
    gateway: tuple[subprocess.Popen[str], dict[str, Any]],
) -> None:
    process, ready = gateway
    url = ready["gateway_url"]
    assert ready["role"] == "gateway"
    assert ready["pid"] == process.pid
    assert url.startswith("http://127.0.0.1:")
    assert call("GET", f"{url}/healthz")[0] == 200
    status, _, body = call("GET", f"{url}/readyz")
    assert status == 503
    assert len(json.loads(body)["missing"]) == 3
    job = b'{"delay_s": 1, "target": {"type": "http", "url": "https://a.example/"}}'
    status, headers, body = call("POST", f"{url}/v1/jobs", job)
    assert (status, json.loads(body)["part"]) == (503, "kafka")
    assert headers["content-type"] == "application/problem+json"
    assert call("POST", f"{url}/v1/jobs?validate_only=true", job)[0] == 200
    assert call("GET", f"{url}/v1/jobs", headers={"Host": "rebound.example"})[0] == 421
    assert call("GET", f"{url}/healthz", headers={"Host": "localhost:1"})[0] == 200
    assert announced(url, 1_000_001) == 413
    assert announced(url, 1_000_001, Expect="100-continue") == 413
    assert announced(url, 10) == 408
    assert b"tocsin_request_seconds" in call("GET", ready["metrics_url"])[2]
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    actions = [json.loads(line)["action"] for line in stderr.splitlines() if line.startswith("{")]
    assert "gateway.unauthenticated" in actions
    assert actions[-1] == "gateway.stopped"
    assert "Traceback" not in stderr


def test_raw_bytes_that_are_no_http_do_not_end_it(gateway: tuple[subprocess.Popen[str], dict[str, Any]]) -> None:
    process, ready = gateway
    host, port = ready["gateway_url"].removeprefix("http://").split(":")
    for raw in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/jobs/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%zz%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            try:
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(4096)
            except OSError:
                answer = b""
        assert not answer.startswith(b"HTTP/1.1 5"), answer
        assert call("GET", f"{ready['gateway_url']}/healthz")[0] == 200
    assert process.poll() is None


def test_a_port_that_is_taken_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(tmp_path, TOCSIN_GATEWAY__PORT=str(taken.getsockname()[1]))
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert "cannot listen on 127.0.0.1" in stderr
    assert "TOCSIN_GATEWAY__PORT" in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "ready.json").exists()
