"""An example of every request and of every answer, for the OpenAPI document; the tests send them all.

They tell one story: of a bandit that chooses offers and channels for segments of customers.
"""

from __future__ import annotations

from typing import Any

_ID, _TIME = "9f2c51ab03d7-0", 1790000000.0
_NEW = {"segment": "new"}
_ARM = {"offer": "a", "channel": "mail"}
_RULE = {"forbid": {"offer": "video", "channel": "sms"}}
_SUMMARY: dict[str, Any] = {
    "name": "offers",
    "modes": {"segment": 2, "offer": 3, "channel": 2},
    "context": ["segment"],
    "policy": "thompson",
    "reward": "bernoulli",
    "apprentice": False,
    "decisions": 1200,
    "rewards": 1170.0,
    "waiting": 30,
    "seq": 2371,
    "created": _TIME,
}
_SETTINGS = {"reward": "bernoulli", "window": "10 min", "default": 0, "holdout": 0.05}
_DETAIL: dict[str, Any] = {
    **_SUMMARY,
    "levels": {
        "segment": [{"label": "new", "retired": False}, {"label": "old", "retired": False}],
        "offer": [{"label": label, "retired": False} for label in ("a", "b", "video")],
        "channel": [{"label": "mail", "retired": False}, {"label": "sms", "retired": False}],
    },
    "rules": [_RULE],
    "rule_shares": [0.1667],
    "settings": _SETTINGS,
}
OFFERS: dict[str, Any] = {
    "name": "offers",
    "modes": {"segment": ["new", "old"], "offer": ["a", "b", "video"], "channel": ["mail", "sms"]},
    "context": ["segment"],
    **_SETTINGS,
    "rules": [_RULE],
}
_MADE = {"propensity": 0.4375, "by": "policy", "time": _TIME}
_DECISION = {"id": _ID, "arm": _ARM, "context": _NEW, **_MADE, "policy": "thompson"}
_KEY = {"id": "7m3k9x2q4a", "name": "web", "role": "decide", "bandits": ["offers"], "created": _TIME, "revoked": None}
_REWARDED = {"id": _ID, "status": "rewarded", "reward": 1.0, "changed": True}
_EFFECT = {"mode": "offer", "level": "a", "effect": 0.31, "low": 0.12, "high": 0.5, "reward": 0.57, "rewards": 410.0}
_BLOCK = {"block": 0, "first": 0, "start": _TIME, "by": "policy", "decisions": 12.0, "rewards": 12.0, "total": 5.0}

_SIDE = {"mean": 0.41, "low": 0.37, "high": 0.45, "decisions": 1140, "rewards": 1111}
_OVERVIEW: dict[str, Any] = {
    **{"kind": "bernoulli", "decisions": 1200, "rewards": 1170, "learned": 1170.0, "pseudo": 0.0, "waiting": 30},
    **{
        "provisional": None,
        "settled": 0.975,
        "to_come": 30,
        "policy": _SIDE,
        "holdout": None,
        "caller": None,
        "uplift": None,
    },
    **{"intervals": "anytime", "lag": None, "first_time": _TIME, "last_time": _TIME, "last_event": None},
    **{"spark": [0.31, 0.36, 0.41], "version": "3.1", "apprentice": False, "rollout": None, "paused": False},
    "needed": 950,
}

