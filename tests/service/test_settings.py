import dataclasses

import pytest

from tensorbandits.service.checkup import checked
from tensorbandits.service.settings import MEBIBYTE, Settings, check_exposed, is_loopback
from tensorbandits.store import Store
from tensorbandits.store.errors import StoreError


def test_arguments_win_over_variables_and_variables_over_defaults():
    settings = Settings.read({"TENSORBANDITS_PORT": "9000", "TENSORBANDITS_HOST": "::1"}, port=9001)
    assert (settings.port, settings.host, settings.workers) == (9001, "::1", 1)


def test_defaults_are_safe():
    settings = Settings.read({})
    assert is_loopback(settings.host)
    assert settings.body_limit == 8 * MEBIBYTE
    assert settings.import_limit > settings.body_limit
    assert settings.rate > 0
    assert settings.proxy == ""


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("body_limit", "512k", 524_288),
        ("body_limit", "2 MiB", 2 * MEBIBYTE),
        ("rate", "0", 0.0),
        ("demo", "yes", True),
        ("demo", "off", False),
        ("log_level", "WARNING", "warning"),
        ("proxy", "10.0.0.7, 192.168.0.0/16,", "10.0.0.7,192.168.0.0/16"),
        ("snapshot_interval", "1.5", 1.5),
        ("store", " data.db ", "data.db"),
    ],
)
def test_variables_are_read(name, text, value):
    assert getattr(Settings.read({f"TENSORBANDITS_{name.upper()}": text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("port", "http", "give a whole number from 0 to 65535"),
        ("port", "70000", "give a whole number from 0 to 65535"),
        ("workers", "0", "from 1 to 256"),
        ("body_limit", "8 parsec", "give a number of bytes"),
        ("body_limit", "12", "give a number of bytes"),
        ("import_rows", "0", "from 1 to 1000000000"),
        ("idle_seconds", "0", "of at least 0.1 and at most 86400"),
        ("connections", "0", "from 1 to 1000000"),
        ("rate", "-1", "give a number of at least 0"),
        ("rate", "nan", "give a number of at least 0"),
        ("rate", "inf", "give a number of at least 0"),
        ("learning_share", "0", "above 0 and at most 1"),
        ("learning_share", "2", "above 0 and at most 1"),
        ("log_format", "xml", "give one of json, console"),
        ("demo", "perhaps", "give yes or no"),
        ("proxy", "my.proxy", "give addresses or networks"),
    ],
)
def test_a_wrong_variable_or_argument_is_named(name, text, words):
    with pytest.raises(ValueError, match=f"the environment variable TENSORBANDITS_{name.upper()} is .*{words}"):
        Settings.read({f"TENSORBANDITS_{name.upper()}": text})
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} is .*{words}"):
        Settings.read({}, **{name: text})
    with pytest.raises(ValueError, match=f"^{name} is .*{words}"):
        Settings(**{name: text})


def test_limits_go_together():
    with pytest.raises(ValueError, match="--import-limit is 1048576, below body_limit"):
        Settings.read({}, import_limit="1 MiB")


def test_an_unknown_argument_is_refused():
    with pytest.raises(TypeError, match="no setting 'colour'"):
        Settings.read({}, colour="blue")


def test_settings_cannot_change_and_do_not_show_a_password():
    settings = Settings(store="postgresql://me:hunter2@db/bandits")
    assert "hunter2" not in repr(settings)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1
    with pytest.raises(ValueError, match="store is ' '") as caught:
        Settings(store=" ")
    assert "hunter2" not in str(caught.value)


def test_other_processes_read_the_same():
    settings = Settings(
        store="postgresql://me:x@db/b", workers=4, rate=0, demo=True, proxy="10.0.0.1", log_format="console"
    )
    assert Settings.read(settings.environment()) == settings


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
        ("", False),
    ],
)
def test_only_loopback_goes_without_keys(host, alone):
    assert is_loopback(host) is alone
    check_exposed(host, has_keys=True)
    if alone:
        check_exposed(host, has_keys=False)
    else:
        with pytest.raises(ValueError, match="tensorbandits keys add NAME --role admin"):
            check_exposed(host, has_keys=False)


def test_the_address_is_one_that_a_browser_can_open():
    assert Settings(host="0.0.0.0", port=80).address == "http://127.0.0.1:80"
    assert Settings(host="::").address == "http://[::1]:8000"


@pytest.fixture
def config(tmp_path):
    """Write a file of settings."""

    def write(text):
        place = tmp_path / "service.toml"
        place.write_text(text, encoding="utf-8")
        return str(place)

    return write


def test_a_file_goes_behind_variables_and_these_behind_arguments(config):
    place = config('port = 9000\nhost = "::1"\nworkers = 2\norigins = ["https://a.example", "http://localhost:5173/"]')
    variables = {"TENSORBANDITS_CONFIG": place, "TENSORBANDITS_HOST": "localhost"}
    settings, places = Settings.traced(variables, workers=3)
    assert (settings.port, settings.host, settings.workers) == (9000, "localhost", 3)
    assert settings.origins == "https://a.example,http://localhost:5173"
    assert places["port"] == f"port in {place}"
    assert set(places) == {"port", "host", "workers", "origins"}
    assert Settings.read(settings.environment()) == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = http", "is no TOML"),
        ("prot = 9000", "is no setting; did you mean 'port'?"),
        ('port = "http"', "service.toml is 'http'; give a whole number from 0 to 65535"),
        ("[service]\nport = 1", "service in "),
        ("port = 2026-01-01", "give text, a number, true or false, or a list of texts"),
        ('origins = ["shop.example"]', "give origins with commas between them"),
        ('store = "postgresql://me:hunter2@db"\nport = -1', "give a whole number"),
    ],
)
def test_a_wrong_file_is_refused(config, text, words):
    with pytest.raises(ValueError, match=r"service\.toml") as caught:
        Settings.read({}, config(text))
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read"):
        Settings.read({}, "no such file.toml")


def test_a_checkup_says_what_would_be_wrong_and_changes_nothing(tmp_path, config):
    store = tmp_path / "events.db"
    settings, places = Settings.traced({}, config(f'store = "{store}"\nport = 0'))
    lines = list(checked(settings, places))
    assert any(line.startswith("port = 0, from port in ") for line in lines)
    assert lines[-1] == "the store is empty; its tables will be made"
    assert not store.exists()
    with pytest.raises(ValueError, match="other machines can reach"):
        list(checked(dataclasses.replace(settings, host="0.0.0.0"), {}))
    Store.open(store).close()
    assert list(checked(settings, {}))[-1] == "the store is there, and has 0 keys"
    with pytest.raises(StoreError, match="not there, or is read-only"):
        list(checked(dataclasses.replace(settings, store=str(tmp_path / "no" / "events.db")), {}))
