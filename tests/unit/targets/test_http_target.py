"""HTTP targets: what is sent, what is made of answers, and what is never done."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import ssl
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.http_receiver import HttpReceiver
from tocsin import __version__
from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.http import DNS_THREADS, HttpTargetRunner
from tocsin.adapters.targets.sessions import INFORMATIONAL_MAX
from tocsin.adapters.targets.signatures import Signer
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.executions import AttemptHead, Execution, ReportKind
from tocsin.domain.retries import is_retryable
from tocsin.domain.targets import HttpTarget
from tocsin.ports.targets import Attempt, AttemptEnd
from tocsin.roles.worker.reports import Reporter

ID = "acme@nightly.7.1760130000000000"
HEAD = AttemptHead(2, 41, 0, ID, "acme@nightly", "acme", 7, 1_760_130_000_000_000, 1_760_130_000_000_001)


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000


async def _redirect(request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "/landed"})


async def _status(request: web.Request) -> web.StreamResponse:
    headers = {"Retry-After": request.query["after"]} if "after" in request.query else {}
    text = request.query.get("text", "") or "a\nb"
    return web.Response(status=int(request.query["code"]), text=text, headers=headers)


async def _cookie(request: web.Request) -> web.StreamResponse:
    response = web.Response(text="ok")
    response.set_cookie("session", "1")
    return response


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    try:
        while True:
            await response.write(b"x" * 65_536)
    except (ConnectionError, asyncio.CancelledError):
        return response


async def _broken(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"short")
    assert request.transport is not None
    request.transport.close()
    return response


async def _binary(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x00\x01\x02", content_type="application/octet-stream")


async def _zipped(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x1f\x8b\x08", headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"})


async def _semicolons(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"done", headers={"Content-Type": "text/plain" + ";" * 8_000})


@pytest.fixture(scope="module")
def receiver() -> Iterator[HttpReceiver]:
    server = HttpReceiver(
        {
            "/redirect": _redirect,
            "/status": _status,
            "/cookie": _cookie,
            "/endless": _endless,
            "/broken": _broken,
            "/binary": _binary,
            "/zipped": _zipped,
            "/semicolons": _semicolons,
        }
    )
    yield server
    server.gate.set()
    server.close()


@pytest.fixture
def make_runner() -> Iterator[Callable[..., HttpTargetRunner]]:
    runners: list[HttpTargetRunner] = []

    def make(
        *,
        allow_private: bool = True,
        response_bytes_max: int = 100_000,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        secrets: dict[str, list[str]] | None = None,
        ca_file: str | None = None,
        callbacks: CallbackKeys | None = None,
    ) -> HttpTargetRunner:
        rules = AddressRules(allow_private=allow_private, allow=allow, deny=deny)
        signer = Signer(secrets or {})
        runners.append(HttpTargetRunner(WallClock(), response_bytes_max, rules, signer, ca_file, callbacks))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


def attempt(
    url: str, *, ref: Any = "ref", redelivered: bool = False, head: AttemptHead = HEAD, **target: Any
) -> Attempt:
    return Attempt(ref, Execution(head, b"", HttpTarget(url, **target)), redelivered)


def wait_for_ends(runner: HttpTargetRunner, count: int, wait_s: float = 60.0) -> list[AttemptEnd]:
    ends: list[AttemptEnd] = []
    until = time.monotonic() + wait_s
    while len(ends) < count and time.monotonic() < until:
        ends += runner.ended()
        time.sleep(0.005)
    assert len(ends) == count
    return ends


def run(runner: HttpTargetRunner, *attempts: Attempt) -> AttemptEnd:
    runner.start(attempts)
    return wait_for_ends(runner, len(attempts))[-1]


def test_the_request_carries_the_contracts_headers(receiver: HttpReceiver, make_runner: Any) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/run?a=%2F&b=x", headers={"X-Own": "yes"}, body='{"n": "é"}'))
    call = receiver.calls[-1]
    assert (end.ref, end.kind, end.result, end.error) == ("ref", ReportKind.SUCCEEDED, "200 OK: done", None)
    assert end.started_at <= end.finished_at
    assert (call.method, call.path, call.body) == ("POST", "/run?a=%2F&b=x", '{"n": "é"}'.encode())
    assert call.headers["Idempotency-Key"] == f'"{ID}"'
    assert call.headers["Tocsin-Job-Id"] == "acme@nightly"
    assert call.headers["Tocsin-Scheduled-For"] == "2025-10-10T21:00:00Z"
    assert call.headers["Tocsin-Attempt"] == "2"
    assert call.headers["Tocsin-Token"] == "41"
    assert call.headers["X-Own"] == "yes"
    assert call.headers["User-Agent"] == f"tocsin/{__version__}"
    assert call.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "Tocsin-Redelivered" not in call.headers
    assert "Tocsin-Tenant" not in call.headers


def test_a_redelivery_says_so(receiver: HttpReceiver, make_runner: Any) -> None:
    run(make_runner(), attempt(f"{receiver.url}/again", redelivered=True))
    assert receiver.calls[-1].headers["Tocsin-Redelivered"] == "true"


def test_microseconds_of_the_nominal_time_are_kept(receiver: HttpReceiver, make_runner: Any) -> None:
    run(make_runner(), attempt(f"{receiver.url}/micro", head=HEAD._replace(scheduled_for=1_760_130_000_000_001)))
    assert receiver.calls[-1].headers["Tocsin-Scheduled-For"] == "2025-10-10T21:00:00.000001Z"


def test_the_jobs_own_headers_replace_only_defaults(receiver: HttpReceiver, make_runner: Any) -> None:
    own = {"user-agent": "mine/1", "content-type": "application/json"}
    run(make_runner(), attempt(f"{receiver.url}/own", method="PUT", headers=own, body="{}"))
    call = receiver.calls[-1]
    assert call.method == "PUT"
    assert {n.lower(): v for n, v in call.headers.items()}["user-agent"] == "mine/1"
    assert [v for n, v in call.headers.items() if n.lower() == "content-type"] == ["application/json"]


def test_202_is_success(receiver: HttpReceiver, make_runner: Any) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/status?code=202"))
    assert (end.kind, end.result) == (ReportKind.SUCCEEDED, "202 Accepted: a\nb")


@pytest.mark.parametrize("code", [400, 404, 429, 500, 503])
def test_other_statuses_fail_with_the_status(receiver: HttpReceiver, make_runner: Any, code: int) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/status?code={code}"))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert (end.error.error_class, end.error.status) == ("status", code)
    assert "\n" not in end.error.message
    assert end.error.message.startswith(str(code))


@pytest.mark.parametrize(("after", "seconds"), [("120", 120.0), ("-5", None), ("", None)])
def test_what_a_target_asks_for_is_passed_on(
    receiver: HttpReceiver, make_runner: Any, after: str, seconds: float | None
) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/status?code=429&after={after}"))
    assert end.error is not None
    assert end.error.retry_after_s == seconds


def test_redirects_are_not_followed_and_the_location_is_named(receiver: HttpReceiver, make_runner: Any) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/redirect", method="GET"))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert (end.error.error_class, end.error.status) == ("redirect", 302)
    assert "/landed" in end.error.message
    assert all(call.path != "/landed" for call in receiver.calls)


def test_a_timeout_ends_the_attempt(receiver: HttpReceiver, make_runner: Any) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/gated", timeout_s=0.2))
    assert end.kind is ReportKind.TIMED_OUT
    assert end.error is not None
    assert (end.error.error_class, end.error.message) == ("timeout", "no whole answer within 0.2 s")


def test_an_answer_that_never_ends_is_cut_not_failed(receiver: HttpReceiver, make_runner: Any) -> None:
    end = run(make_runner(response_bytes_max=200_000), attempt(f"{receiver.url}/endless"))
    assert end.kind is ReportKind.SUCCEEDED
    assert end.result == "200 OK: " + "x" * 500


def test_an_answer_that_breaks_off_fails(receiver: HttpReceiver, make_runner: Any) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/broken"))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert end.error.error_class == "connection"


@pytest.mark.parametrize("path", ["/binary", "/zipped"])
def test_what_is_not_text_is_not_repeated(receiver: HttpReceiver, make_runner: Any, path: str) -> None:
    assert run(make_runner(), attempt(receiver.url + path)).result == "200 OK"


def test_a_refused_connection(make_runner: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        end = run(make_runner(), attempt(f"http://127.0.0.1:{port}/"))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert end.error.error_class == "connection_refused"


def test_a_name_that_does_not_resolve(make_runner: Any) -> None:
    end = run(make_runner(), attempt("http://no-such-host.invalid/"))
    assert end.error is not None
    assert end.error.error_class == "dns"
    assert "no-such-host.invalid" in end.error.message


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key and a certificate for localhost and 127.0.0.1 that nobody has signed."""
    directory = tmp_path_factory.mktemp("tls")
    key, cert = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", *names]
    subprocess.run(command, check=True, capture_output=True)
    return key, cert


