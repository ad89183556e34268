"""Other libraries' readings of the same expressions, in UTC, where only the dialect can differ.

A disagreement is allowed only where it is of a kind that docs/cron.md lists; there stands who is right, and why.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta

from croniter import CroniterError, croniter
from cronsim import CronSim, CronSimError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.domain.instants import LATEST
from tocsin.domain.recurrence import CronError, compile_cron

START = datetime(2024, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNT = 5
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

Opinion = list[datetime] | str
"""The next occurrences, or why it was refused."""


def ours(expression: str) -> Opinion:
    try:
        plan = compile_cron(expression, "UTC")
    except CronError as error:
        return error.problem
    found = plan.between((START - EPOCH) // timedelta(microseconds=1), LATEST, COUNT)
    return [(EPOCH + timedelta(microseconds=at)).replace(tzinfo=None) for at in found]


def of_croniter(expression: str) -> Opinion:
    try:
        # The bug is Vixie cron's rule for two day fields.
        steps = croniter(
            expression,
            START.replace(tzinfo=None),
            second_at_beginning=True,
            implement_cron_bug=True,
            max_years_between_matches=120,
        )
        return [steps.get_next(datetime) for _ in range(COUNT)]
    except CroniterError as error:
        return str(error)


def of_cronsim(expression: str) -> Opinion:
    try:
        steps = CronSim(expression, START.replace(tzinfo=None))
        return [next(steps) for _ in range(COUNT)]
    except CronSimError as error:
        return str(error)
    except StopIteration:
        return "never"


def kind_of_disagreement(peer: str, expression: str, opinion: Opinion) -> str | None:
    """Return the listed kind that explains why a peer reads an expression otherwise, or None."""
    day, month, weekday = expression.split()[-3:]
    special = "#" in weekday or re.search(r"[LW]", day) or re.search(r"(?:[0-9]|[A-Z]{3})L", weekday)
    if isinstance(opinion, str) and "backwards" in opinion:
        return "reversed range"
    if isinstance(opinion, str) and opinion.startswith("step"):
        return "step beyond the field"
    if isinstance(opinion, str) and opinion.startswith(("day-of-month 0", "month 0")):
        return "0 as the end of a range"
    if one_value_range(expression, month, weekday):
        return "range of one value"
    if re.search(r"(?:^|,)\w+/", weekday):
        return "a/n in day-of-week"
    if special:
        return "L, W and #"
    if peer == "croniter" and re.search(r",\*", weekday):
        return "star later in a list"
    return None


def one_value_range(expression: str, month: str, weekday: str) -> bool:
    """Tell whether a range has the same value at both ends, perhaps once as a name."""
    if re.search(r"\b(\w+)-\1\b", expression):
        return True
    for field, names, first in ((month, MONTHS, 1), (weekday, WEEKDAYS, 0)):
        for low, high in re.findall(r"(\w+)-(\w+)", field):
            numbers = [int(word) if word.isdigit() else names.index(word) + first for word in (low, high)]
            if numbers[0] == numbers[1]:
                return True
    return False


def numbers(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    inside = st.integers(low, high).map(str)
    return st.one_of(inside, inside, st.sampled_from(names)) if names else inside


@st.composite
def items(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...], extra: tuple[str, ...]) -> str:
    value = numbers(low, high, names)
    step = draw(st.integers(1, 7) if draw(st.integers(0, 9)) else st.sampled_from((high, high + 1)))
    forms = ["*", f"*/{step}", "{}", "{}", "{}", "{}-{}", "{}-{}/" + str(step), "{}/" + str(step), *extra]
    form = draw(st.sampled_from(forms))
    return re.sub(r"\{\}", lambda _: draw(value), form)


def fields(low: int, high: int, names: tuple[str, ...] = (), extra: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    lists = st.lists(items(low, high, names, extra), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), lists)


expressions = st.tuples(
    st.one_of(st.just(""), st.just(""), st.just(""), fields(0, 59).map(lambda second: second + " ")),
    fields(0, 59),
    fields(0, 23),
    fields(1, 31, extra=("L", "LW", "{}W")),
    fields(1, 12, MONTHS),
    fields(0, 7, WEEKDAYS, ("{}#1", "{}#4", "{}L")),
).map(lambda parts: parts[0] + " ".join(parts[1:]))


def test_peers_agree_or_differ_in_a_kind_that_is_listed() -> None:
    tally: Counter[tuple[str, str | None]] = Counter()

    @settings(max_examples=500, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(expressions)
    def compare(expression: str) -> None:
        mine = ours(expression)
        for peer, theirs in (("croniter", of_croniter(expression)), ("cronsim", of_cronsim(expression))):
            same = mine == theirs or (isinstance(mine, str) and isinstance(theirs, str))
            kind = "agreed" if same else kind_of_disagreement(peer, expression, mine)
            tally[peer, kind] += 1
            assert kind is not None, (expression, mine, theirs, peer)

    compare()
    assert tally["croniter", "agreed"] > 200
    assert tally["cronsim", "agreed"] > 200
