"""The rank and reward interface: actions are levels, features are labels, events are decisions."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorbandits import Numeric, Space
from tensorbandits.service.http import examples
from tensorbandits.service.http.access import ACCESS
from tensorbandits.service.http.ranking import context_of
from tests.service.calls import placed
from tests.service.served import until

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "video"]}
FEATURES = [{"user": {"segment": "new", "age": 34}}, {"weekday": "Tuesday"}]
ACTIONS = [{"id": "a", "features": [{"kind": "text"}]}, {"id": "b"}, {"id": "video"}]
RANK, EVENTS, CONFIGURATION = (f"/personalizer/v1.0/{part}" for part in ("rank", "events", "configurations/service"))


def made(service, modes=MODES, **settings):
    return service.create(modes=modes, **{"reward": "bernoulli", "window": "10 min", "default": 0} | settings)


def rank(bandit, status=201, **more):
    return bandit.post(RANK, {"contextFeatures": FEATURES, "actions": ACTIONS} | more, status=status)


def told(bandit, event, value, status=204):
    answer = bandit.send("POST", f"{EVENTS}/{event}/reward", json={"value": value})
    assert answer.status_code == status, answer.text
    return answer


def configured(bandit, **given):
    answer = bandit.send("PUT", CONFIGURATION, json=given)
    assert answer.status_code == 200, answer.text
    assert bandit.send("GET", CONFIGURATION).json() == answer.json() | {"ignored": []}
    return answer.json()


def test_an_action_is_ranked_with_exact_probabilities_and_rewarded(service):
    bandit = made(service, floors=0.3, holdout=0.2)
    answer = rank(bandit, eventId="one", excludedActions=["video"])
    first, *others = answer["ranking"]
    decision = bandit.look_up("one")
    assert (answer["eventId"], first["id"]) == ("one", answer["rewardActionId"])
    assert decision["arm"] == {"offer": first["id"]}
    assert decision["context"] == {"segment": "new"}
    assert first["probability"] == decision["propensity"]
    assert sum(one["probability"] for one in answer["ranking"]) == pytest.approx(1.0)
    assert others[-1] == {"id": "video", "probability": 0.0}
    assert answer["ignored"] == {"contextFeatures": ["user.age", "weekday"], "actionFeatures": 1}
    told(bandit, "one", 1)
    assert bandit.look_up("one")["reward"] == 1.0


def test_the_same_event_is_answered_alike_and_another_one_is_refused(service):
    bandit = made(service)
    before = rank(bandit, eventId="one")
    again = rank(bandit, eventId="one")
    assert again["rewardActionId"] == before["rewardActionId"]
    assert again["ranking"][0] == before["ranking"][0]
    assert {one["probability"] for one in again["ranking"][1:]} == {None}  # which nobody has kept
    other = {"contextFeatures": [{"segment": "old"}], "actions": ACTIONS, "eventId": "one"}
    assert "used for another request" in bandit.refused(RANK, other, 409, "key_reused")
    assert bandit.kinds() == ["Created", "Decided"]


def test_what_is_not_activated_is_no_zero_and_teaches_nothing(service):
    bandit = made(service, window="1 s")
    rank(bandit, eventId="hidden", deferActivation=True)
    rank(bandit, eventId="late", deferActivation=True)
    rank(bandit, eventId="shown")
    message = bandit.refused(f"{EVENTS}/hidden/reward", {"value": 1}, 409, "inactive_decision")
    assert "activate it first" in message
    until(lambda: bandit.look_up("shown")["status"] == "timed out")
    assert [bandit.look_up(one)["reward"] for one in ("shown", "hidden")] == [0.0, None]
    assert bandit.look_up("hidden")["status"] == "inactive"
    for _ in range(2):
        assert bandit.send("POST", f"{EVENTS}/late/activate").status_code == 204
    told(bandit, "late", 1)
    told(bandit, "shown", 1)  # late, and counts in the place of the default
    until(lambda: bandit.core.policy.ledger.rounds == 2)
    assert bandit.detail()["rewards"] == 2
    assert bandit.look_up("hidden")["reward"] is None


def test_the_earliest_reward_counts_or_all_add_up(service):
    earliest, summed = made(service, reward="gaussian"), made(service, reward="gaussian", adds=True)
    for bandit in (earliest, summed):
        rank(bandit, eventId="one")
        told(bandit, "one", 0.75)
        told(bandit, "one", -0.5)
    assert [bandit.look_up("one")["reward"] for bandit in (earliest, summed)] == [0.75, 0.25]
    assert configured(summed)["rewardAggregation"] == "sum"
    assert 'made with "adds": true' in refused(summed, {"rewardAggregation": "earliest"})
    key = {"Idempotency-Key": "once"}
    for _ in range(2):
        summed.service.http.post(f"/v1/bandits/{summed.name}{EVENTS}/one/reward", json={"value": 0.5}, headers=key)
    assert summed.look_up("one")["reward"] == 0.75


def refused(bandit, body, path=CONFIGURATION, method="PUT"):
    return bandit.refused(path, body, 422, "invalid", method=method)


def test_new_actions_are_refused_or_become_levels_up_to_a_limit(service):
    bandit, many = made(service), [{"id": f"new-{at}"} for at in range(3)]
    body = {"contextFeatures": FEATURES, "actions": [*ACTIONS, many[0]]}
    assert "'new-0' is no level of mode 'offer'" in bandit.refused(RANK, body, 422, "invalid")
    rank(bandit, actions=[*ACTIONS, {"id": "off"}], excludedActions=["off"])  # which need not be known
    assert configured(bandit, newActions=5)["newActions"] == 5
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: rank(bandit, actions=[*ACTIONS, *many[:2]]), range(8)))
    assert [one["label"] for one in bandit.detail()["levels"]["offer"]] == ["a", "b", "video", "new-0", "new-1"]
    assert bandit.kinds().count("LevelAdded") == 2
    message = bandit.refused(RANK, body | {"actions": many}, 422, "invalid")
    assert "has 5 levels already" in message
    assert configured(bandit, newActions=None)["newActions"] is None
    bandit.post("/levels/retire", {"mode": "offer", "label": "new-1"})
    retired = rank(bandit, actions=[*ACTIONS, *many[:2]])["ranking"]
    assert {one["id"]: one["probability"] for one in retired}["new-1"] == 0.0


def test_the_first_action_is_played_while_the_bandit_is_an_apprentice(service):
    bandit = made(service)
    assert configured(bandit, learningMode="Apprentice")["learningMode"] == "Apprentice"
    answer = rank(bandit, eventId="one", excludedActions=["a"])
    assert answer["ranking"][0] == {"id": "b", "probability": 1.0}
    assert bandit.look_up("one")["by"] == "caller"
    assert rank(bandit, eventId="one", excludedActions=["a"])["ranking"][0] == {"id": "b", "probability": None}
    bandit.patch(rollout=0.5)
    mixed = {one["id"]: one["probability"] for one in rank(bandit)["ranking"]}
    assert sum(mixed.values()) == pytest.approx(1.0)
    assert mixed["a"] >= 0.5
    bandit.patch(paused=True)
    assert [one["probability"] for one in rank(bandit)["ranking"]] == [1.0, 0.0, 0.0]
    configured(bandit, learningMode="Online")
    assert [one["probability"] for one in rank(bandit)["ranking"]] == pytest.approx([1 / 3] * 3)  # the baseline's


def test_the_configuration_is_the_settings_of_the_bandit(service):
    bandit = made(service)
    given = examples.RANK_BODIES["change_rank_configuration"]["as it was there"]
    found = configured(bandit, **given, logRetentionDays=90)
    assert found == given | {"newActions": None, "ignored": ["logRetentionDays"]}
    assert (bandit.detail()["settings"]["window"], bandit.detail()["settings"]["floors"]) == ("600 s", 0.2)
    for wrong in (
        {"rewardWaitTime": "10 min"},
        {"rewardWaitTime": "PT"},
        {"explorationPercentage": 2},
        {"learningMode": "LoggingOnly"},
        {"newActions": 0},
        {"defaultReward": 0.5},  # which is no click
        {"exploration": 0.1},
    ):
        refused(bandit, wrong)
    assert bandit.kinds().count("Changed") == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"actions": []}, "actions"),
        ({"actions": [{"id": ""}]}, "actions[0].id"),
        ({"actions": [{"id": "a"}, {"id": "a"}]}, "'a' twice"),
        ({"actions": [{"name": "a"}]}, "actions[0]"),
        ({"excludedActions": ["a", "b", "video"]}, "all actions are excluded"),
        ({"eventId": ""}, "eventId"),
        ({"deferActivation": "yes"}, "deferActivation"),
        ({"contextFeatures": []}, "no feature named 'segment'"),
        ({"contextFeatures": [{"segment": "nwe"}]}, "did you mean 'new'"),
        ({"contextFeatures": [{"segment": ["new"]}]}, "a list is no label"),
        ({"contextFeatures": [{"x": {"segment": "new"}}, {"y": {"segment": "old"}}]}, "several values"),
        ({"contextFeatures": {"segment": "new"}}, "contextFeatures"),
        ({"context": {"segment": "new"}}, "context"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(service, wrong, words):
    bandit = made(service)
    body = {"contextFeatures": FEATURES, "actions": ACTIONS} | wrong
    assert words in bandit.refused(RANK, body, 422, "invalid")
    assert bandit.kinds() == ["Created"]


def test_wrong_rewards_are_refused(service):
    bandit = made(service)
    rank(bandit, eventId="one")
    for value in (2, -1.5, 0.5, "1", None, True):
        refused(bandit, {"value": value}, f"{EVENTS}/one/reward", "POST")
    bandit.refused(f"{EVENTS}/none/reward", {"value": 1}, 404, "unknown_decision")
    bandit.refused(f"{EVENTS}/none/activate", None, 404, "unknown_decision")
    assert bandit.kinds() == ["Created", "Decided"]


def test_a_bandit_of_several_decided_modes_ranks_nothing(service):
    bandit = service.create()
    body = {"contextFeatures": FEATURES, "actions": ACTIONS}
    assert "decides offer and channel" in bandit.refused(RANK, body, 422, "invalid")


def test_values_are_labels_by_their_text():
    space = Space({"hour": [1, 2], "logged_in": [True, False], "place": ["home", "other"], "offer": ["a"]}, [0, 1, 2])
    found = {"hour": 2, "logged_in": True, "place": "other"}
    assert context_of(space, [{"hour": 2.0, "logged_in": True}, {"place": "bus"}]) == (found, [])
    assert context_of(space, [{"x": {"hour": "2", "logged_in": "true", "city": None}}, {"place": ["a"]}]) == (found, [])
    by_name = context_of(space, [{"hour": 2, "x": {"hour": 1}, "logged_in": True}])  # the whole name goes before a part
    assert by_name == (found, ["x.hour"])


def test_every_example_works(service):
    bandit = made(service)
    for name, bodies in examples.RANK_BODIES.items():
        path = ACCESS[name].path.format(name=bandit.name, id="visit-4711")
        for body in bodies.values():
            answer = service.http.request(ACCESS[name].method, path, json=body)
            assert answer.is_success, answer.text


def test_a_key_may_come_in_the_header_of_that_services_libraries():
    with placed() as place:
        key = place.key("read")
        for given, status in ((key, 200), (key[:-1], 401)):
            header = {"headers": {"Ocp-Apim-Subscription-Key": given}}
            assert place.call("GET", "/v1/me", **header).status_code == status


def test_features_are_numbers_where_the_context_is():
    space = Space({"age": Numeric(cuts=[18, 30, 65]), "offer": ["a", "b"]}, ["age"])
    for features, age in (
        ([{"user": {"age": 34}}], 34),
        ([{"plan": "free"}], None),
        ([{"age": "age missing"}], "age missing"),
    ):
        context, _ = context_of(space, features)
        assert context == {"age": age}
        space.given(context)
    with pytest.raises(ValueError, match="several values for the number 'age'"):
        context_of(space, [{"user": {"age": 34}}, {"mother": {"age": 60}}])
