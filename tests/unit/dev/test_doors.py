"""Ports that people see, the data directory, the ready file and what roles are told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tocsin.dev import doors
from tocsin.dev.data_dir import held
from tocsin.dev.errors import DevError
from tocsin.dev.ready_file import ready_document, write_ready_file
from tocsin.dev.roles import ROLES, role_specs, same_metrics_port
from tocsin.devcluster import Endpoints

ENDPOINTS = Endpoints("127.0.0.1:1", ("127.0.0.1", "127.0.0.2"), 9142, managed=True)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server((doors.HOST, 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_port_is_refused_if_it_was_asked_for(taken: int) -> None:
    with pytest.raises(DevError) as caught:
        doors.choose_port(taken, insist=True, name="gateway")
    assert str(taken) in caught.value.message
    assert "--port" in caught.value.remedy or "another port" in caught.value.remedy


def test_a_taken_port_is_replaced_if_it_was_only_the_usual_one(taken: int) -> None:
    assert doors.choose_port(taken, insist=False, name="gateway") not in (0, taken)


def test_zero_takes_any_free_port() -> None:
    port = doors.choose_port(0, insist=True, name="gateway")
    with socket.create_server((doors.HOST, port)):
        pass


def test_a_gateway_that_is_not_there_is_not_ready(taken: int) -> None:
    free = doors.choose_port(0, insist=False, name="gateway")
    assert not doors.answers_ready(free)


@pytest.mark.parametrize(
    ("page", "owned"),
    [
        ("# TYPE tocsin_shards_owned gauge\ntocsin_shards_owned 8.0\n", 8),
        ("tocsin_shards_owned_total 3.0\n", None),
        ("", None),
    ],
)
def test_how_many_shards_a_trigger_owns(page: str, owned: int | None) -> None:
    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer((doors.HOST, 0), Metrics) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert doors.shards_owned(f"http://{doors.HOST}:{server.server_port}/metrics") == owned


def test_a_trigger_that_does_not_answer_says_nothing_of_its_shards() -> None:
    free = doors.choose_port(0, insist=False, name="metrics")
    assert doors.shards_owned(f"http://{doors.HOST}:{free}/metrics") is None


def test_a_data_directory_is_held_by_one_process(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from tocsin.dev.data_dir import held
try:
    with held(Path({str(tmp_path / "data")!r})):
        print("held")
except Exception as error:
    print(error)
"""
    with held(tmp_path / "data") as directory:
        assert (directory / ".gitignore").read_text() == "*\n"
        answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert f"another development system (pid {os.getpid()}) runs on {directory}" in answer
        assert "--data-dir" in answer
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert answer == "held\n"


def test_a_directory_that_cannot_be_used_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DevError, match="cannot be used"), held(tmp_path / "file"):
        pytest.fail("a file is not a directory")


def test_roles_are_told_the_servers_and_only_the_worker_may_call_this_machine(tmp_path: Path) -> None:
    specs = {spec.role: spec for spec in role_specs(tmp_path, ENDPOINTS, doors.HOST, 8123, {"PATH": "/bin"})}
    assert tuple(specs) == ROLES
    for spec in specs.values():
        assert spec.environ["TOCSIN_KAFKA__BOOTSTRAP_SERVERS"] == "127.0.0.1:1"
        assert spec.environ["TOCSIN_CASSANDRA__CONTACT_POINTS"] == "127.0.0.1,127.0.0.2"
        assert spec.environ["TOCSIN_CASSANDRA__PORT"] == "9142"
        assert spec.environ["PATH"] == "/bin"
        assert spec.environ["TOCSIN_READY_FILE"] == str(spec.ready_file)
    allowed = [role for role, spec in specs.items() if "TOCSIN_WORKER__ALLOW_PRIVATE_TARGETS" in spec.environ]
    assert allowed == ["worker"]
    assert specs["gateway"].environ["TOCSIN_GATEWAY__PORT"] == "8123"
    assert len({spec.ready_file for spec in specs.values()}) == len({spec.log for spec in specs.values()}) == 4


def test_the_users_own_settings_reach_the_roles(tmp_path: Path) -> None:
    environ = {"TOCSIN_WORKER__STOP_GRACE_S": "33", "TOCSIN_WORKER__RUNNING_MAX": "7"}
    worker = {spec.role: spec for spec in role_specs(tmp_path, ENDPOINTS, doors.HOST, 1, environ)}["worker"]
    assert worker.environ["TOCSIN_WORKER__STOP_GRACE_S"] == "33"
    assert worker.environ["TOCSIN_WORKER__RUNNING_MAX"] == "7"


def test_metrics_stay_where_they_were_unless_somebody_took_the_port(taken: int) -> None:
    assert same_metrics_port({"metrics_url": f"http://127.0.0.1:{taken}/metrics"}) == {}
    free = doors.choose_port(0, insist=False, name="metrics")
    assert same_metrics_port({"metrics_url": f"http://127.0.0.1:{free}/metrics"}) == {"TOCSIN_METRICS__PORT": str(free)}
    assert same_metrics_port({}) == {}


def test_the_ready_file_says_where_everything_is(tmp_path: Path) -> None:
    facts = {"worker": {"metrics_url": "http://127.0.0.1:5/metrics", "pid": 7}, "trigger": {"pid": 8}}
    document = ready_document("http://127.0.0.1:8080", ENDPOINTS, {"worker": [7], "trigger": []}, facts, "http://e")
    write_ready_file(tmp_path / "sub" / "ready.json", document)
    assert json.loads((tmp_path / "sub" / "ready.json").read_text()) == {
        "gateway_url": "http://127.0.0.1:8080",
        "kafka_bootstrap": "127.0.0.1:1",
        "cassandra_contact_points": ["127.0.0.1", "127.0.0.2"],
        "cassandra_port": 9142,
        "metrics_urls": {"worker": "http://127.0.0.1:5/metrics"},
        "pids": {"worker": [7], "trigger": []},
        "echo_url": "http://e",
    }
    assert "echo_url" not in ready_document("http://g", ENDPOINTS, {}, {}, None)
