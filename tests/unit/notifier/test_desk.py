"""Who is posted what, and when: a recipient that fails keeps nobody waiting, and nothing waits for ever."""

from __future__ import annotations

import random

import pytest

from tocsin.domain.alerts import Alert
from tocsin.domain.instants import SECOND
from tocsin.engine.notification_desk import (
    ANY_TENANT,
    OPERATOR,
    Fate,
    Notice,
    NotificationDesk,
    NotificationLimits,
)

T0 = 1_800_000_000 * SECOND
LIMITS = NotificationLimits(
    queue_max=5,
    waiting_max=12,
    span_max=100,
    posts_max=6,
    recipient_posts_max=2,
    retry_first_s=1.0,
    retry_max_s=8.0,
    give_up_after_s=60.0,
)


def alert(tenant_id: str | None = "a", n: int = 0) -> Alert:
    return Alert("dead_letter", T0, tenant_id, f"job-{n}")


def desk(*addresses: str, limits: NotificationLimits = LIMITS) -> NotificationDesk:
    return NotificationDesk(addresses or (ANY_TENANT, OPERATOR), limits)


def offsets(notices: list[Notice]) -> list[int]:
    return [notice.offset for notice in notices]


def test_each_goes_to_its_own_webhook_else_to_that_of_all_others_and_what_is_nobodys_to_the_operator() -> None:
    full = desk("a", ANY_TENANT, OPERATOR)
    for offset, tenant_id in enumerate(["a", "b", None]):
        full.take(offset, alert(tenant_id), T0)
    assert [(n.offset, n.address) for n in full.due(T0)] == [(0, "a"), (1, ANY_TENANT), (2, OPERATOR)]


def test_a_tenant_never_gets_what_is_the_operators_nor_the_operator_what_is_a_tenants() -> None:
    tenants, operator = desk(ANY_TENANT), desk(OPERATOR)
    tenants.take(0, alert(None), T0)
    operator.take(0, alert("a"), T0)
    assert tenants.due(T0) == operator.due(T0) == []
    assert tenants.fates == operator.fates == {Fate.UNROUTED: 1}
    assert tenants.commit() == (1, "")


def test_what_cannot_be_read_holds_nothing_up() -> None:
    one = desk()
    one.take(7, None, T0)
    assert one.commit() == (8, "") and one.fates == {Fate.UNREADABLE: 1}


