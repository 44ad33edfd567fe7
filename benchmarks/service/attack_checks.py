"""What must hold of a bandit's log after an attack: each check is a promise, which its docstring says.

What the log is compared with are only the answers that clients got.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.service.attack_log import CLOSED, REWARDS, Part, Story, count, read_log
from benchmarks.service.attack_records import Exchange, Json

if TYPE_CHECKING:
    from benchmarks.service.attack_tenants import Sender

_PARTS = ("id", "arm", "context", "propensity", "by", "time")
Wrong = Iterator[str | tuple[str, Exchange]]


# Decisions.


def numbers_have_no_gaps(story: Story) -> Wrong:
    """events are numbered 1, 2, 3 and so on"""
    for at, event in enumerate(story.events, 1):
        if event["seq"] != at:
            yield f"event {event['seq']} stands in place {at}"
            return


def acknowledged_decisions_are_kept(story: Story) -> Wrong:
    """an acknowledged decision is in the log, with the same arm and propensity"""
    for part in story.made():
        event = story.decided.get(part.answer["id"])
        if event is None:
            yield f"decision {part.answer['id']} is not in the log", part.of
            continue
        kept = (story.labels(event["body"]["cell"]), event["body"]["p"], event["body"]["by"])
        if kept != ({**part.answer["context"], **part.answer["arm"]}, part.answer["propensity"], part.answer["by"]):
            yield f"the log has {event}", part.of


def decisions_are_made_once(story: Story) -> Wrong:
    """no decision is in the log twice, and no two requests get one id"""
    counts = Counter(event["decision"] for event in story.events if event["kind"] == "Decided")
    yield from (f"decision {number} is in the log {count} times" for number, count in counts.items() if count > 1)
    groups: dict[str, Part] = {}
    for part in story.made():
        before = groups.setdefault(part.answer["id"], part)
        if before.group != part.group and part.body.get("id") is None:
            yield f"decision {part.answer['id']} was also given to: {before.of.words()}", part.of


def decisions_were_asked_for(story: Story) -> Wrong:
    """every decision in the log was asked for by somebody who got it, or no answer"""
    known = {part.answer["id"] for part in story.made()}
    named = {part.body["id"] for part in story.asks if part.lost and part.body.get("id") is not None}
    extra = [number for number in story.decided if number not in known and number not in named]
    possible = len({part.group for part in story.asks if part.lost and part.body.get("id") is None})
    if len(extra) > possible:
        yield f"{len(extra)} decisions nobody got, such as {extra[0]}, but only {possible} requests got no answer"


def repeated_requests_get_the_same_decision(story: Story) -> Wrong:
    """a request that is repeated with its key or id gets the same decision"""
    first: dict[str, Part] = {}
    for part in story.made():
        before = first.setdefault(part.group, part)
        different = [name for name in _PARTS if before.answer[name] != part.answer[name]]
        if different:
            yield f"another {', '.join(different)} than before: {before.of.words()}", part.of


def decisions_are_as_requested(story: Story) -> Wrong:
    """a decision is among the arms that the request allows, with a probability above 0 and at most 1"""
    for part in story.made():
        answer = part.answer
        for mode, labels in (part.body.get("allowed") or {}).items():
            if answer["by"] != "caller" and answer["arm"][mode] not in labels:
                yield f"{answer['arm'][mode]!r} is not allowed", part.of
        chance = answer["propensity"]
        if not (chance is None and answer["by"] == "caller") and not (chance is not None and 0 < chance <= 1):
            yield f"the propensity is {chance}", part.of


def changes_are_obeyed(story: Story) -> Wrong:
    """decisions obey every change that was acknowledged before they were asked for, at any server"""
    if story.life.unsure:
        return
    for part in story.asks:
        if part.status not in (200, 422):
            continue
        for claim in story.life.claims:
            if claim.covers(part.of) and _broken(claim.kind, claim.about, part):
                yield f"acknowledged {part.of.first - claim.since:.2f} s before: {claim.said}", part.of


def _broken(kind: str, about: Any, part: Part) -> bool:
    if kind == "apprentice":
        return part.status == 200 and about != (part.body.get("played") is not None)
    if part.status != 200 or part.answer["by"] == "caller":
        return False
    arm, free = part.answer["arm"], "allowed" not in part.body
    if kind == "forbid":
        return bool((arm["offer"], arm["channel"]) == about)
    if kind == "retired":
        return bool(arm["offer"] == about)
    if kind == "ceiling":
        return free and bool(arm["channel"] == about)
    return free and bool(part.answer["by"] != "holdout")


# Rewards.


def rewards_are_those_that_were_told(story: Story) -> Wrong:
    """an acknowledged reward is in the log, a refused one is not, and none counts twice"""
    told: dict[str, dict[str, list[Part]]] = defaultdict(lambda: defaultdict(list))
    for part in story.tells:
        if part.body.get("id") is not None and not isinstance(part.body.get("reward"), bool):
            told[part.body["id"]][part.group].append(part)
    for number in {*told, *story.rewards}:
        found = Counter(_steps(story.rewards.get(number, []), adds=story.tenant.kind == "adding"))
        least, most = Counter[float](), Counter[float]()
        for parts in told[number].values():
            taken = any(part.status == 200 and part.answer["changed"] for part in parts)
            least[parts[0].body["reward"]] += taken
            most[parts[0].body["reward"]] += taken or any(part.lost for part in parts)
        for reward in {*found, *least}:
            if not least[reward] <= found[reward] <= most[reward]:
                words = f"{found[reward]} times in the log is the reward {reward} of {number}, but it was taken "
                words += f"{least[reward]} to {most[reward]} times; the log: {_short(story.rewards.get(number, []))}"
                last = [part for parts in told[number].values() for part in parts if part.body["reward"] == reward]
                yield (words, last[-1].of) if last else words


def _steps(events: Sequence[Json], adds: bool) -> Iterator[float]:
    """Yield what was told, from what rewards became."""
    before = 0.0
    for event in events:
        if event["kind"] in REWARDS:
            yield event["body"]["reward"] - (before if adds else 0.0)
            before = event["body"]["reward"]


def _short(events: Sequence[Json]) -> str:
    return ", ".join(f"{event['seq']} {event['kind']} {event['body'].get('reward')}" for event in events)


def repeated_rewards_get_the_same_answer(story: Story) -> Wrong:
    """a reward that is repeated with its key, of a decision that nothing else was told of, gets the same answer"""
    tellers: dict[str, set[str]] = defaultdict(set)
    for part in story.tells:
        if part.body.get("id") is not None and part.status is not None and part.status not in range(400, 500):
            tellers[part.body["id"]].add(part.group)
    first: dict[str, Part] = {}
    for part in story.tells:
        if part.status == 200 and tellers.get(part.body.get("id") or "") == {part.group}:
            before = first.setdefault(part.group, part)
            if any(before.answer[name] != part.answer[name] for name in ("id", "status", "reward")):
                yield f"before it was: {before.of.words()}", part.of


def arms_are_told_once(story: Story) -> Wrong:
    """a reward without a decision is in the log once if it was acknowledged, and not if it was refused"""
    found = Counter(
        (tuple(sorted(story.labels(event["body"]["cell"]).items())), event["body"]["reward"])
        for event in story.events
        if event["kind"] == "Told"
    )
    groups: dict[str, list[Part]] = defaultdict(list)
    for part in story.tells:
        if part.body.get("id") is None and part.body.get("arm") is not None:
            groups[part.group].append(part)
    least, most = Counter[Any](), Counter[Any]()
    for parts in groups.values():
        body = parts[0].body
        what = (tuple(sorted({**body["arm"], **(body.get("context") or {})}.items())), body["reward"])
        taken = any(part.status == 200 for part in parts)
        least[what] += taken
        most[what] += taken or any(part.lost for part in parts)
    for what in {*found, *least}:
        if not least[what] <= found[what] <= most[what]:
            yield f"{what} is in the log {found[what]} times, but was taken {least[what]} to {most[what]} times"


def closings_are_kept(story: Story) -> Wrong:
    """a decision that was acknowledged as shown or as cancelled is so in the log"""
    for route, kind in (("activate", "Activated"), ("cancel", "Cancelled")):
        there = {event["decision"] for event in story.events if event["kind"] == kind}
        for one in story.life.exchanges:
            changed = one.path == story.tenant.path(route) and one.status == 200 and one.answer["changed"]
            if changed and one.body["id"] not in there:
                yield f"there is no event {kind} of {one.body['id']}", one


# Windows, and what is served.


def windows_do_not_end_early(story: Story) -> Wrong:
    """no decision times out before its window has ended, whichever server's clock is wrong"""
    if story.tenant.kind != "patient":
        return
    right = {part.answer["id"]: part for part in story.made() if not story.trouble.clock_was_wrong(part.of)}
    for event in story.events:
        if event["kind"] == "TimedOut" and event["decision"] in right:
            part = right[event["decision"]]
            late = event["time"] - part.answer["time"]
            yield f"{event['decision']} timed out {late:.0f} s after it was made by the log's times", part.of


