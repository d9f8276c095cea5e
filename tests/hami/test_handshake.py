"""Tests of the signs of life of device plugins."""

import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import handshake
from hami.annotations import Backend
from hami.handshake import Health, Kind, NvidiaSeen, Stamp
from tests.hami.codecs import ALL, BY_WORD, NVIDIA, TIMES

NOW = datetime(2026, 8, 21, 10, 0, 0, tzinfo=UTC)
SHANGHAI, LOS_ANGELES = timezone(timedelta(hours=8)), timezone(timedelta(hours=-7))
YES, NO = Health(healthy=True, needs_update=False), Health(healthy=False, needs_update=False)
ANEW = Health(healthy=True, needs_update=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, Stamp(kind=Kind.ABSENT)),
        ("", Stamp(kind=Kind.ABSENT)),
        ("Requesting_2026-08-21 10:00:00", Stamp(kind=Kind.REQUESTING, at=NOW)),
        ("Requesting_2026.08.21 10:00:00", Stamp(kind=Kind.REQUESTING, at=NOW, is_dotted=True)),
        ("Requesting_2026.08-21 10:00:00", Stamp(kind=Kind.REQUESTING)),
        ("Requesting", Stamp(kind=Kind.REQUESTING)),
        ("Requesting_yesterday", Stamp(kind=Kind.REQUESTING)),
        ("Requesting_2026-02-30 10:00:00", Stamp(kind=Kind.REQUESTING)),
        ("Requesting_2026-08-21 10:00:00 +0000 UTC", Stamp(kind=Kind.REQUESTING)),
        ("Reported 2026-08-21 10:00:00", Stamp(kind=Kind.REPORTED, at=NOW)),
        (
            "Requesting_0001-01-01 00:00:00",
            Stamp(kind=Kind.REQUESTING, at=datetime.min.replace(tzinfo=UTC)),
        ),
        ("Deleted_2026-08-21 10:00:00", Stamp(kind=Kind.DELETED, at=NOW)),
        ("Deleted_2026.08.21 10:00:00", Stamp(kind=Kind.DELETED, at=NOW, is_dotted=True)),
        (
            "Reported 2026-08-21 10:00:00.434037031 +0000 UTC m=+1104711.777756895",
            Stamp(kind=Kind.REPORTED, at=NOW),
        ),
        ("Reported 2026-08-21 18:00:00.4 +0800 CST m=+17.7", Stamp(kind=Kind.REPORTED, at=NOW)),
        ("Reported 2026-08-21 03:00:00 -0700 -07", Stamp(kind=Kind.REPORTED, at=NOW)),
        ("Reported", Stamp(kind=Kind.REPORTED)),
        ("Unknown", Stamp(kind=Kind.OTHER)),
    ],
)
def test_stamps_of_all_times(value: str | None, expected: Stamp) -> None:
    """What cannot be read as a time is none, and nothing is raised."""
    assert handshake.read(value, zone=UTC) == expected


@pytest.mark.parametrize("zone", [UTC, SHANGHAI, LOS_ANGELES])
def test_a_question_names_no_zone(zone: tzinfo) -> None:
    """It is local, so who shares the zone reads the time as it was."""
    stamp = handshake.read(handshake.requesting(NOW, zone=zone), zone=zone)
    assert stamp == Stamp(kind=Kind.REQUESTING, at=NOW)
    assert handshake.requesting(NOW, zone=SHANGHAI) == "Requesting_2026-08-21 18:00:00"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("UTC", "Requesting_2026-08-21 10:00:00"),
        ("XXX-8", "Requesting_2026-08-21 18:00:00"),
        ("XXX7", "Requesting_2026-08-21 03:00:00"),
    ],
)
def test_the_zone_of_the_process(name: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts where none is given, and a report names its own."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", name)
        time.tzset()
        assert handshake.requesting(NOW) == written
        assert handshake.read(written).at == NOW
        assert handshake.read("Reported 2026-08-21 10:00:00 +0000 UTC").at == NOW
        assert handshake.health(written, NOW + timedelta(seconds=59), 0) == YES
        assert handshake.health(written, NOW + timedelta(seconds=60), 0) == NO
        assert handshake.read("Requesting_0001-01-01 00:00:00").kind is Kind.REQUESTING
        assert handshake.read("Requesting_9999-12-31 23:59:59").kind is Kind.REQUESTING
    time.tzset()


@pytest.mark.parametrize(
    ("value", "allocatable", "expected"),
    [
        ("Requesting_2128-12-02 00:00:00", 0, YES),
        ("Requesting", 0, YES),
        ("Requesting_not-a-timestamp", 0, YES),
        ("Requesting_2024-01-02 00:00:00", 0, NO),
        ("Requesting_2024-01-02 00:00:00", 8, YES),
        ("Requesting_2024.01.10 04:06:57", 0, YES),
        ("Requesting_2026-08-21 09:59:01", 0, YES),
        ("Requesting_2026-08-21 09:59:00", 0, NO),
        ("Unknown", 0, ANEW),
        ("Reported 2024-01-23 04:30:04.434 +0000 UTC m=+17.7", 0, ANEW),
        ("Deleted_2026-05-01 10:00:00", 0, ANEW),
        (None, 0, ANEW),
    ],
)
def test_health(value: str | None, allocatable: int, expected: Health) -> None:
    """Only an old question on a node that offers nothing makes it unhealthy."""
    assert handshake.health(value, NOW, allocatable, zone=UTC) == expected


