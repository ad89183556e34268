"""The alert rules, played on what the roles' own meter exports: what sets each off, and what must not."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.unit.deploy.promql import Labels, Series, evaluate, history, names_in
from tocsin.adapters.metrics import PrometheusMeter

ROOT: Final = Path(__file__).parents[3]
RULES_FILE: Final = ROOT / "deploy" / "prometheus" / "alerts.yaml"
GROUPS: Final[list[dict[str, Any]]] = yaml.safe_load(RULES_FILE.read_text("utf-8"))["groups"]
RULES: Final[dict[str, dict[str, Any]]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
OPERATIONS: Final = (ROOT / "docs" / "operations.md").read_text("utf-8")

Play = Callable[[PrometheusMeter, int], None]
MINUTES: Final = 40
BEGIN: Final = 15
"""From this minute on goes wrong what a story tells of; before, all is well."""


def all_is_well(meter: PrometheusMeter, minute: int) -> None:
    """A trigger that owns all, and everything else that a healthy cluster exports."""
    meter.shards(8)
    meter.owned(8)
    meter.clock_off(0.0)
    meter.isolated(0)
    meter.standing(0)
    meter.lanes_missing(0)
    meter.pools_idle(0)
    for shard in range(8):
        meter.fired(shard, [0.01] * 100)
        meter.cursor_age(shard, 0.02 if minute % 2 else 9.0)  # what is idle says so each ten seconds
        meter.unwritten_turns(shard, minute % 3)
    meter.completed("SUCCEEDED", 700)
    meter.completed("SKIPPED", 100)
    meter.started(800, 0)
    meter.lag("execution-events", 50 + minute)
    meter.reconciled_age(200.0)
    meter.request("GET", "/v1/jobs", 200, 0.01)
    for _ in range(100):
        meter.request("POST", "/v1/jobs", 201 if minute % 2 else 422, 0.01)


@dataclass(frozen=True)
class Story:
    """What happens each minute from ``BEGIN`` on, after all that is well."""

    alert: str
    labels: dict[str, str]
    goes_wrong: Play
    passes: Play = lambda _meter, _minute: None
    """Something like it that must not set the alert off."""
    within_min: int = 3


def at(minute: int, play: Callable[[PrometheusMeter], None]) -> Play:
    return lambda meter, now: play(meter) if now == minute else None


def always(play: Callable[[PrometheusMeter], None]) -> Play:
    return lambda meter, _minute: play(meter)


def requests(status: int, count: int) -> Play:
    def play(meter: PrometheusMeter, _minute: int) -> None:
        for _ in range(count):
            meter.request("POST", "/v1/jobs", status, 0.01)

    return play


STORIES: Final = (
    Story("TocsinEarly", {}, at(BEGIN, lambda m: m.fired(0, [-0.000001])), at(BEGIN, lambda m: m.fired(0, [0.0]))),
    Story(
        "TocsinLate",
        {},
        always(lambda m: m.fired(3, [4.0] * 100)),
        at(BEGIN, lambda m: m.fired(3, [4.0] * 400)),  # a burst that is over soon
        within_min=8,
    ),
    Story("TocsinMissedWindows", {}, at(BEGIN, lambda m: m.fired(1, [61.0])), at(BEGIN, lambda m: m.fired(1, [59.0]))),
    Story(
        "TocsinCursorStandsStill",
        {"shard": "5"},
        lambda meter, minute: meter.cursor_age(5, 60.0 * (minute - BEGIN + 1)),
        at(BEGIN, lambda m: m.cursor_age(5, 100.0)),
    ),
    Story("TocsinShardsWithoutOwner", {}, always(lambda m: m.owned(7)), at(BEGIN, lambda m: m.owned(7))),
    Story("TocsinShardFails", {"instance": "t"}, always(lambda m: m.isolated(1)), always(lambda m: m.isolated(0))),
    Story(
        "TocsinShardStands",
        {"instance": "t"},
        always(lambda m: m.standing(1)),
        at(BEGIN, lambda m: m.standing(1)),  # its predecessor's last transaction is over within a minute
    ),
    Story(
        "TocsinLanesMissing",
        {"instance": "t"},
        always(lambda m: m.lanes_missing(1)),
        at(BEGIN, lambda m: m.lanes_missing(1)),  # found and made within a minute
    ),
    Story("TocsinPoolIdle", {}, always(lambda m: m.pools_idle(1)), always(lambda m: m.pools_idle(0))),
    Story("TocsinClockOff", {"instance": "t"}, always(lambda m: m.clock_off(0.7)), always(lambda m: m.clock_off(0.0))),
    Story(
        "TocsinDeadLetters",
        {"kind": "execution"},
        at(BEGIN, lambda m: m.dead_letters("execution", 1)),
        always(lambda m: m.completed("DEAD", 0)),
    ),
    Story("TocsinDeadLetters", {"kind": "record"}, at(BEGIN, lambda m: m.dead_letters("record", 1))),
    Story(
        "TocsinJobsSuspended",
        {},
        at(BEGIN, lambda m: m.alerted("suspended", 1)),
        always(lambda m: m.alerted("skipped", 10)),
    ),
    Story(
        "TocsinRetriesPaused",
        {},
        at(BEGIN, lambda m: m.alerted("retries_paused", 1)),
        always(lambda m: m.alerted("suspended", 0)),
    ),
    Story("TocsinTargetsFail", {}, at(BEGIN, lambda m: m.breakers(1)), always(lambda m: m.breakers(0)), within_min=12),
    Story("TocsinMissing", {}, at(BEGIN, lambda m: m.missing(1)), always(lambda m: m.missing(0))),
    Story(
        "TocsinReconcilerBehind",
        {},
        lambda meter, minute: meter.reconciled_age(1_801.0 + 60 * (minute - BEGIN)),
        lambda meter, minute: meter.reconciled_age(3_700.0 if minute < BEGIN + 5 else 200.0),  # it has just started
        within_min=12,
    ),
    Story("TocsinUnreadable", {}, at(BEGIN, lambda m: m.undecodable())),
    Story("TocsinUnreadable", {}, at(BEGIN, lambda m: m.skipped("event"))),
    Story(
        "TocsinRedelivered",
        {},
        always(lambda m: m.started(0, 2)),
        at(BEGIN, lambda m: m.started(0, 200)),  # one worker was killed
        within_min=20,
    ),
    Story(
        "TocsinNotificationsDropped",
        {},
        at(BEGIN, lambda m: m.notified("dropped", 3)),
        always(lambda m: m.notified("failed", 20)),
    ),
    Story(
        "TocsinViewsLag",
        {"topic": "execution-events"},
        always(lambda m: m.lag("execution-events", 10_001)),
        lambda meter, minute: meter.lag("execution-events", 50_000 if minute < BEGIN + 3 else 0),
        within_min=7,
    ),
    Story(
        "TocsinIndexBehind",
        {"shard": "2"},
        always(lambda m: m.unwritten_turns(2, 101)),
        at(BEGIN, lambda m: m.unwritten_turns(2, 400)),
        within_min=4,
    ),
    Story("TocsinRequestsFail", {}, requests(503, 20), requests(409, 1_000), within_min=12),
)


def recorded(goes_wrong: Play) -> Series:
    """Play a story for a process called t, and record its registry each minute."""
    meter = PrometheusMeter()
    samples: dict[str, dict[Labels, list[float | None]]] = {}
    for minute in range(MINUTES):
        all_is_well(meter, minute)
        if minute >= BEGIN:
            goes_wrong(meter, minute)
        for family in meter.registry.collect():
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    labels = frozenset({**sample.labels, "instance": "t"}.items())
                    samples.setdefault(sample.name, {}).setdefault(labels, [None] * minute).append(sample.value)
    return Series(samples)


def for_s(rule: dict[str, Any]) -> int:
    text = rule.get("for", "0m")
    assert re.fullmatch(r"[0-9]+m", text), text
    return int(text[:-1]) * 60


def firing(alert: str, series: Series) -> list[list[Labels]]:
    return history(RULES[alert]["expr"], for_s(RULES[alert]), series, MINUTES)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.alert}{story.labels or ''}")
def test_an_alert_fires_for_what_it_is_there_for_and_for_nothing_like_it(story: Story) -> None:
    wrong = firing(story.alert, recorded(story.goes_wrong))
    assert wrong[:BEGIN] == [[]] * BEGIN
    assert wrong[BEGIN + story.within_min] == [frozenset(story.labels.items())]
    assert firing(story.alert, recorded(story.passes)) == [[]] * MINUTES


def test_every_alert_has_a_story_and_none_fires_while_all_is_well() -> None:
    assert {story.alert for story in STORIES} == set(RULES)
    series = recorded(lambda _meter, _minute: None)
    assert [alert for alert in RULES if any(firing(alert, series))] == []


def test_no_trigger_at_all_is_a_shard_without_owner() -> None:
    assert firing("TocsinShardsWithoutOwner", Series({}))[1] == [frozenset()]


def test_a_shard_that_moves_is_never_taken_for_one_that_stands_still() -> None:
    """Its former owner goes on exporting, and says nothing of it any more."""
    series = recorded(lambda meter, minute: meter.gone(5) if minute >= BEGIN else None)
    theirs = {n: values for n, found in series.samples.items() for k, values in found.items() if ("shard", "5") in k}
    assert set(theirs) == {"tocsin_cursor_age_seconds", "tocsin_unwritten_turns"}
    assert all(len(values) == BEGIN for values in theirs.values())
    assert not any(firing("TocsinCursorStandsStill", series))


def test_rules_name_metrics_that_the_roles_export() -> None:
    exported = set(recorded(lambda _meter, _minute: None).samples)
    for rule in RULES.values():
        assert names_in(rule["expr"])
        assert names_in(rule["expr"]) <= exported


def test_every_alert_says_what_it_means_and_leads_to_what_to_do() -> None:
    for alert, rule in RULES.items():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{alert.lower()}"
        section = re.search(rf"^### {alert}\n\n(.+?)(?=^#|\Z)", OPERATIONS, re.MULTILINE | re.DOTALL)
        assert section, f"docs/operations.md does not say what to do about {alert}"
        assert rule["labels"]["severity"] in section[1].lower()
        assert "**Do:**" in section[1]
    assert set(re.findall(r"^### (Tocsin\w+)$", OPERATIONS, re.MULTILINE)) == set(RULES)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a + 1", {frozenset({("x", "1")}): 31.0, frozenset({("x", "2")}): 2.0}),
        ("sum(a)", {frozenset(): 31.0}),
        ("max by (x) (a{x!='1'})".replace("'", '"'), {frozenset({("x", "2")}): 1.0}),
        ("sum(a) - 1 * 2 > 28", {frozenset(): 29.0}),
        ("sum(a) > 31", {}),
        ("sum(a) > 31 or absent(b)", {frozenset(): 1.0}),
        ('increase(a{x=~"1|3"}[5m])', {frozenset({("x", "1")}): 50.0}),
        ("count(a and a > 5)", {frozenset(): 1.0}),
    ],
)
def test_the_evaluator_knows_what_these_mean(expression: str, value: dict[Labels, float]) -> None:
    rising = [float(10 * n) for n in range(1, 4)]
    one, two = frozenset({("x", "1")}), frozenset({("x", "2")})
    if expression.startswith("increase"):
        assert evaluate(expression, Series({"a": {one: [float(10 * n) for n in range(1, 12)]}}), 600) == value
    else:
        assert evaluate(expression, Series({"a": {one: rising, two: [1.0, 1.0, 1.0]}}), 120) == value


@pytest.mark.parametrize("bad", ["sum(", "a[5m", "rate(a)", "a ? b", "sum(a) a"])
def test_the_evaluator_refuses_what_it_does_not_know(bad: str) -> None:
    with pytest.raises((SyntaxError, IndexError)):
        evaluate(bad, Series({}), 0)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_agrees(tmp_path: Path) -> None:
    """Each story as a test of promtool's own: at every moment it must say what our evaluator says."""
    subprocess.run(["promtool", "check", "rules", str(RULES_FILE)], check=True, timeout=60)
    tests = []
    asked = sorted(set.union(*(names_in(rule["expr"]) for rule in RULES.values())))
    for story in STORIES:
        for play in (story.goes_wrong, story.passes):
            series = recorded(play)
            said = {alert: firing(alert, series) for alert in RULES}
            moments = sorted({0, BEGIN - 1, BEGIN, BEGIN + 1, BEGIN + story.within_min, MINUTES - 1})
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [
                        _written(name, labels, values)
                        for name in asked
                        for labels, values in series.samples.get(name, {}).items()
                    ],
                    "alert_rule_test": [
                        _expected(alert, minute, said[alert][minute]) for minute in moments for alert in RULES
                    ],
                }
            )
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES_FILE)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def _written(name: str, labels: Labels, values: Any) -> dict[str, str]:
    listed = ", ".join(f'{label}="{text}"' for label, text in sorted(labels))
    return {"series": f"{name}{{{listed}}}", "values": " ".join("_" if v is None else repr(v) for v in values)}


def _expected(alert: str, minute: int, said: list[Labels]) -> dict[str, Any]:
    rule = RULES[alert]
    found = [
        {"exp_labels": {**dict(labels), **rule["labels"]}, "exp_annotations": rule["annotations"]} for labels in said
    ]
    return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": found}