def detail_is_that_of_the_log(story: Story) -> Wrong:
    """what a server says of a bandit is what the log adds up to"""
    seq = story.detail["seq"]
    counted = count(event for event in story.events if event["seq"] <= seq)
    names = ["decisions", "waiting"] + ([] if story.tenant.kind == "fading" else ["rewards"])
    wrong = [name for name in names if story.detail[name] != counted[name]]
    if wrong:
        words = ", ".join(f"{name} {story.detail[name]} for {counted[name]}" for name in wrong)
        yield f"at event {seq} it says {words}"


def history_is_that_of_the_log(story: Story) -> Wrong:
    """the rewards in a bandit's history are those of the decisions that were shown"""
    if story.history is None or story.tenant.kind in ("fading", "reckless", "hasty"):
        return
    shown, last = set(), {}
    for event in story.events:
        if event["kind"] == "Activated" or (event["kind"] == "Decided" and event["body"].get("active", True)):
            shown.add(event["decision"])
        elif event["kind"] in (*REWARDS, "TimedOut") and event["body"]["reward"] is not None:
            last[event["decision"]] = event["body"]["reward"]
    expected = sum(reward for number, reward in last.items() if number in shown)
    total = sum(row["total"] for row in story.history)
    if abs(total - expected) > 1e-6 * max(1.0, abs(expected)):
        yield f"rewards in the history add up to {total:g}, those in the log to {expected:g}"


