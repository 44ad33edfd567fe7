"""Members of an Enum as labels: in all that takes labels, and in files."""

import enum
import json

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.client import wire
from tensorbandits.space.labels import plain, read, written


class Segment(enum.StrEnum):
    NEW = "new"
    OLD = "old"


class Offer(enum.Enum):
    SPRING = "spring sale"
    VIDEO = "video"
    NOTHING = "nothing"


class Channel(enum.Enum):
    MAIL = enum.auto()
    SMS = enum.auto()


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 10


class Price(float, enum.Enum):
    LOW = 0.5


def made(**settings):
    space = tb.Space({"segment": Segment, "offer": Offer, "channel": list(Channel), "size": Size}, ["segment"])
    return tb.Bandit(space, "ucb", seed=0, **settings)


def test_a_member_stands_for_readable_text_or_for_the_number_that_it_is():
    assert made().space.levels == (("new", "old"), ("spring sale", "video", "nothing"), ("MAIL", "SMS"), (1, 10))
    assert [plain(one) for one in (Offer.VIDEO, Channel.SMS, Size.LARGE, Price.LOW)] == ["video", "SMS", 10, 0.5]
    assert {type(plain(one)) for one in (*Segment, *Offer, *Channel)} == {str}
    assert [type(plain(one)) for one in (Size.LARGE, Price.LOW)] == [int, float]
    for one in (*Segment, *Offer, *Channel, *Size, Price.LOW):
        assert read(json.loads(json.dumps(written(one)))) == plain(one)


def test_members_are_taken_wherever_labels_are(tmp_path):
    bandit = made(
        floors=[({"offer": Offer.VIDEO}, 0.2)],
        holdout=0.1,
        baseline={"offer": Offer.NOTHING, "channel": Channel.SMS, "size": Size.LARGE},
    )
    bandit.space.forbid(offer=Offer.VIDEO, channel=Channel.SMS)
    decision = bandit.ask(segment=Segment.NEW, allowed={"offer": [Offer.SPRING, Offer.NOTHING], "size": [Size.LARGE]})
    assert Offer(decision.arm["offer"]) in (Offer.SPRING, Offer.NOTHING)
    assert Channel[decision.arm["channel"]] in Channel
    assert decision.context == {"segment": "new"}
    assert tb.Decision.from_json(decision.to_json()) == decision
    bandit.tell(decision, 1.0)
    bandit.tell(
        arm={"offer": Offer.VIDEO, "channel": Channel.MAIL, "size": Size.SMALL},
        context={"segment": Segment.OLD},
        reward=2.0,
    )
    assert len(bandit.ask_many([{"segment": one} for one in Segment])) == 2
    log = pa.table({"segment": ["new"], "offer": ["video"], "channel": ["MAIL"], "paid": [1.0]})
    assert bandit.tell_log(log, "paid", fixed={"size": Size.SMALL}).rewards == 1

    class Later(enum.Enum):
        SUMMER = "summer"

    bandit.add_level("offer", Later.SUMMER, like=Offer.SPRING)
    bandit.retire_level("offer", Later.SUMMER)
    bandit.change(baseline={"offer": Offer.SPRING, "channel": Channel.MAIL, "size": Size.LARGE})
    assert bandit.space.retired == {"offer": ["summer"]}
    bandit.save(tmp_path / "bandit.safetensors")
    assert b"spring sale" in (tmp_path / "bandit.safetensors").read_bytes()
    again = tb.Bandit.load(tmp_path / "bandit.safetensors")
    assert again.space.levels == bandit.space.levels
    assert again.best(segment=Segment.OLD) == bandit.best(segment=Segment.OLD)


def test_the_client_writes_what_members_stand_for():
    merged = wire.merged({"segment": Segment.NEW, "channel": Channel.SMS}, {"size": Size.LARGE})
    assert json.loads(json.dumps(merged)) == {"segment": "new", "channel": "SMS", "size": 10}
    assert wire.listed({"offer": [Offer.SPRING]}) == {"offer": ["spring sale"]}


def test_members_that_are_one_label_and_those_that_are_none():
    class Twin(enum.Enum):
        VIDEO = "video"

    with pytest.raises(ValueError, match="has the level 'video' already"):
        tb.Space({"offer": [*Offer, Twin.VIDEO]})
    with pytest.raises(ValueError, match=r"Channel\.MAIL: 1> is no level of mode 'segment'"):
        made().ask(segment=Channel.MAIL)

    class Mask(enum.Flag):
        A = 1
        B = 2

    assert plain(Mask.A) == "A"
    with pytest.raises(TypeError, match="labels are text, numbers"):
        tb.Space({"offer": [Mask(0)]})
    assert plain(np.float64(0.5)) == 0.5
