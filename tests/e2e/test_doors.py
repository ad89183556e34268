"""Every door leads to a call, an event and a run; what is wrong at a door stops nobody."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.e2e.system import System, wait_for
from tocsin.adapters.avro import AvroCodec

pytestmark = [pytest.mark.e2e, pytest.mark.real]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
CODEC = AvroCodec()


def calls_of(system: System, path: str) -> list[Any]:
    return [call for call in list(system.target.calls) if call.path == path]


def check_one_success(system: System, job_id: str, path: str) -> None:
    """One call, one SUCCEEDED event, one row among the runs."""
    runs = wait_for(f"{job_id} to succeed", lambda: [r for r in system.runs(job_id) if r["state"] == "SUCCEEDED"])
    [run] = runs
    [call] = calls_of(system, path)
    assert call.execution_id == run["execution_id"]
    events = [event for event in system.events() if event.head.execution_id == run["execution_id"]]
    assert [event.state for event in events if event.state != "RUNNING"] == ["SUCCEEDED"]
    assert system.published()[run["execution_id"]] == 1


def cli(system: System, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tocsin", "jobs", "--url", system.gateway_url, *words, "-o", "json"]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def produce(system: System, value: bytes | None, key: str | None = None, partition: int = -1) -> tuple[int, int]:
    """Produce a command with librdkafka's own partitioner unless a partition is named; return where it stands."""
    places: list[tuple[int, int]] = []
    producer = Producer({"bootstrap.servers": system.endpoints.kafka_bootstrap, "acks": "all"})

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        places.append((message.partition(), message.offset()))

    producer.produce(f"{system.unique}.commands", value, key, partition, on_delivery=delivered)
    assert producer.flush(30) == 0
    return places[0]


def block(document: Path, mark: str) -> str:
    """Return a marked block of shell in a document."""
    found = re.search(rf"<!-- example: {mark} -->\n```sh\n(.*?)```", document.read_text(), re.DOTALL)
    assert found, f"{document.name} has no example {mark}"
    return found[1]


def shell(system: System, script: str) -> str:
    """Run an example as a person would, against this system instead of a development one."""
    for place, here in (
        ("http://127.0.0.1:8080", system.gateway_url),
        ("http://127.0.0.1:8081", system.target.url),
        ("127.0.0.1:9092", system.endpoints.kafka_bootstrap),
        ("tocsin.commands", f"{system.unique}.commands"),
    ):
        script = script.replace(place, here)
    done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, script + done.stdout + done.stderr
    return done.stdout


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


def test_a_job_created_on_the_command_line_runs(system: System) -> None:
    created = cli(system, "create", "--name", "by hand", "--in", "1s", "--url", f"{system.target.url}/cli")
    check_one_success(system, created["job_id"], "/cli")
    assert cli(system, "get", created["job_id"])["name"] == "by hand"


def test_a_target_that_calls_back_ends_its_run(system: System) -> None:
    path = "/by-callback/status/202"
    target = {"type": "http", "url": system.target.url + path, "callback": True, "timeout_s": 600}
    job = system.create_job(delay_s=0, target=target)
    accepted = wait_for("the run to be accepted", lambda: [r for r in system.runs(job) if r["reason"] == "accepted"])
    assert accepted[0]["state"] == "RUNNING"
    [call] = calls_of(system, path)
    proof = {name: int(call.headers[f"tocsin-{name}"]) for name in ("attempt", "token")}
    verb = f"/v1/runs/{call.execution_id}:complete"
    assert system.ask("POST", verb, {**proof, "key": "0" * 64}).status == 403
    body = {**proof, "key": call.headers["tocsin-callback-key"], "result": "7 rows"}
    # Sent again where the log did not answer in time, as a target would: it does no harm.
    wait_for("the callback to be taken", lambda: system.ask("POST", verb, body).status == 202)
    check_one_success(system, job, path)
    assert system.runs(job)[0]["result"] == "7 rows"