@pytest.mark.parametrize(
    ("seen", "allocatable", "register", "generic", "expected"),
    [
        ((0, ""), 0, "a", YES, (YES, (0, ""))),
        ((0, ""), 0, "a", NO, (NO, (0, ""))),
        ((8, "a"), 0, "a", YES, (NO, (0, "a"))),
        ((8, "a"), 0, "b", ANEW, (Health(healthy=False, needs_update=True), (0, "b"))),
        ((0, "a"), 8, "a", NO, (ANEW, (8, "a"))),
        ((8, "a"), 4, "b", YES, (ANEW, (4, "b"))),
        ((8, "a"), 8, "b", YES, (ANEW, (8, "b"))),
        ((8, "a"), 8, "b", NO, (Health(healthy=False, needs_update=True), (8, "b"))),
        ((8, "a"), 8, "a", YES, (YES, (8, "a"))),
        ((8, "a"), 8, "a", ANEW, (ANEW, (8, "a"))),
    ],
)
def test_nvidia_goes_by_what_is_offered(
    seen: tuple[int, str],
    allocatable: int,
    register: str,
    generic: Health,
    expected: tuple[Health, tuple[int, str]],
) -> None:
    """Its plugins answer no question, so a change of their number or register counts."""
    found, now = handshake.nvidia_health(
        NvidiaSeen(allocatable=seen[0], register=seen[1]),
        generic,
        allocatable=allocatable,
        register=register,
    )
    assert (found, (now.allocatable, now.register)) == expected


REPORT = "Reported 2024-01-23 04:30:04.434 +0000 UTC m=+17.7"


@pytest.mark.parametrize(
    ("backend", "value", "is_registered", "expected"),
    [
        (BY_WORD["DCU"], REPORT, True, "Requesting_2026-08-21 10:00:00"),
        (BY_WORD["DCU"], None, True, "Requesting_2026-08-21 10:00:00"),
        (BY_WORD["Ascend910B3"], "Deleted_2024", True, "Requesting_2026-08-21 10:00:00"),
        (BY_WORD["DCU"], None, False, None),
        (BY_WORD["DCU"], "Requesting_2024-01-02 00:00:00", True, None),
        (BY_WORD["DCU"], "Requesting", True, None),
        (NVIDIA, REPORT, True, "Requesting_2026-08-21 10:00:00"),
        (NVIDIA, None, True, None),
        (NVIDIA, "Deleted_2024-01-02 00:00:00", True, None),
        (BY_WORD["AMD"], REPORT, True, None),
        (BY_WORD["MLU"], None, True, None),
    ],
)
def test_only_plugins_that_answer_are_asked(
    backend: Backend, value: str | None, *, is_registered: bool, expected: str | None
) -> None:
    """A question that stands is not asked again."""
    found = handshake.to_write(backend, value, NOW, is_registered=is_registered, zone=UTC)
    assert found == expected


@pytest.mark.parametrize(
    ("word", "capacity", "registered", "expected"),
    [
        ("Metax-GPU", 8, None, ANEW),
        ("Metax-GPU", 0, None, Health(healthy=False, needs_update=True)),
        ("GCU", None, None, Health(healthy=False, needs_update=True)),
        ("Metax-SGPU", 0, 1, ANEW),
        ("Metax-SGPU", 8, None, Health(healthy=False, needs_update=True)),
        ("AMD", 8, None, ANEW),
        ("AMD", 0, 8, NO),
        ("MLU", None, None, ANEW),
        ("Mthreads", 0, None, ANEW),
        ("kunlun", 0, None, ANEW),
        ("AWSNeuron", 0, None, ANEW),
        ("Enflame", 0, 0, ANEW),
        ("DCU", 0, 0, None),
        ("NVIDIA", 0, 0, None),
    ],
)
def test_vendors_without_a_handshake(
    word: str, capacity: int | None, registered: int | None, expected: Health | None
) -> None:
    """Each has a sign of its own, or none."""
    backend = BY_WORD[word]
    assert handshake.other_health(backend, capacity=capacity, registered=registered) == expected


def test_keys() -> None:
    """NVIDIA's has no suffix, and every chip has its own."""
    keys = {each.word: each.handshake_key for each in ALL if each.handshake_key}
    assert keys["NVIDIA"] == "hami.io/node-handshake"
    assert keys["MR-V100"] == "hami.io/node-handshake-MR-V100"
    assert len(set(keys.values())) == len(keys)


@given(
    st.one_of(st.text(), st.text().map("Requesting_{}".format), st.text().map("Reported {}".format))
)
def test_no_text_raises(value: str) -> None:
    """A node is never lost for a text."""
    handshake.read(value)
    assert handshake.health(value, NOW, 1).healthy


@given(TIMES)
def test_round_trip(at: datetime) -> None:
    """A question keeps the second."""
    for zone in (UTC, SHANGHAI, LOS_ANGELES):
        stamp = handshake.read(handshake.requesting(at, zone=zone), zone=zone)
        assert stamp.at == at.replace(microsecond=0)