def _call_over_tls(runner: HttpTargetRunner, certificate: tuple[Path, Path], host: str = "127.0.0.1") -> AttemptEnd:
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_shake_hands, args=(listener, context), daemon=True).start()
        return run(runner, attempt(f"https://{host}:{listener.getsockname()[1]}/"))


def test_an_untrusted_certificate(make_runner: Any, certificate: tuple[Path, Path]) -> None:
    end = _call_over_tls(make_runner(), certificate)
    assert end.error is not None
    assert end.error.error_class == "tls"


def test_the_operators_own_certificates_are_trusted_beside_the_systems(
    make_runner: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = make_runner(ca_file=str(certificate[1]))
    assert _call_over_tls(runner, certificate).kind is ReportKind.SUCCEEDED
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: real("127.0.0.1", *a, **k))
    end = _call_over_tls(runner, certificate, "another.test")
    assert end.error is not None
    assert end.error.error_class == "tls", "a certificate that is trusted, but another host's"


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listener.accept()
    with connection:
        try:
            secured = context.wrap_socket(connection, server_side=True)
            secured.recv(65_536)
            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            secured.close()
        except OSError:
            return


def test_a_server_that_speaks_no_http(make_runner: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_answer_once, args=(listener, b"SSH-2.0-x\r\n"), daemon=True).start()
        end = run(make_runner(), attempt(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
    assert end.error is not None
    assert end.error.error_class == "protocol"


def _answer_once(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(answer)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "127.0.0.1",
        "localhost",
        "0x7f000001",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "10.0.0.1",
        "100.64.0.1",
    ],
)
def test_private_addresses_are_blocked(receiver: HttpReceiver, make_runner: Any, host: str) -> None:
    before = len(receiver.calls)
    end = run(make_runner(allow_private=False), attempt(f"http://{host}:{receiver.port}/", timeout_s=20))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert end.error.error_class == "blocked"
    assert len(receiver.calls) == before


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1", "0"])
def test_oddly_written_addresses_are_refused_by_guard_or_client(
    receiver: HttpReceiver, make_runner: Any, host: str
) -> None:
    before = len(receiver.calls)
    end = run(make_runner(allow_private=False), attempt(f"http://{host}:{receiver.port}/", timeout_s=20))
    assert end.error is not None
    assert end.error.error_class in ("blocked", "invalid_request")
    assert len(receiver.calls) == before


def test_a_name_is_judged_by_what_it_resolves_to(
    receiver: HttpReceiver, make_runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard stands where sockets are made, so it does not matter what a name resolved to before."""
    real = socket.getaddrinfo

    def rebound(host: Any, *args: Any, **kwargs: Any) -> Any:
        return real("127.0.0.1" if host == "innocent.test" else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    end = run(make_runner(allow_private=False), attempt(f"http://innocent.test:{receiver.port}/", timeout_s=20))
    assert end.error is not None
    assert end.error.error_class == "blocked"
    assert "innocent.test" in end.error.message
    assert run(make_runner(), attempt(f"http://innocent.test:{receiver.port}/")).kind is ReportKind.SUCCEEDED


def test_a_tenants_names_that_nobody_resolves_keep_no_other_tenant_waiting(
    receiver: HttpReceiver, make_runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, let_go = socket.getaddrinfo, threading.Event()

    def hanging(host: Any, *args: Any, **kwargs: Any) -> Any:
        if str(host).startswith("silent"):
            let_go.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
        return real("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    runner = make_runner()
    evil = HEAD._replace(tenant_id="evil")
    try:
        runner.start(
            [attempt(f"http://silent{n}.test/", ref=n, head=evil, timeout_s=0.1) for n in range(2 * DNS_THREADS)]
        )
        wait_for_ends(runner, 2 * DNS_THREADS)  # given up, and their threads are held all the same
        end = run(runner, attempt(f"http://good.test:{receiver.port}/", timeout_s=40))
        assert end.kind is ReportKind.SUCCEEDED
    finally:
        let_go.set()


def test_the_operator_allows_and_denies_networks(receiver: HttpReceiver, make_runner: Any) -> None:
    """Judged when the connection is made, so by the address that is really called."""
    url = f"http://localhost:{receiver.port}/"
    allowed = make_runner(allow_private=False, allow=["127.0.0.0/8", "::1/128"])
    assert run(allowed, attempt(url)).kind is ReportKind.SUCCEEDED
    denied = make_runner(allow_private=True, allow=["127.0.0.0/8"], deny=["127.0.0.1/32", "::1/128"])
    end = run(denied, attempt(url))
    assert end.error is not None
    assert end.error.error_class == "blocked"


def test_placeholders_of_the_body_are_filled_in_for_each_attempt(receiver: HttpReceiver, make_runner: Any) -> None:
    body = '{"at": "{{scheduled_for}}", "id": "{{execution_id}}", "try": {{attempt}}, "of": "{{ job_id }}"}'
    runner = make_runner()
    run(runner, attempt(f"{receiver.url}/template", body=body, template=True))
    assert json.loads(receiver.calls[-1].body) == {
        "at": "2025-10-10T21:00:00Z",
        "id": ID,
        "try": 2,
        "of": "acme@nightly",
    }
    run(runner, attempt(f"{receiver.url}/plain", body=body))
    assert receiver.calls[-1].body == body.encode(), "without template, a body is sent byte for byte"


def test_what_is_sent_is_signed_with_every_secret_of_the_tenant(receiver: HttpReceiver, make_runner: Any) -> None:
    new, old = (f"whsec_{b64encode(bytes([n]) * 32).decode()}" for n in (1, 2))
    runner = make_runner(secrets={"acme": [new, old], "*": [old]})
    run(runner, attempt(f"{receiver.url}/signed", body="{{attempt}} é", template=True))
    call = receiver.calls[-1]
    headers = {name.lower(): value for name, value in call.headers.items()}
    assert headers["webhook-id"] == ID.replace(".", ":")
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 600
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + "2 é".encode()
    expected = [b64encode(hmac.digest(bytes([n]) * 32, text, "sha256")).decode() for n in (1, 2)]
    assert headers["webhook-signature"] == " ".join(f"v1,{one}" for one in expected)


def test_without_a_secret_nothing_is_signed(receiver: HttpReceiver, make_runner: Any) -> None:
    run(make_runner(secrets={"other": ["whsec_" + "A" * 32]}), attempt(f"{receiver.url}/unsigned"))
    assert not [name for name in receiver.calls[-1].headers if name.lower().startswith("webhook-")]


def test_202_of_a_target_that_calls_back_is_no_end(receiver: HttpReceiver, make_runner: Any) -> None:
    keys = CallbackKeys(["s" * 32])
    runner = make_runner(callbacks=keys)
    accepted = attempt(f"{receiver.url}/status?code=202", callback=True, timeout_s=900.0)
    end = run(runner, accepted)
    assert (end.kind, end.error) == (ReportKind.ACCEPTED, None)
    assert receiver.calls[-1].headers["Tocsin-Callback-Key"] == keys.key(ID, 2, 41)
    report = Reporter(AvroCodec(), "w").ended(_encoded(accepted).execution, end)
    assert AvroCodec().decode_report(report).timeout_s == 900.0


@pytest.mark.parametrize(("code", "kind"), [(200, ReportKind.SUCCEEDED), (500, ReportKind.FAILED)])
def test_any_other_answer_of_a_target_that_calls_back_is_an_end(
    receiver: HttpReceiver, make_runner: Any, code: int, kind: ReportKind
) -> None:
    runner = make_runner(callbacks=CallbackKeys(["s" * 32]))
    assert run(runner, attempt(f"{receiver.url}/status?code={code}", callback=True)).kind is kind


def test_a_target_that_calls_back_is_not_called_where_it_could_not(receiver: HttpReceiver, make_runner: Any) -> None:
    before = len(receiver.calls)
    end = run(make_runner(), attempt(f"{receiver.url}/status?code=202", callback=True))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert end.error.error_class == "callbacks_off"
    assert not is_retryable(end.kind, end.error)
    assert len(receiver.calls) == before


def _encoded(one: Attempt) -> Attempt:
    codec = AvroCodec()
    execution = codec.decode_execution(codec.encode_execution(HEAD, one.execution.target))
    return one._replace(execution=execution)


def test_interim_answers_are_passed_over_but_not_without_end(make_runner: Any) -> None:
    """The loop does not come to anything else while it passes them over: not to others, and to no time limit."""
    interim, final = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"

        def serve() -> None:
            for answers in ([interim] * INFORMATIONAL_MAX + [final], [interim * 1_000] * 1_000):
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    connection.recv(65_536)
                    for answer in answers:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        runner = make_runner()
        assert run(runner, attempt(url)).kind is ReportKind.SUCCEEDED
        end = run(make_runner(), attempt(url, timeout_s=60))
        assert end.kind is ReportKind.FAILED and end.error is not None
        assert end.error.error_class == "protocol" and "interim" in end.error.message
        thread.join(30)


def test_a_content_type_that_is_made_to_take_long_is_not_read(
    receiver: HttpReceiver, make_runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight thousand semicolons take seconds of the loop on which all attempts are."""
    asked: list[str] = []

    def read(response: Any) -> str:
        asked.append(response.headers["Content-Type"])
        return "text/plain"

    monkeypatch.setattr(aiohttp.ClientResponse, "content_type", property(read))
    assert run(make_runner(), attempt(f"{receiver.url}/semicolons")).result == "200 OK"
    assert run(make_runner(), attempt(f"{receiver.url}/ok")).result == "200 OK: done"
    assert asked == ["text/plain; charset=utf-8"]


def test_cookies_are_not_kept(receiver: HttpReceiver, make_runner: Any) -> None:
    runner = make_runner()
    # By name: even a jar keeps no cookies of bare addresses.
    run(runner, attempt(f"http://localhost:{receiver.port}/cookie"))
    run(runner, attempt(f"http://localhost:{receiver.port}/cookie"))
    assert "Cookie" not in receiver.calls[-1].headers


def test_proxies_of_the_environment_are_ignored(receiver: HttpReceiver, make_runner: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert run(make_runner(), attempt(f"{receiver.url}/direct")).kind is ReportKind.SUCCEEDED


def test_connections_are_kept(receiver: HttpReceiver, make_runner: Any) -> None:
    runner = make_runner()
    run(runner, attempt(f"{receiver.url}/one"))
    run(runner, attempt(f"{receiver.url}/two"))
    assert receiver.calls[-1].peer == receiver.calls[-2].peer


def test_a_request_into_a_breaking_connection_is_not_sent_twice(make_runner: Any) -> None:
    """aiohttp would send an idempotent request again; the owner alone repeats attempts."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_answer_the_first_only, args=(listener, requests), daemon=True).start()
        runner = make_runner()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert run(runner, attempt(url, method="GET")).kind is ReportKind.SUCCEEDED
        end = run(runner, attempt(url, method="GET"))
    assert end.error is not None
    assert end.error.error_class == "connection"
    assert len(requests) == 2


def _answer_the_first_only(listener: socket.socket, requests: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            while data := connection.recv(65_536):
                requests.append(data)
                if len(requests) > 1:
                    break
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def test_cancelled_attempts_end_as_cancelled(receiver: HttpReceiver, make_runner: Any) -> None:
    runner = make_runner()
    refs = [object() for _ in range(3)]
    runner.start([attempt(f"{receiver.url}/gated", ref=ref) for ref in refs])
    runner.cancel(refs)  # perhaps before the first of them has begun
    ends = wait_for_ends(runner, 3)
    assert {end.kind for end in ends} == {ReportKind.CANCELLED}
    assert {id(end.ref) for end in ends} == {id(ref) for ref in refs}
    runner.cancel(refs)


@pytest.mark.parametrize("timeout_s", [float("nan"), -1.0, float("inf")])
def test_a_timeout_that_is_none_is_an_end_too(receiver: HttpReceiver, make_runner: Any, timeout_s: float) -> None:
    end = run(make_runner(), attempt(f"{receiver.url}/x", timeout_s=timeout_s))
    assert end.error is not None
    assert end.error.error_class == "invalid_request"


def test_results_and_errors_have_bounded_lengths(receiver: HttpReceiver, make_runner: Any) -> None:
    text = "y" * 5_000
    assert len(run(make_runner(), attempt(f"{receiver.url}/status?code=200&text={text}")).result or "") <= 1_000
    error = run(make_runner(), attempt(f"{receiver.url}/status?code=500&text={text}")).error
    assert error is not None
    assert len(error.message) <= 1_000


def test_an_end_can_be_reported(receiver: HttpReceiver, make_runner: Any) -> None:
    """What comes from outside must survive encoding, lone surrogates and all."""
    codec = AvroCodec()
    execution = codec.decode_execution(
        codec.encode_execution(HEAD, HttpTarget(f"{receiver.url}/status?code=500&text=%FF%00"))
    )
    end = run(make_runner(), Attempt("r", execution, False))
    report = codec.decode_report(Reporter(codec, "w").ended(execution, end))
    assert report.error == end.error