def test_a_recipient_that_fails_is_left_alone_ever_longer_and_then_tried_with_one() -> None:
    one = desk()
    for offset in range(4):
        one.take(offset, alert(n=offset), T0)
    first = one.due(T0)
    assert offsets(first) == [0, 1]
    now, pauses = T0, []
    for notice in first:
        one.failed(notice, now)
    for _ in range(6):
        wake = one.next_wake()
        assert wake is not None
        assert one.due(wake - 1) == []
        pauses.append((wake - now) // SECOND)
        now = wake
        [again] = one.due(now)
        one.failed(again, now)
    assert pauses == [2, 4, 8, 8, 8, 8]


def test_others_are_served_meanwhile() -> None:
    one = desk()
    one.take(0, alert("broken"), T0)
    [notice] = one.due(T0)
    one.failed(notice, T0)
    one.take(1, alert("well"), T0)
    assert offsets(one.due(T0)) == [1]


def test_nobody_takes_all_places() -> None:
    one = desk(limits=NotificationLimits(posts_max=3, recipient_posts_max=3))
    for offset in range(9):
        one.take(offset, alert("greedy"), T0)
    one.take(9, alert("modest"), T0)
    assert offsets(one.due(T0)) == [0, 9, 1]


def test_a_recipient_may_ask_for_patience_but_not_for_ever() -> None:
    one = desk()
    one.take(0, alert(), T0)
    [notice] = one.due(T0)
    one.failed(notice, T0, retry_after_s=5.0)
    assert one.next_wake() == T0 + 5 * SECOND
    [notice] = one.due(T0 + 5 * SECOND)
    one.failed(notice, T0, retry_after_s=1e9)
    assert one.next_wake() == T0 + 8 * SECOND


def test_after_a_success_it_is_trusted_again() -> None:
    one = desk()
    for offset in range(4):
        one.take(offset, alert(n=offset), T0)
    for notice in one.due(T0):
        one.failed(notice, T0)
    [probe] = one.due(T0 + 10 * SECOND)
    one.delivered(probe)
    assert len(one.due(T0 + 10 * SECOND)) == 2


def test_what_was_tried_long_enough_is_given_up_and_told() -> None:
    one = desk()
    one.take(0, alert(), T0)
    one.take(1, alert(), T0 + SECOND)
    for notice in one.due(T0):
        one.failed(notice, T0)
    one.expire(T0 + 60 * SECOND)
    assert [(d.notice.offset, d.why) for d in one.dropped] == [(0, "its time was over")]
    assert one.commit()[0] == 1
    one.expire(T0 + 61 * SECOND)
    assert one.commit() == (2, "") and one.waiting == 0


def test_who_wants_no_more_is_not_asked_again() -> None:
    one = desk()
    one.take(0, alert(), T0)
    [notice] = one.due(T0)
    one.refused(notice, "410 Gone")
    assert one.due(T0 + 100 * SECOND) == [] and one.fates == {Fate.DROPPED: 1} and one.commit() == (1, "")


def test_a_full_queue_drops_its_own_oldest() -> None:
    one = desk()
    one.take(0, alert("well"), T0)
    for offset in range(1, 9):
        one.take(offset, alert("flood"), T0)
    assert [d.notice.offset for d in one.dropped] == [1, 2, 3]
    assert one.waiting == 6 and 0 in offsets(one.due(T0))


def test_where_all_is_full_the_longest_queue_gives_way() -> None:
    one = desk()
    offset = 0
    for tenant_id, count in (("x", 5), ("y", 4), ("z", 3), ("w", 1)):
        for _ in range(count):
            one.take(offset, alert(tenant_id), T0)
            offset += 1
    assert [d.notice.alert.tenant_id for d in one.dropped] == ["x"]


def test_the_log_is_never_held_up_for_longer_than_the_span() -> None:
    one = desk()
    one.take(0, alert("stuck"), T0)
    [notice] = one.due(T0)
    one.failed(notice, T0)
    for offset in range(1, 200):
        one.take(offset, alert("well"), T0)
        for served in one.due(T0):
            one.delivered(served)
    assert [d.notice.offset for d in one.dropped] == [0]
    assert one.commit() == (200, "")


def test_a_successor_posts_only_what_is_not_settled() -> None:
    one = desk()
    for offset in range(6):
        one.take(offset, alert(f"t{offset % 3}", offset), T0)
    for notice in one.due(T0):
        if notice.alert.tenant_id == "t1":
            one.failed(notice, T0)
        else:
            one.delivered(notice)
    start, metadata = one.commit()
    assert start == 1
    successor = NotificationDesk((ANY_TENANT,), LIMITS, start, metadata)
    for offset in range(start, 6):
        successor.take(offset, alert(f"t{offset % 3}", offset), T0)
    assert offsets(successor.due(T0)) == [1, 4]
    assert successor.commit()[0] == 1, "nothing is forgotten before it is settled"


def test_metadata_that_nobody_understands_only_costs_repetitions() -> None:
    successor = NotificationDesk((ANY_TENANT,), LIMITS, 3, "nonsense")
    successor.take(3, alert(), T0)
    assert offsets(successor.due(T0)) == [3]


def test_nothing_is_kept_of_recipients_for_whom_nothing_waits() -> None:
    one = desk()
    for offset in range(500):
        one.take(offset, alert(f"tenant-{offset}"), T0)
        for notice in one.due(T0):
            one.delivered(notice)
    assert not one._recipients and not one._settled and not one._open


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_each_alert_is_settled_once_and_bounds_hold(seed: int) -> None:
    chance = random.Random(seed)
    one = desk("t0", "t1", "t2", OPERATOR)
    now, offset = T0, 0
    out: list[Notice] = []
    settled: list[int] = []
    for _ in range(400):
        deed = chance.random()
        if deed < 0.4:
            tenant_id = chance.choice(["t0", "t1", "t2", None, "nobody"])
            one.take(offset, chance.choice([alert(tenant_id, offset)] * 9 + [None]), now)  # type: ignore[list-item]
            offset += chance.choice([1, 1, 2])  # markers of transactions take offsets too
        elif deed < 0.6:
            out += one.due(now)
        elif out:
            notice = out.pop(chance.randrange(len(out)))
            end = chance.choice(["delivered", "failed", "failed", "refused"])
            if end == "failed":
                one.failed(notice, now, chance.choice([None, 3.0]))
            elif end == "refused":
                one.refused(notice, "410")
            else:
                settled.append(notice.offset)
                one.delivered(notice)
        now += chance.choice([0, SECOND // 3, 20 * SECOND])
        one.expire(now)
        settled += [d.notice.offset for d in one.dropped]
        one.dropped.clear()
        assert len(out) <= LIMITS.posts_max
        assert one._waiting <= LIMITS.waiting_max
        assert one.commit()[0] <= one._position
    while one.waiting:
        now += 61 * SECOND
        for notice in out:
            one.failed(notice, now)
        out = []
        one.expire(now)
        settled += [d.notice.offset for d in one.dropped]
        one.dropped.clear()
    assert len(settled) == len(set(settled))
    assert one.commit() == (one._position, "")
