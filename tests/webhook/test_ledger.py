"""Tests of room that is taken for what is not yet seen."""

from typing import Any

from hami.quota import Cost
from webhook.ledger import Kind, Ledger, Part, Reservation, Subject, identity

GPU = "nvidia.com/gpu"


def cost(gpus: int) -> Cost:
    """Return a cost of devices."""
    return Cost(amounts={GPU: gpus})


def item(uid: str, name: str, gpus: int = 1) -> dict[str, Any]:
    """Return an object that costs *gpus*."""
    return {"metadata": {"uid": uid, "name": name}, "gpus": gpus}


def price(each: dict[str, Any]) -> Cost:
    """Return the cost of an object."""
    return cost(each["gpus"])


def subject(review_uid: str, kind: Kind = Kind.POD, **names: str) -> Subject:
    """Return a subject."""
    return Subject(kind=kind, review_uid=review_uid, **names)


def ledger(*subjects: tuple[Subject, int], seen: tuple[dict[str, Any], ...] = ()) -> Ledger:
    """Return a ledger that saw *seen* and then reserved for *subjects*."""
    made = Ledger()
    made.absorb(Kind.POD, seen, price)
    for each, gpus in subjects:
        made.reserve(Reservation(subject=each, cost=cost(gpus), deadline_s=10))
    return made


def held(made: Ledger) -> int:
    """Return the devices that are reserved."""
    return made.held().amounts.get(GPU, 0)


def test_an_object_is_found_by_its_uid() -> None:
    """Names do not matter then."""
    made = ledger((subject("r1", uid="u1", name="a"), 1), (subject("r2", uid="u2", name="b"), 2))
    made.absorb(Kind.POD, [item("u2", "b"), item("u3", "a")], price)
    assert held(made) == 1


def test_an_object_of_another_kind_is_not_it() -> None:
    """A claim does not free the room of a pod."""
    made = ledger((subject("r1", uid="u1"), 1))
    made.absorb(Kind.CLAIM, [item("u1", "a")], price)
    assert held(made) == 1


def test_an_object_that_was_here_before_is_not_it() -> None:
    """A pod made again under its name is another one."""
    old = item("u1", "web-0")
    made = ledger((subject("r1", name="web-0"), 1), seen=(old,))
    made.absorb(Kind.POD, [old], price)
    assert held(made) == 1
    made.absorb(Kind.POD, [item("u2", "web-0")], price)
    assert held(made) == 0


def test_generated_names_stand_for_one_another_at_one_size() -> None:
    """Each object frees one reservation, of its own size."""
    made = ledger(
        (subject("r1", generate_name="job-"), 1),
        (subject("r2", generate_name="job-"), 5),
        (subject("r3", generate_name="job-"), 5),
    )
    made.absorb(Kind.POD, [item("u1", "job-abcde", 5)], price)
    assert held(made) == 6
    made.absorb(Kind.POD, [item("u1", "job-abcde", 5), item("u2", "job-fghij", 1)], price)
    assert held(made) == 5
    made.absorb(Kind.POD, [item("u3", "job-abcdef", 5), item("u4", "jab-abcde", 5)], price)
    assert held(made) == 5


def test_a_long_generated_name_is_cut_as_kubernetes_does() -> None:
    """Of 58 characters and 5 by chance."""
    made = subject("r1", generate_name="x" * 80)
    assert made.may_be("x" * 58 + "abcde")
    assert not made.may_be("x" * 80 + "abcde")
    assert not subject("r1").may_be("abcde")


def test_requests_for_one_name_count_once() -> None:
    """The largest of them counts, and none against itself."""
    first, second = subject("r1", name="a"), subject("r2", name="a")
    made = ledger((first, 2), (second, 3), (subject("r3", name="b"), 1))
    assert held(made) == 4
    assert made.held(besides=first).amounts == {GPU: 1}


def test_the_same_request_is_reserved_once() -> None:
    """The later cost counts."""
    made = ledger((subject("r1"), 2), (subject("r1"), 3))
    assert (len(made), held(made)) == (1, 3)


def test_expired_room_is_dropped_when_told() -> None:
    """Not by time alone, and not what expired after the list."""
    made = ledger((subject("r1"), 1))
    made.reserve(Reservation(subject=subject("r2"), cost=cost(2), deadline_s=20))
    assert not made.has_expired(9)
    assert made.has_expired(10)
    made.drop_expired(15)
    assert held(made) == 2


def test_a_pod_is_awaited_until_it_is_seen() -> None:
    """By its UID, its name or what its name is made of."""
    for awaited in (
        subject("r1", uid="u1"),
        subject("r1", name="job-abcde"),
        subject("r1", generate_name="job-"),
    ):
        made = ledger((awaited, 1))
        assert made.awaits_pod("u1", "job-abcde")
        assert not made.awaits_pod("u2", "other")
        made.absorb(Kind.POD, [item("u1", "job-abcde")], price)
        assert not made.awaits_pod("u1", "job-abcde")


def test_replaced_parts_are_told_while_their_claims_have_room() -> None:
    """A claim that is seen speaks for itself."""
    made = Ledger()
    claim = subject("r1", Kind.CLAIM, uid="u1")
    part = Part("p1", "gpu")
    made.reserve(Reservation(subject=claim, cost=cost(1), deadline_s=9, replaces=part))
    assert set(made.replaced()) == {part}
    made.absorb(Kind.CLAIM, [item("u1", "c")], price)
    assert set(made.replaced()) == set()


def test_an_object_without_identity_has_none() -> None:
    """Whatever the JSON is."""
    assert (
        identity({}) == identity({"metadata": 3}) == identity({"metadata": {"uid": 3}}) == ("", "")
    )
