"""The join of decisions with their rewards: one definition in SQL, which DuckDB and Spark run alike.

What it means is what the bandit means by its rewards. The first reward of a decision counts; told again it changes
nothing; one that amends takes its place, the last by time. A decision that was logged has the default when its window
has ended; a reward that comes later takes the default's place. A reward whose decision was not logged counts all the
same, and a decision that was not logged never takes the default. An id counts once, in however many files it stands.
"""

from __future__ import annotations

from typing import NamedTuple

from tensorbandits.base.checks import LARGEST_REWARD, SMALLEST_REWARD

_MOST_COUNTED = 1e15  # the largest count that is a reward: not every larger float is a whole number
_KINDS = {  # what rewards of a kind may be besides finite numbers
    "bernoulli": "reward IN (0, 1)",
    "binomial": "reward IN (0, 1)",
    "count": f"reward BETWEEN 0 AND {_MOST_COUNTED:.0f} AND floor(reward) = reward",
    "revenue": "reward >= 0",
}


class Dialect(NamedTuple):
    """What engines say differently.

    ``micros`` is a time in microseconds since 1970, ``level`` the level of a cell's mode, null if there is none,
    ``modes`` how many it has, and ``maker`` the column ``by``, whose name is a word of SQL.
    """

    micros: str
    level: str
    modes: str
    maker: str


class Meaning(NamedTuple):
    """What decisions and rewards of a bandit mean.

    ``window`` is in microseconds, ``None`` for one that never ends; ``reward`` is the kind of rewards, ``None`` for any
    numbers.
    """

    modes: int
    window: int | None
    default: float | None
    reward: str | None


def join_sql(meaning: Meaning, dialect: Dialect, now: int) -> str:
    """Return the query that joins the tables ``decisions`` and ``rewards`` as they are at a time, in microseconds.

    Both have the columns of the records, and ``hour``, the folder that a row lies in. Of each hour it returns one row
    for each cell, maker (``side``) and reward: how many decisions there are of it (``ids``), whether they were
    ``logged`` and ``told``, when the first of them was decided (``first_at``), and how many rows tell of them:
    ``decided_rows`` and ``told_rows``. ``reward`` is null while none is known.
    """
    levels = [f"c{mode}" for mode in range(meaning.modes)]
    cell = ", ".join(levels)
    one_cell = ", ".join(f"min({level}) AS {level}" for level in levels)
    either_cell = ", ".join(f"coalesce(made.{level}, said.{level}) AS {level}" for level in levels)
    read = ", ".join(f"{dialect.level.format(mode=mode)} AS c{mode}" for mode in range(meaning.modes))
    ended = "FALSE" if meaning.window is None else f"made.moment + {meaning.window} < {now}"
    default = "NULL" if meaning.default is None else f"CASE WHEN {ended} THEN {_number(meaning.default)} END"
    return f"""
WITH told AS (
  SELECT hour, id, amend, moment,
    CASE WHEN amend THEN max(reward) ELSE min(reward) END AS reward,
    min({dialect.maker}) AS side, {one_cell}, count(*) AS told_rows
  FROM (
    SELECT *, {dialect.micros.format(time="time")} AS moment, {read}
    FROM rewards WHERE {_usable_reward(meaning, dialect)}
  ) AS usable
  GROUP BY hour, id, amend, moment
), said AS (
  SELECT hour, id,
    coalesce(max_by(reward, moment) FILTER (WHERE amend), min_by(reward, moment) FILTER (WHERE NOT amend)) AS reward,
    min(side) AS side, {one_cell}, sum(told_rows) AS told_rows
  FROM told GROUP BY hour, id
), made AS (
  SELECT hour, id, min({dialect.micros.format(time="time")}) AS moment, min({dialect.maker}) AS side, {one_cell},
    count(*) AS decided_rows
  FROM (SELECT *, {read} FROM decisions WHERE {_usable_decision(meaning, dialect)}) AS usable
  GROUP BY hour, id
), joined AS (
  SELECT coalesce(made.hour, said.hour) AS hour, coalesce(made.side, said.side) AS side, {either_cell},
    CASE WHEN said.id IS NOT NULL THEN said.reward ELSE {default} END AS reward,
    made.id IS NOT NULL AS logged, said.id IS NOT NULL AS told, made.moment AS moment,
    coalesce(made.decided_rows, 0) AS decided_rows, coalesce(said.told_rows, 0) AS told_rows
  FROM made FULL OUTER JOIN said ON made.hour = said.hour AND made.id = said.id
)
SELECT hour, side, {cell}, reward, logged, told, min(moment) AS first_at, count(*) AS ids,
  CAST(sum(decided_rows) AS BIGINT) AS decided_rows, CAST(sum(told_rows) AS BIGINT) AS told_rows
FROM joined GROUP BY hour, side, {cell}, reward, logged, told
"""


def unusable_sql(meaning: Meaning, dialect: Dialect) -> str:
    """Return the query that counts, by hour, rows that cannot be used: of decisions, and of rewards."""
    return f"""
SELECT hour, 'decisions' AS kind, count(*) AS many FROM decisions
WHERE NOT ({_usable_decision(meaning, dialect)}) GROUP BY hour
UNION ALL
SELECT hour, 'rewards' AS kind, count(*) AS many FROM rewards
WHERE NOT ({_usable_reward(meaning, dialect)}) GROUP BY hour
"""


def _usable_decision(meaning: Meaning, dialect: Dialect) -> str:
    """The condition of a row that says which decision it is of, and of which cell; never null."""
    known = [f"{column} IS NOT NULL" for column in ("id", "time", dialect.maker)]
    known.append(f"{dialect.modes} = {meaning.modes}")
    known += [f"{dialect.level.format(mode=mode)} >= 0" for mode in range(meaning.modes)]
    return f"coalesce({' AND '.join(known)}, FALSE)"


def _usable_reward(meaning: Meaning, dialect: Dialect) -> str:
    """The condition of a row that also has a reward such as a bandit takes; never null."""
    finite = f"(reward = 0 OR abs(reward) BETWEEN {_number(SMALLEST_REWARD)} AND {_number(LARGEST_REWARD)})"
    kind = _KINDS.get(meaning.reward or "", "TRUE")
    return f"({_usable_decision(meaning, dialect)} AND coalesce(amend IS NOT NULL AND {finite} AND {kind}, FALSE))"


def _number(value: float) -> str:
    """A float as both engines read it, to the last bit."""
    return f"CAST('{value!r}' AS DOUBLE)"