_TOKEN = "AWDLg0nm8nJDo1h2CQCqzAjF3d6yMwMAAQI_3AAAAAAAAAGap2kUAV1r1l1m6C5DgkqT3vQd0aE9n4K3l2o2d3s"
_LINES = '{"segment": "new", "offer": "a", "channel": "mail", "click": 1}\n'
_ACTOR = "the shop's web servers"
_STORY = [
    {"seq": 2, "time": _TIME, "kind": "Decided", "actor": _ACTOR, "reward": None},
    {"seq": 3, "time": _TIME, "kind": "Rewarded", "actor": _ACTOR, "reward": 1.0},
]
_CHANGE = {
    **{"number": 4, "time": _TIME, "kind": "Changed", "actor": "Ann", "words": "holdout: from 0.1 to 0.2"},
    "items": [{"what": "holdout", "before": 0.1, "after": 0.2}],
    "undo": {"settings": {"holdout": 0.1}},
}
BODIES: dict[str, dict[str, Any]] = {  # by the name of the route: what it shows, and the body
    "create_bandit": {
        "offers to segments, over channels": OFFERS,
        "of numbers": {
            "name": "ages",
            "modes": {"age": {"numbers": ["age"], "cuts": [18, 30, 45, 65]}, "offer": ["a", "b"]},
            "context": ["age"],
        },
        "an apprentice": {"name": "beside", "modes": {"offer": ["a", "b"], "size": [1, 2, 3]}, "apprentice": True},
    },
    "change_bandit": {
        "more holdout": {"holdout": 0.1},
        "start gradually": {"apprentice": True, "rollout": 0.05},
        "switch an apprentice on": {"apprentice": False},
        "let the baseline decide for now": {"paused": True},
    },
    "ask": {
        "for a new customer": {"context": _NEW},
        "of some channels, with an id": {"context": _NEW, "allowed": {"channel": ["mail"]}, "id": "order-17"},
        "for somebody who may ask to be forgotten": {"context": _NEW, "subject": "customer-4711"},
    },
    "ask_many": {"for two customers": {"requests": [{"context": _NEW}, {"context": {"segment": "old"}}]}},
    "tell": {
        "of a decision": {"id": "order-17", "reward": 1},
        "which was wrong": {"id": "order-17", "reward": 0, "amend": True},
        "of an arm": {"arm": _ARM, "context": _NEW, "reward": 0},
        "of many at once": {"arm": _ARM, "context": _NEW, "reward": 12, "trials": 100},
    },
    "tell_many": {"of two": {"rewards": [{"id": "order-17", "reward": 0}, {"id": _ID, "reward": 1}]}},
    "adopt": {"two of a decider, of which one was altered": {"decisions": [_TOKEN, f"{_TOKEN}A"], "decider": "web-1"}},
    "activate": {"it was shown": {"id": "order-17"}},
    "cancel": {"it was not shown": {"id": "order-18"}},
    "best": {"for a new customer": {"context": _NEW}},
    "explain": {"for a new customer": {"context": _NEW, "level": 0.9, "arms": 3}, "for all": {}},
    "add_level": {"another offer": {"mode": "offer", "label": "summer", "like": "a"}},
    "describe_levels": {
        "all offers": {
            "mode": "offer",
            "levels": [
                {"label": "a", "features": {"price": 9.9, "brand": "Acme"}},
                {"label": "b", "features": {"price": 5, "brand": "Bolt"}},
                {"label": "video", "features": {"price": 7.5, "brand": "Acme"}},
            ],
            "anew": True,
        },
        "another price": {"mode": "offer", "levels": [{"label": "a", "features": {"price": 8.9}}]},
    },
    "import_features": {"a CSV file": "offer,price,brand\na,9.9,Acme\nb,5,Bolt\nvideo,7.5,Acme\n"},
    "retire_level": {"an offer that has ended": {"mode": "offer", "label": "video"}},
    "restore_level": {"an offer that is back": {"mode": "offer", "label": "video"}},
    "split_region": {"at a value": {"mode": "age", "region": "age 30 to 45", "at": 38}},
    "add_rule": {
        "what does not go together": {"forbid": {"segment": "old", "offer": "b"}},
        "what alone is allowed": {"allow": {"segment": "new", "channel": ["mail", "sms"]}},
    },
    "remove_rule": {"as the bandit lists it": _RULE},
    "fold": {"the first events": {"before": 2}},
    "forget": {
        "what would be removed": {"subject": "customer-4711", "why": "the customer asked us to", "dry_run": True},
        "one decision": {"decision": "order-18", "why": "the customer asked us to"},
    },
    "preview_bandit": {"offers, of which one in fifty is clicked": {**OFFERS, "rate": 0.02}},
    "preview_change": {"more holdout": {"settings": {"holdout": 0.1}}, "a rule": {"add_rule": _RULE}},
    "create_key": {"for web servers": {"name": "the shop's web servers", "role": "decide", "bandits": ["offers"]}},
    "import_log": {"a CSV file": "segment,offer,channel,click\nnew,a,mail,1\nold,b,sms,0\n"},
}
ANSWERS: dict[str, Any] = {
    "healthz": {"status": "ok"},
    "readyz": {"status": "ready", "bandits": 3},
    "metrics": "# TYPE tensorbandits_bandits gauge\ntensorbandits_bandits 3.0\n",
    "list_bandits": {"bandits": [_SUMMARY]},
    **{name: _DETAIL for name in ("create_bandit", "get_bandit", "change_bandit", "add_level", "retire_level")},
    **{name: _DETAIL for name in ("describe_levels", "import_features")},
    "export_features": "offer,price,brand\na,9.9,Acme\nb,5.0,\n",
    "get_features": {
        "mode": "offer",
        "features": [
            {"name": "price", "kind": "number", "columns": 1, "missing": 0},
            {"name": "brand", "kind": "category", "columns": 6, "missing": 1},
        ],
        "levels": [
            {"label": "a", "features": {"price": 9.9, "brand": "Acme"}},
            {"label": "b", "features": {"price": 5.0}},
        ],
    },
    **{name: _DETAIL for name in ("restore_level", "split_region", "add_rule", "remove_rule")},
    "ask": _DECISION,
    "ask_many": {"decisions": [_DECISION]},
    "overviews": {"overviews": {"offers": _OVERVIEW}},
    "preview_bandit": {
        **{"combinations": 12, "allowed": 0.8333, "taken": False, "arms": 6, "contexts": 2, "rewards": 7100},
        **{"modes": [{"mode": "offer", "levels": 3, "context": False}], "rate": 0.02, "kind": "bernoulli"},
        **{"policy": "TensorThompsonSampling", "decides": {"policy": 0.95, "holdout": 0.05, "caller": 0.0}},
    },
    "preview_change": {
        **{"kind": "settings", "changes": True},
        "settings": [{"name": "holdout", "before": 0.05, "after": 0.1}],
        "decides": {
            "before": {"policy": 0.95, "holdout": 0.05, "caller": 0.0},
            "after": {"policy": 0.9, "holdout": 0.1, "caller": 0.0},
        },
        "space": {name: {"combinations": 12, "allowed": 0.8333} for name in ("before", "after")},
    },
    "tell": _REWARDED,
    "tell_many": {
        "results": [
            _REWARDED,
            {"error": {"code": "unknown_decision", "message": "no decision has the id 'order-3'; give one that .."}},
        ]
    },
    "adopt": {
        **{"adopted": 1, "known": 0},
        "refused": [{"at": 1, "code": "refused_token", "message": "the token 'AWDL...' was not signed by a key .."}],
    },
    "activate": {**_REWARDED, "status": "open", "reward": None},
    "cancel": {**_REWARDED, "status": "cancelled", "reward": None},
    "get_decision": {**_REWARDED, "changed": False, "arm": _ARM, "context": _NEW, **_MADE, "story": _STORY},
    "best": {"arm": _ARM},
    "explain": {
        "words": "Beliefs from 1,170 rewards, with bounds for 90 % ..",
        "scale": "log-odds",
        "effects": [_EFFECT],
        "interactions": [{"part": "segment × offer", "share": 0.19, "low": 0.1, "high": 0.3}],
        "alike": [],
        "arms": [{"segment": "new", **_ARM, "reward": 0.58, "low": 0.52, "high": 0.64}],
    },
    "diagnose": {
        "words": "'b' of mode 'offer' has moved ..",
        "structure": "Suggested structure: tucker, rank 1 ..",
        "moved": [{"mode": "offer", "label": "b", "ago": 300, "before": 0.3, "after": 0.1}],
    },
    "history": {"history": [{**_BLOCK, "mean": 0.4167, "error": 0.1486}]},
    "list_events": {
        "events": [
            {"seq": 3, "time": _TIME, "kind": "Rewarded", "decision": _ID, "actor": _ACTOR, "body": {"reward": 1.0}}
        ]
    },
    "list_changes": {"changes": [_CHANGE], "total": 1, "next": None, "actors": ["Ann"], "since": 0, "lost": 0},
    "export_changes": "number,time,kind,actor,what,before,after\n4,2026-01-01T00:00:00Z,Changed,Ann,holdout,0.1,0.2\n",
    "import_log": {"rewards": 2.0, "cells": 2, "rows": 2, "added": {}, "skipped": {}, "changed": True},
    "stream": 'event: change\nid: 1\ndata: {"number": 1, "kind": "Created", "actor": "web"}\n\n',
    "fold": {"folded": 2, "base": 2},
    "forget": {"decisions": 1, "events": 2, "cancelled": 0, "dry_run": False},
    "view_health": {"numbers": {"events": 2371, "open_decisions": 30}},
    "me": {"role": "decide", "bandits": ["offers"], "name": "web", "open": False, "version": "1.0.0"},
    "list_keys": {"keys": [_KEY]},
    "create_key": {**_KEY, "key": f"tb_{_KEY['id']}_{'x' * 43}"},
}