def windows_end(story: Story, over: float) -> Wrong:
    """a decision is closed when its window has ended, also after a clock was wrong"""
    if story.tenant.kind != "hasty":
        return
    closed = {event["decision"] for event in story.events if event["kind"] in (*CLOSED, "Activated")}
    for part in story.made():
        shown = story.decided.get(part.answer["id"], {"body": {"active": False}})["body"].get("active", True)
        old = part.of.ended < over
        if shown and old and part.answer["id"] not in closed and not story.trouble.clock_was_wrong(part.of):
            waited = time.monotonic() - part.of.ended
            yield f"{part.answer['id']} still waits, {waited:.0f} s after it was made", part.of


CHECKS = (
    numbers_have_no_gaps, acknowledged_decisions_are_kept, decisions_are_made_once, decisions_were_asked_for,
    repeated_requests_get_the_same_decision, decisions_are_as_requested, changes_are_obeyed,
    rewards_are_those_that_were_told, repeated_rewards_get_the_same_answer, arms_are_told_once, closings_are_kept,
    windows_do_not_end_early, detail_is_that_of_the_log, history_is_that_of_the_log,
)  # fmt: skip


def _history(sender: Sender, events: Sequence[Json], seconds: float = 20.0) -> list[Json] | None:
    """Return the history that a server shows which has read all events and no more; None if there is none."""
    at, path, secret = sender.replica(), sender.tenant.path, sender.tenant.manage
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        detail = sender.send("detail", "GET", path(), secret=secret, replica=at, expects=(200,))
        if detail.done and events and detail.answer["seq"] >= events[-1]["seq"]:
            past = sender.send("history", "GET", path("history"), secret=secret, replica=at, expects=(200,))
            again = sender.send("detail", "GET", path(), secret=secret, replica=at, expects=(200,))
            same = past.done and again.done and again.answer["seq"] == events[-1]["seq"]
            return past.answer["history"] if same else None
        time.sleep(0.2)
    if not sender.diary.trouble.during(at, began, time.monotonic()):
        words = f"server {at} has not read event {events[-1]['seq'] if events else 0} after {seconds:g} s"
        sender.diary.findings.add("a server reads what others have written", words, sender.tenant.name)
    return None


def check_life(sender: Sender, over: float | None = None) -> bool:
    """Check the log of a tenant's bandit, while nobody writes to it; say whether it could be read."""
    tenant, life, findings = sender.tenant, sender.tenant.life, sender.diary.findings
    if "everything" in life.unsure:
        return False
    detail = sender.send("detail", "GET", tenant.path(), secret=tenant.manage, expects=(200,))
    rest = read_log(sender, after=life.archive[-1]["seq"] if life.archive else 0)
    if not detail.done or rest is None:
        return False
    known = {event["seq"] for event in life.archive}
    events = life.archive + [event for event in rest if event["seq"] not in known]
    story = Story(tenant, life, events, detail.answer, _history(sender, events), sender.diary.trouble)
    checks = [(check, check(story)) for check in CHECKS]
    if over is not None:
        checks.append((windows_end, windows_end(story, over)))
    for check, found in checks:
        for one in found:
            words, of = one if isinstance(one, tuple) else (one, None)
            findings.add(check.__doc__ or "", words, tenant.name, of)
    return True
