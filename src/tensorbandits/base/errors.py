"""The base class of the errors of this package."""

from __future__ import annotations


class TensorbanditsError(Exception):
    """Something that this package refuses or cannot do, for a reason that has a class of its own.

    Each such class also derives from the builtin that says what kind of error it is (``ValueError``, ``LookupError``,
    ``RuntimeError``, ``ConnectionError``), so that either may be caught. Arguments that are wrong in themselves, such
    as a label that the space does not have, raise a plain ``ValueError`` or ``TypeError``.

    >>> from tensorbandits import Bandit, Space
    >>> bandit = Bandit(Space({"offer": ["a", "b"]}), "ucb", seed=0)
    >>> try:
    ...     bandit.tell("nobody", 1.0)
    ... except TensorbanditsError as error:
    ...     print(type(error).__name__, isinstance(error, LookupError))
    UnknownDecisionError True
    """
