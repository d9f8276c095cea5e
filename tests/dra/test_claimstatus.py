"""What is written into a claim's status, as JSON."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.claimstatus import WELL, Verdict, ill, is_kept, with_conditions
from gpu import names
from kube.objects import JsonObject
from tests.dra.builders import NODE, a_claim, a_gpu, a_result

NOW = "2026-01-02T03:04:05Z"
BEFORE = "2025-01-02T03:04:05Z"
FIRST, SECOND = a_gpu(0), a_gpu(1)
NAME = names.device_name(FIRST.uuid)
SICK = ill("Xid79", "the GPU has fallen off the bus")
SHARE = "5a5a0000-0000-4000-8000-000000000001"


def a_condition(verdict: Verdict = SICK, *, since: str = NOW) -> JsonObject:
    """Return the condition that says *verdict*."""
    return {
        "type": "Ready",
        "status": "True" if verdict.ready else "False",
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since,
    }


def an_entry(*conditions: JsonObject, **changes: Any) -> JsonObject:
    """Return the entry of a share of the first GPU."""
    entry = {"driver": names.DRIVER, "pool": NODE, "device": NAME, "shareID": SHARE}
    return entry | {"conditions": list(conditions)} | changes


def a_claim_saying(*entries: Any, results: Any = ()) -> JsonObject:
    """Return a claim of a share of the first GPU whose status has *entries*."""
    claim = a_claim(a_result(FIRST))
    claim["status"]["devices"] = list(entries)
    claim["status"]["allocation"]["devices"]["results"] += results
    return claim


def changed(claim: JsonObject, **verdicts: Verdict) -> list[JsonObject] | None:
    """Return the entries that *claim* is to have; everything else must be as it was."""
    before = copy.deepcopy(claim)
    by_name = {"first": NAME, "second": names.device_name(SECOND.uuid)}
    said = {by_name[key]: verdict for key, verdict in verdicts.items()}
    after = with_conditions(claim, pool=NODE, verdicts=said, now=NOW)
    assert claim == before
    if after is None:
        return None
    entries: list[JsonObject] = after["status"].pop("devices")
    before["status"].pop("devices", None)
    assert after == before
    return entries


def test_an_ill_device_is_named_with_its_share() -> None:
    """The entry has what the API server compares with the allocation."""
    assert changed(a_claim(a_result(FIRST)), first=SICK) == [an_entry(a_condition())]
    whole = a_claim(a_result(FIRST, None))
    entry = an_entry(a_condition())
    del entry["shareID"]
    assert changed(whole, first=SICK) == [entry]


def test_every_use_of_the_device_is_named() -> None:
    """Two shares of one GPU are two entries, and an administrator is a user too."""
    other = SHARE[:-1] + "2"
    claim = a_claim(
        a_result(FIRST),
        a_result(FIRST, shareID=other),
        a_result(FIRST, None, adminAccess=True, request="monitor"),
        a_result(SECOND),
    )
    found = changed(claim, first=SICK)
    assert found is not None
    assert [entry.get("shareID") for entry in found] == [SHARE, other, None]
    assert {entry["device"] for entry in found} == {NAME}


def test_a_device_given_twice_has_one_entry() -> None:
    """The server allows one for each device and share."""
    monitor = a_result(FIRST, None, adminAccess=True)
    found = changed(a_claim(monitor, monitor | {"request": "other"}), first=SICK)
    assert found is not None
    assert len(found) == 1


def test_what_is_well_is_not_mentioned() -> None:
    """Not even where an entry of somebody's stands already."""
    assert changed(a_claim(a_result(FIRST)), first=WELL) is None
    assert changed(a_claim_saying(an_entry()), first=WELL) is None
    assert changed(a_claim_saying(an_entry(a_condition(WELL))), first=WELL) is None


def test_recovery_corrects_what_was_written() -> None:
    """The reason says that it had been ill."""
    found = changed(a_claim_saying(an_entry(a_condition(since=BEFORE))), first=WELL)
    assert found == [an_entry(a_condition(WELL))]
    assert found[0]["conditions"][0]["reason"] == "Recovered"


def test_the_time_stays_while_it_stays_ill() -> None:
    """Another reason is no transition; the same reason is no change at all."""
    claim = a_claim_saying(an_entry(a_condition(since=BEFORE)))
    assert changed(claim, first=SICK) is None
    worse = ill("Xid95", "uncontained error")
    assert changed(claim, first=worse) == [an_entry(a_condition(worse, since=BEFORE))]