_EXCLUDED = {"actions": [{"id": "a"}, {"id": "b"}, {"id": "video"}], "excludedActions": ["video"]}
RANK_BODIES: dict[str, dict[str, Any]] = {  # of the rank and reward interface, of a bandit that decides the offer alone
    "rank": {
        "for a new customer": {
            "eventId": "visit-4711",
            "contextFeatures": [{"user": {"segment": "new", "age": 34}}, {"weekday": "Tuesday"}],
            "actions": [{"id": "a", "features": [{"kind": "text"}]}, {"id": "b"}, {"id": "video"}],
        },
        "which may not be shown": {"contextFeatures": [{"segment": "old"}], **_EXCLUDED, "deferActivation": True},
    },
    "rank_reward": {"a click": {"value": 1}},
    "change_rank_configuration": {
        "as it was there": {
            "rewardWaitTime": "PT10M",
            "defaultReward": 0,
            "rewardAggregation": "earliest",
            "explorationPercentage": 0.2,
            "learningMode": "Online",
        },
        "new actions become levels": {"newActions": 50},
    },
}
RANK_ANSWERS: dict[str, Any] = {
    "rank": {
        "eventId": "visit-4711",
        "rewardActionId": "b",
        "ranking": [
            {"id": "b", "probability": 0.5},
            {"id": "video", "probability": 0.375},
            {"id": "a", "probability": 0.125},
        ],
        "ignored": {"contextFeatures": ["user.age", "weekday"], "actionFeatures": 1},
    },
    "rank_configuration": {
        "rewardWaitTime": "PT10M",
        "defaultReward": 0.0,
        "rewardAggregation": "earliest",
        "explorationPercentage": 0.2,
        "learningMode": "Online",
        "newActions": None,
        "ignored": [],
    },
}
RANK_ANSWERS["change_rank_configuration"] = RANK_ANSWERS["rank_configuration"]
BODIES |= RANK_BODIES
ANSWERS |= RANK_ANSWERS


def add(document: dict[str, Any]) -> dict[str, Any]:
    """Put the examples into an OpenAPI document, and return it."""
    for methods in document["paths"].values():
        for operation in methods.values():
            name = operation["operationId"]
            shown = {what: {"value": body} for what, body in BODIES.get(name, {}).items()}
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                if shown and kind in ("application/json", "text/csv"):
                    content["examples"] = shown
                elif kind == "application/x-ndjson":
                    content["examples"] = {"JSON lines": {"value": _LINES}}
            for status in ("200", "201"):
                for content in operation["responses"].get(status, {}).get("content", {}).values():
                    if name in ANSWERS:
                        content["example"] = ANSWERS[name]
    return document
