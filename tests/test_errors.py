"""One base class of all errors, which are builtins too; and a log that says what goes on."""

import ast
import logging
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbandits as tb
from tensorbandits.bandit import book, published
from tensorbandits.client import errors as client_errors
from tensorbandits.decider import decider, following, sending, tokens
from tensorbandits.store import errors as store_errors

BUILTIN = (ValueError, LookupError, RuntimeError, ConnectionError)


def test_every_error_class_has_the_base_class_and_a_builtin():
    source = Path(tb.__file__).parent
    found = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for file in source.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and not node.name.startswith("_")
    }
    for name, bases in found.items():
        assert name == "TensorbanditsError" or bases[0] == "TensorbanditsError" or bases[0] in found, name
    for module in (book, published, client_errors, store_errors, decider, following, sending, tokens):
        ours = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
        errors = [one for one in ours if issubclass(one, Exception)]
        assert errors
        assert all(issubclass(one, tb.TensorbanditsError) and issubclass(one, BUILTIN) for one in errors)


def test_errors_are_caught_as_what_they_were_and_survive_pickle():
    bandit = tb.Bandit(tb.Space({"offer": ["a", "b"]}), "ucb", seed=0)
    decision = bandit.ask()
    bandit.tell(decision, 1.0)
    caught = []
    for kind in (tb.TensorbanditsError, ValueError, book.ClosedDecisionError):
        with pytest.raises(kind, match="has the reward 1 already") as raised:
            bandit.tell(decision, 2.0)
        caught.append(raised.value)
    again = pickle.loads(pickle.dumps(caught[0]))
    assert (type(again), str(again)) == (book.ClosedDecisionError, str(caught[0]))
    away = client_errors.ServerAwayError("no answer", reached=True)
    assert isinstance(away, OSError)
    assert away.reached
    with pytest.raises(ValueError, match="'c'") as raised:  # a wrong argument is a plain builtin
        bandit.tell(arm={"offer": "c"}, reward=1.0)
    assert not isinstance(raised.value, tb.TensorbanditsError)


def test_the_log_says_what_is_learned_and_what_expires(caplog):
    now = [0.0]
    settings = {"window": "1 min", "default": 0.0, "clock": lambda: now[0], "seed": 0}
    bandit = tb.Bandit(tb.Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}), "ucb", **settings)
    with caplog.at_level(logging.DEBUG, logger="tensorbandits"):
        bandit.ask_many(3)
        now[0] = 100.0
        bandit.expire()
        bandit.ask()
    assert ("tensorbandits.decisions", "3 decisions expired without a reward, and each is told 0") in [
        (record.name, record.getMessage()) for record in caplog.records
    ]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="tensorbandits"):
        sampling = tb.Bandit(tb.Space({"offer": ["a", "b"], "channel": ["mail", "sms"]}), seed=0)
        sampling.tell(sampling.ask(), 1.0)
        sampling.ask()
    learned = [record for record in caplog.records if record.name == "tensorbandits.learn"]
    assert any("learned 1 lessons" in record.getMessage() for record in learned)
    assert all(record.levelno == logging.DEBUG for record in learned)


def test_learning_that_fails_in_the_background_is_logged_once(caplog):
    def fails(ledger, rng):
        raise RuntimeError("no more numbers")

    space = tb.Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
    bandit = tb.Bandit(space, tb.ApproximateThompsonSampling(space.shape, fails, seed=0), learning="thread", seed=0)
    with caplog.at_level(logging.INFO, logger="tensorbandits"):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no more numbers"):
                bandit.ask()
    (record,) = [record for record in caplog.records if record.name == "tensorbandits.learn"]
    assert "learning in the background failed" in record.getMessage()
    assert record.exc_info


def test_nothing_is_printed_unless_somebody_listens():
    code = """
import logging, sys
import tensorbandits as tb
b = tb.Bandit(tb.Space({'o': ['a', 'b'], 'c': ['d', 'e']}), 'ucb', window=1, default=0, seed=0)
if sys.argv[1:]: logging.basicConfig(level=logging.DEBUG)
b.ask_many(4)
"""
    run = [sys.executable, "-c", code]
    quiet, loud = (subprocess.run([*run, *more], capture_output=True, text=True, check=True) for more in ((), ("x",)))
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert "DEBUG:tensorbandits.decisions:1 decisions expired without a reward" in loud.stderr
