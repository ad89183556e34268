"""Cases of retries: RET-1 and RET-3, and which errors are attempted again where the job says so itself."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.adapters.avro import AvroCodec
from tocsin.domain import retries
from tocsin.domain.definitions import parse, to_mapping
from tocsin.domain.error_classes import CHOOSABLE_CLASSES
from tocsin.domain.errors import InvalidInput
from tocsin.domain.executions import AttemptError, AttemptHead, ReportKind
from tocsin.domain.instants import SECOND
from tocsin.domain.policies import RetryPolicy
from tocsin.domain.retries import is_retryable, retry_delay
from tocsin.domain.targets import HttpTarget

TARGET = {"type": "http", "url": "https://example.test/"}


@pytest.mark.parametrize(("base_s", "max_s", "attempts"), [(300, 3600, [1017]), (10, 300, [1, 60, 1_000, 10**6])])
@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
def test_ret_1_no_delay_overflows_or_passes_its_cap(
    base_s: float, max_s: float, attempts: list[int], backoff: str
) -> None:
    policy = RetryPolicy(10**6, backoff, base_s, max_s)
    for attempt in attempts:
        assert 0 <= retry_delay(policy, "j.1.2", attempt) <= max_s * SECOND


@pytest.mark.parametrize("drawn", [0.0, 0.9999999])
def test_ret_3_full_jitter_stays_below_doubling_bounds(monkeypatch: pytest.MonkeyPatch, drawn: float) -> None:
    monkeypatch.setattr(retries, "_draw", lambda _id, _attempt: drawn)
    policy = RetryPolicy(10, "exponential", 300, 3600)
    delays = [retry_delay(policy, "j.1.2", attempt) for attempt in (1, 2, 3, 9)]
    bounds = [300 * SECOND, 600 * SECOND, 1200 * SECOND, 3600 * SECOND]
    assert delays == [round(bound * drawn) for bound in bounds]


@pytest.mark.parametrize(
    ("retry_on", "kind", "error", "expected"),
    [
        ({"404": True}, "FAILED", AttemptError("status", "", 404), True),
        ({"404": True}, "FAILED", AttemptError("status", "", 410), False),
        ({"4xx": True, "404": False}, "FAILED", AttemptError("status", "", 404), False),
        ({"4xx": True, "404": False}, "FAILED", AttemptError("status", "", 410), True),
        ({"5xx": False, "503": True}, "FAILED", AttemptError("status", "", 503), True),
        ({"5xx": False, "503": True}, "FAILED", AttemptError("status", "", 500), False),
        ({"status": False}, "FAILED", AttemptError("status", "", 500), False),
        ({"status": False, "5xx": True}, "FAILED", AttemptError("status", "", 500), True),
        ({"redirect": True}, "FAILED", AttemptError("redirect", "", 302), True),
        ({"302": True}, "FAILED", AttemptError("redirect", "", 302), False),
        ({"timeout": False}, "TIMED_OUT", AttemptError("timeout", ""), False),
        ({"timeout": False}, "TIMED_OUT", None, False),
        ({"timeout": False}, "TIMED_OUT", AttemptError("lease_expired", ""), False),
        ({"timeout": False, "lease_expired": True}, "TIMED_OUT", AttemptError("lease_expired", ""), True),
        ({"connection_refused": False}, "FAILED", AttemptError("connection_refused", ""), False),
        ({"connection_refused": False}, "FAILED", AttemptError("connection", ""), True),
        ({"timeout": True, "5xx": True}, "CANCELLED", None, False),
        ({"timeout": True}, "SUCCEEDED", None, False),
    ],
)
def test_the_most_specific_word_of_a_job_decides(
    retry_on: dict[str, bool], kind: str, error: AttemptError | None, expected: bool
) -> None:
    assert is_retryable(ReportKind(kind), error, RetryPolicy(retry_on=retry_on)) is expected


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([500], "retry.retry_on"),
        ({"teapot": True}, "retry.retry_on"),
        ({"600": True}, "retry.retry_on"),
        ({"5XX": True}, "retry.retry_on"),
        ({"40": True}, "retry.retry_on"),
        ({404: True}, "retry.retry_on"),
        ({"undecodable": True}, "retry.retry_on"),
        ({"404": "yes"}, "retry.retry_on.404"),
        ({"404": 1}, "retry.retry_on.404"),
        ({"404": None}, "retry.retry_on.404"),
        ({str(status): True for status in range(400, 460)}, "retry.retry_on"),
    ],
)
def test_what_is_no_choice_of_errors_is_refused_by_name(given: Any, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse({"target": TARGET, "retry": {"retry_on": given}})
    assert {fault.field for fault in refused.value.faults} == {path}


def test_what_is_chosen_lasts_and_what_chooses_nothing_is_as_it_was() -> None:
    chosen = {"404": True, "5xx": False, **dict.fromkeys(sorted(CHOOSABLE_CLASSES), True)}
    definition = parse({"target": TARGET, "retry": {"retry_on": chosen}})
    assert parse(to_mapping(definition)) == definition
    assert definition.retry is not None and definition.retry.retry_on == chosen
    plain = parse({"target": TARGET, "retry": {"max_attempts": 2, "retry_on": {}}})
    assert "retry_on" not in to_mapping(plain)["retry"]
    codec, head = AvroCodec(), AttemptHead(1, 0, 0, "j.1.2", "j", "acme", 1, 2, 2)
    for policy in (definition.retry, plain.retry):
        encoded = codec.encode_execution(head, HttpTarget("https://example.test/"), policy)
        assert codec.decode_execution(encoded).retry == policy
