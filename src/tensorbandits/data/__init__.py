"""Data: event logs as spaces and ledgers, open data sets, and what a log says of its own rank."""

from tensorbandits.data.cleaning import clean_label
from tensorbandits.data.file import read_log
from tensorbandits.data.log import Log, from_log
from tensorbandits.data.open_data import FLIGHTS_MIN_COUNT, FLIGHTS_SHRINKAGE, bikes, flights
from tensorbandits.data.profile import Profile, profile

__all__ = [
    "FLIGHTS_MIN_COUNT",
    "FLIGHTS_SHRINKAGE",
    "Log",
    "Profile",
    "bikes",
    "clean_label",
    "flights",
    "from_log",
    "profile",
    "read_log",
]