def test_what_is_ill_again_says_since_when() -> None:
    """It was well in between."""
    claim = a_claim_saying(an_entry(a_condition(WELL, since=BEFORE)))
    assert changed(claim, first=SICK) == [an_entry(a_condition())]


def test_what_others_wrote_stays() -> None:
    """Other drivers' entries, other conditions of ours and fields of the future are kept."""
    foreign = {
        "driver": "net.example.com",
        "pool": NODE,
        "device": NAME,
        "conditions": [{"type": "Ready", "status": "False"}],
        "data": {"kept": [1, None, "ü"]},
    }
    bound = {"type": "Bound", "status": "True", "future": 1}
    mine = an_entry(bound, a_condition(since=BEFORE), future={"a": 1})
    found = changed(a_claim_saying(foreign, mine), first=WELL)
    assert found == [foreign, an_entry(bound, a_condition(WELL), future={"a": 1})]


@pytest.mark.parametrize("changes", [{"driver": "other.example.com"}, {"pool": "node-2"}], ids=str)
def test_devices_of_others_are_not_ours(changes: JsonObject) -> None:
    """A name says nothing without driver and pool."""
    assert changed(a_claim(a_result(FIRST, **changes)), first=SICK) is None


def test_a_claim_that_has_lost_its_devices_is_left_alone() -> None:
    """An entry without an allocation would be refused."""
    claim = a_claim()
    claim["status"] = {}
    assert changed(claim, first=SICK) is None


def test_no_more_conditions_than_the_server_takes() -> None:
    """Eight of somebody else leave no room; one of them that is ours is replaced."""
    others = [{"type": f"Other{number}", "status": "True"} for number in range(8)]
    assert changed(a_claim_saying(an_entry(*others)), first=SICK) is None
    found = changed(a_claim_saying(an_entry(*others[:7], a_condition(WELL))), first=SICK)
    assert found == [an_entry(*others[:7], a_condition())]


@given(st.text(), st.text(max_size=3000))
def test_a_verdict_has_the_form_that_the_server_takes(code: str, message: str) -> None:
    """Whatever a device's code and message are."""
    verdict = ill(code, message)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,999}", verdict.reason)
    assert verdict.message.isascii()
    assert len(verdict.message) <= 1000


KEYS = st.one_of(
    st.sampled_from(["status", "allocation", "devices", "results", "conditions"]),
    st.sampled_from(["driver", "pool", "device", "shareID"]),
    st.sampled_from(["type", "status", "reason", "lastTransitionTime"]),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([names.DRIVER, NODE, NAME, SHARE, "Ready", "False", "True"])
)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5)
)
ENTRIES = st.one_of(
    ANYTHING,
    st.builds(an_entry),
    st.builds(an_entry, a=ANYTHING),
    st.builds(lambda odd: an_entry(conditions=odd), ANYTHING),
    st.builds(lambda odd: an_entry(a_condition() | odd), st.dictionaries(KEYS, ANYTHING)),
)


@given(
    st.dictionaries(KEYS, ANYTHING)
    | st.builds(lambda entries: a_claim_saying(*entries), st.lists(ENTRIES, max_size=3))
    | st.builds(lambda odd: a_claim_saying(results=[odd]), ANYTHING),
    st.sampled_from([SICK, WELL]),
)
def test_odd_claims_are_no_exceptions(claim: JsonObject, verdict: Verdict) -> None:
    """What comes out is the same but for our conditions, and saying it again changes nothing."""
    before = json.dumps(claim)
    after = with_conditions(claim, pool=NODE, verdicts={NAME: verdict}, now=NOW)
    assert json.dumps(claim) == before
    if after is None:
        return
    assert is_kept(after, pool=NODE)
    assert with_conditions(after, pool=NODE, verdicts={NAME: verdict}, now=BEFORE) is None
    old = claim["status"].get("devices") or []
    new = after["status"]["devices"]
    foreign = [each for each in old if each.get("driver") != names.DRIVER]
    assert [each for each in new if each.get("driver") != names.DRIVER] == foreign
    assert claim | {"status": after["status"]} == after


@given(ANYTHING)
def test_odd_answers_have_nothing_of_ours(devices: Any) -> None:
    """An answer that cannot be read has kept nothing."""
    assert isinstance(is_kept({"status": {"devices": devices}}, pool=NODE), bool)
    assert not is_kept({"status": devices if isinstance(devices, list) else None}, pool=NODE)