def test_the_plain_avro_producer_of_the_examples_creates_a_job_that_runs(system: System) -> None:
    """Several, for its partitioner is not tocsin's: some commands come to the wrong shard, and are passed on."""
    jobs = [f"plain-{n}-{uuid.uuid4().hex[:8]}" for n in range(4)]
    for job in jobs:
        command = [
            *(sys.executable, str(EXAMPLES / "python_producer.py")),
            *("--bootstrap", system.endpoints.kafka_bootstrap, "--topic", f"{system.unique}.commands"),
            *("--schema", str(ROOT / "schemas" / "JobCommand.avsc")),
            *("--url", f"{system.target.url}/{job}", "--delay-s", "1", "--job-id", job),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert job in done.stdout
    for job in jobs:
        check_one_success(system, job, f"/{job}")


def test_the_plain_consumer_of_the_examples_prints_the_result(system: System) -> None:
    job = system.create_job(delay_s=0, path="/printed")
    check_one_success(system, job, "/printed")
    count = len(system.events())
    command = [
        *(sys.executable, str(EXAMPLES / "python_consumer.py"), "--bootstrap", system.endpoints.kafka_bootstrap),
        *("--topic", f"{system.unique}.execution-events", "--group", f"{system.unique}-printer"),
        *("--schemas", str(ROOT / "schemas"), "--count", str(count)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^{job}\.\d+\.\d+ attempt 1: SUCCEEDED$", done.stdout, re.MULTILINE), done.stdout


def test_the_json_of_the_kcat_example_creates_a_job_that_runs(system: System) -> None:
    line = block(EXAMPLES / "kcat.md", "create").splitlines()[1]
    job = f"json-{uuid.uuid4().hex[:8]}"
    text = line.replace("http://127.0.0.1:8081/remind", f"{system.target.url}/{job}").replace("remind-42", job)
    produce(system, text.encode(), job)
    check_one_success(system, job, f"/{job}")


@needs_kcat
def test_the_kcat_example_creates_a_job_that_runs(system: System) -> None:
    job = f"kcat-{uuid.uuid4().hex[:8]}"
    shell(system, block(EXAMPLES / "kcat.md", "create").replace("/remind", f"/{job}").replace("remind-42", job))
    check_one_success(system, job, f"/{job}")


@needs_curl
def test_the_first_job_of_the_readme_runs(system: System) -> None:
    found = re.search(r"```sh\n(curl [^`]*/remind[^`]*)```", (ROOT / "README.md").read_text())
    assert found, "README.md creates its first job with curl"
    created = json.loads(shell(system, found[1]))
    check_one_success(system, created["job_id"], "/remind")


@needs_curl
def test_the_curl_examples_do_what_they_say(system: System) -> None:
    document = EXAMPLES / "curl.md"
    created = json.loads(shell(system, block(document, "cron")))
    assert (created["job_id"], created["state"]) == ("default@report", "ACTIVE")
    answers = [json.loads(text) for text in _json_texts(shell(system, block(document, "change")))]
    paused, resumed, triggered, changed, runs, deleted = answers
    assert (paused["state"], paused["paused_reason"]) == ("PAUSED", "the source is down")
    assert resumed["state"] == "ACTIVE"
    assert triggered["execution_id"].startswith("default@report.")
    assert changed["schedule"]["every_s"] == 900
    assert "runs" in runs
    assert deleted["deleted"] is True
    later = json.loads(shell(system, block(document, "message")))
    assert later["target"]["topic"] == "reminders"
    assert system.ask("DELETE", f"/v1/jobs/{later['job_id']}").status == 200


def _json_texts(output: str) -> list[str]:
    """Return the JSON documents that an output holds one after another."""
    decoder, texts, at = json.JSONDecoder(), [], 0
    while at < len(output):
        _, end = decoder.raw_decode(output, at)
        texts.append(output[at:end])
        at = end + len(output[end:]) - len(output[end:].lstrip())
    return texts


def test_what_cannot_be_read_or_is_invalid_is_answered_kept_and_stops_nobody(system: System) -> None:
    tag = uuid.uuid4().hex[:8]
    shard = 0
    garbage = f"\x00{tag} is no record".encode()
    place = produce(system, garbage, "x", shard)
    invalid = {"kind": "create", "command_id": f"bad-{tag}", "definition": {"delay_s": -1, "target": {"type": "http"}}}
    produce(system, json.dumps(invalid).encode(), "x", shard)

    def outcomes() -> list[Any]:
        return [CODEC.decode_outcome(value) for _, value in system.read("outcomes")]

    wait_for("the invalid one to be answered", lambda: [o for o in outcomes() if o.command_id == f"bad-{tag}"])
    [answered] = [outcome for outcome in outcomes() if outcome.command_id == f"bad-{tag}"]
    assert not answered.accepted
    assert {"definition.delay_s", "delay_s"} & {fault.field for fault in answered.faults}
    unreadable = [outcome for outcome in outcomes() if outcome.kind == "unknown" and not outcome.accepted]
    assert unreadable and unreadable[0].faults[0].remedy
    letters = [CODEC.decode_dead_letter(value) for _, value in system.read("dead-letters")]
    [kept] = [letter for letter in letters if letter.value == garbage]
    assert (kept.kind, (kept.partition, kept.offset)) == ("record", place)
    assert [letter for letter in letters if f"bad-{tag}".encode() in letter.value]

    after = f"after-{tag}"
    create = {"delay_s": 0, "target": {"type": "http", "url": f"{system.target.url}/{after}"}}
    produce(system, json.dumps({"kind": "create", "job_id": None, "definition": create}).encode(), None, shard)
    wait_for("the shard to go on", lambda: calls_of(system, f"/{after}"))


def cron_job(system: System, path: str) -> str:
    """Create a job that fires every second, and return its id once it has."""
    schedule = {"cron": "* * * * * *", "timezone": "Europe/Berlin"}
    job = system.create_job(schedule=schedule, path=path, concurrency="allow")
    wait_for("it to fire", lambda: calls_of(system, path))
    return job


def verb(system: System, job: str, name: str) -> Any:
    """Send a verb and return its decided answer."""
    answer = system.ask("POST", f"/v1/jobs/{job}:{name}")
    assert answer.status in (200, 201), answer
    return answer.body


def test_a_pause_before_the_due_time_prevents_the_fire(system: System) -> None:
    job = system.create_job(delay_s=4, path="/paused")
    assert verb(system, job, "pause")["state"] == "PAUSED"
    later = system.create_job(delay_s=5, path="/not-paused")
    check_one_success(system, later, "/not-paused")
    assert not calls_of(system, "/paused")
    verb(system, job, "resume")
    check_one_success(system, job, "/paused")


def test_a_cron_job_that_was_paused_goes_on(system: System) -> None:
    job = cron_job(system, "/cron")
    assert verb(system, job, "pause")["state"] == "PAUSED"
    wait_for("what was dispatched to end", lambda: _is_settled(system, job))
    seen = len(calls_of(system, "/cron"))
    time.sleep(3)
    assert len(calls_of(system, "/cron")) == seen
    paused_at = time.time()
    assert verb(system, job, "resume")["state"] == "ACTIVE"
    wait_for("it to go on", lambda: len(calls_of(system, "/cron")) > seen)
    assert all(call.at >= paused_at for call in calls_of(system, "/cron")[seen:])
    system.ask("DELETE", f"/v1/jobs/{job}")


def _is_settled(system: System, job: str) -> bool:
    """Every dispatch of the job has its end."""
    dispatched = {key.decode().split("|")[1] for key, _ in system.read("executions.default") if job.encode() in key}
    ended = {event.head.execution_id for event in system.events() if event.head.job_id == job}
    return bool(dispatched) and dispatched <= ended


def test_an_update_of_the_url_alone_keeps_the_occurrence(system: System) -> None:
    schedule = {"every_s": 6, "anchor_at": "2026-01-01T00:00:00Z"}
    job = system.create_job(schedule=schedule, path="/before")
    before = system.ask("GET", f"/v1/jobs/{job}").body
    target = {"type": "http", "url": f"{system.target.url}/after"}
    answer = system.ask("PUT", f"/v1/jobs/{job}", {"schedule": schedule, "target": target})
    assert answer.status == 200, answer
    assert answer.body["version"] != before["version"]
    seen = len(calls_of(system, "/before"))
    wait_for("it to fire at the new URL", lambda: calls_of(system, "/after"))
    assert len(calls_of(system, "/before")) == seen
    first = calls_of(system, "/after")[0].headers["tocsin-scheduled-for"]
    if seen == 0:
        assert first == before["next_run_at"], "an edit moves nothing"
    system.ask("DELETE", f"/v1/jobs/{job}")


def test_a_deleted_recurring_job_never_fires_again(system: System) -> None:
    job = cron_job(system, "/deleted")
    assert system.ask("DELETE", f"/v1/jobs/{job}").body["deleted"] is True
    wait_for("what was dispatched to end", lambda: _is_settled(system, job))
    seen = len(calls_of(system, "/deleted"))
    system.kill("trigger")
    system.start("trigger")
    later = system.create_job(delay_s=3, path="/later")
    check_one_success(system, later, "/later")
    assert len(calls_of(system, "/deleted")) == seen
    assert system.ask("GET", f"/v1/jobs/{job}").status == 404
