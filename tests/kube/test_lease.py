"""Candidates for a Lease, with the time in the test's hand."""

import random
from contextlib import suppress
from functools import partial

import pytest

from kube.client import Client
from kube.errors import ConflictError, ConnectionFailedError, KubeError
from kube.lease import Candidate, Terms, address_in, identity_of
from tests.kube.leasing import World, candidate, keeping


def leading(*candidates: Candidate) -> list[bool]:
    """Return who leads."""
    return [each.leading_since() is not None for each in candidates]


def test_the_first_takes_it_and_the_second_waits() -> None:
    """The Lease is made by the first; the second learns its address."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")
        first.attempt()
        second.attempt()
        assert leading(first, second) == [True, False]
        assert address_in(second.holder() or "") == "a:8443"
        assert world.lease is not None
        assert world.lease["spec"]["leaseDurationSeconds"] == 15
        assert world.lease["spec"]["leaseTransitions"] == 0


def test_a_renewal_is_one_request_and_keeps_what_it_does_not_know() -> None:
    """The holder writes without reading, and foreign fields stay."""
    world = World()
    with keeping(world) as client:
        first = candidate(client, world, "a")
        first.attempt()
        assert world.lease is not None
        world.lease["spec"]["strategy"] = "Oldest"
        acquired = world.lease["spec"]["acquireTime"]
        asked: list[int] = []
        world.before = lambda: asked.append(1)
        world.now_s = 2
        first.attempt()
        assert len(asked) == 1
        assert world.lease["spec"]["acquireTime"] == acquired
        assert first.leading_since() == 0.0
        assert first.remaining_s() == 10.0


def test_another_takes_it_only_after_it_stood_still_for_its_duration() -> None:
    """The count begins when the other sees it, whatever time is written there."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")
        first.attempt()
        assert world.lease is not None
        world.lease["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"
        world.now_s = 3
        second.attempt()
        world.now_s = 17.9
        second.attempt()
        assert leading(first, second) == [False, False]
        assert second.holder() is not None
        world.now_s = 18
        assert second.holder() is None
        second.attempt()
        assert leading(first, second) == [False, True]
        assert world.lease["spec"]["leaseTransitions"] == 1
        first.attempt()
        assert address_in(first.holder() or "") == "b:8443"


def test_the_duration_is_that_which_the_holder_wrote() -> None:
    """A holder with a longer lease is waited for longer; nonsense counts as our own."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")
        first.attempt()
        assert world.lease is not None
        world.lease["spec"]["leaseDurationSeconds"] = 40
        second.attempt()
        world.now_s = 39
        second.attempt()
        assert leading(second) == [False]
        world.lease["spec"]["leaseDurationSeconds"] = "soon"
        second.attempt()
        world.now_s = 54
        second.attempt()
        assert leading(second) == [True]


def test_it_stops_to_lead_by_itself_before_others_may_begin() -> None:
    """With no server to be had its term ends 5 s before anyone may take the Lease."""
    world = World()
    with keeping(world) as client:
        first = candidate(client, world, "a")
        first.attempt()
        world.reachable = False
        world.now_s = 9.9
        with pytest.raises(ConnectionFailedError):
            first.attempt()
        assert leading(first) == [True]
        world.now_s = 10
        assert leading(first) == [False]
        assert first.holder() is None


def test_a_slow_renewal_counts_from_when_it_was_sent() -> None:
    """What took nine seconds is worth one more; what took longer than a term is worth nothing."""
    world = World()
    with keeping(world) as client:
        first = candidate(client, world, "a")

        def late(seconds: float) -> None:
            world.now_s += seconds

        world.after = lambda: late(9)
        first.attempt()
        assert leading(first) == [True]
        assert first.remaining_s() == 1
        world.after = lambda: late(11)
        first.attempt()
        assert leading(first) == [False]


def test_a_lost_answer_does_not_keep_it_from_leading_later() -> None:
    """The write has happened, so its version is unknown: it reads and goes on."""
    world = World()
    with keeping(world) as client:
        first = candidate(client, world, "a")
        first.attempt()
        world.answers = False
        world.now_s = 2
        with pytest.raises(ConnectionFailedError):
            first.attempt()
        world.answers = True
        world.now_s = 4
        first.attempt()
        assert first.leading_since() == 0.0
        assert first.remaining_s() == 10


def test_it_steps_down_when_it_sees_another_holder() -> None:
    """An administrator who writes another name into the Lease is obeyed at once."""
    world = World()
    with keeping(world) as client:
        first = candidate(client, world, "a")
        first.attempt()
        assert world.lease is not None
        world.version += 1
        world.lease["metadata"]["resourceVersion"] = str(world.version)
        world.lease["spec"]["holderIdentity"] = "somebody"
        first.attempt()
        assert leading(first) == [False]
        assert first.holder() == "somebody"
        assert address_in("somebody") is None


def test_a_deleted_lease_is_made_again() -> None:
    """Its holder makes it anew and leads without a gap."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")
        first.attempt()
        world.lease = None
        world.now_s = 2
        first.attempt()
        assert first.leading_since() == 0.0
        world.lease = None
        second.attempt()
        world.now_s = 3
        first.attempt()
        assert leading(first, second) == [False, True]


def test_a_race_to_make_it_has_one_winner() -> None:
    """One who finds it made meanwhile does not lead."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")

        def race() -> None:
            # The first has just been told that there is none.
            world.after = lambda: None
            second.attempt()

        world.after = race
        first.attempt()
        assert leading(first, second) == [False, True]


def test_a_released_lease_is_taken_at_once() -> None:
    """The one who gives it back leads no more before the others can know."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")
        first.attempt()
        first.release()
        assert leading(first) == [False]
        assert world.holder == ""
        second.attempt()
        assert leading(first, second) == [False, True]
        second.resign()
        first.release()
        assert world.holder == "b"


def test_an_outdated_release_fails() -> None:
    """A Lease that another has taken meanwhile is not released."""
    world = World()
    with keeping(world) as client:
        first, second = candidate(client, world, "a"), candidate(client, world, "b")
        first.attempt()
        second.attempt()
        world.now_s = 15
        second.attempt()
        with pytest.raises(ConflictError):
            first.release()
        assert world.holder == "b"


@pytest.mark.parametrize("spec", [None, [], {"holderIdentity": 7, "leaseTransitions": "x"}])
def test_a_lease_of_nonsense_is_free(spec: object) -> None:
    """Whatever stands in it, it can be taken."""
    world = World(lease={"metadata": {"resourceVersion": "0"}, "spec": spec})
    with keeping(world) as client:
        first = candidate(client, world, "a")
        first.attempt()
        assert leading(first) == [True]
        assert world.holder == "a"


def test_identities_differ_even_in_one_pod() -> None:
    """A restarted container is not taken for the one before it."""
    one, other = (identity_of("pod", "[::1]:8443") for _ in range(2))
    assert one != other
    assert one.startswith("pod_")
    assert address_in(one) == "[::1]:8443"


@pytest.mark.parametrize(
    ("lease_s", "deadline_s", "retry_s"), [(15, 15.0, 2.0), (15, 10.0, 10.0), (15, 10.0, 0.0)]
)
def test_terms_that_cannot_work_are_refused(
    lease_s: int, deadline_s: float, retry_s: float
) -> None:
    """A holder must be able to retry, and must stop before others begin."""
    with pytest.raises(ValueError, match="retry_s < renew_deadline_s < lease_s"):
        Terms(lease_s=lease_s, renew_deadline_s=deadline_s, retry_s=retry_s)


# A tenth faster and a tenth slower than true time, each with a past of its own.
CLOCKS = ((0.0, 1.0), (1e6, 0.9), (-5e5, 1.1))
SECONDS = (0, 0, 0, 4, 9, 10, 14, 17)


class Play:
    """Three candidates, clocks that disagree, and a server that is slow and forgetful."""

    def __init__(self, client: Client, world: World, seed: int) -> None:
        self.client, self.world = client, world
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.candidates = [self.make(number) for number in range(len(CLOCKS))]
        self.most = 0

    def make(self, number: int) -> Candidate:
        """Return a new process in the place of *number*."""
        offset_s, rate = CLOCKS[number]
        return candidate(self.client, self.world, f"c{number}", offset_s=offset_s, rate=rate)

    def pass_time(self) -> None:
        """Let some time go, and look who leads."""
        self.world.now_s += self.random.choice(SECONDS)
        self.look()

    def look(self) -> None:
        """Note how many lead at once."""
        self.most = max(self.most, sum(leading(*self.candidates)))

    def meanwhile(self, busy: int) -> None:
        """Let another one try while the request of *busy* is on its way."""
        self.world.before = self.world.after = lambda: None
        self.pass_time()
        other = (busy + self.random.choice([1, 2])) % len(CLOCKS)
        with suppress(KubeError):
            self.candidates[other].attempt()
        self.pass_time()

    def step(self) -> None:
        """Let one of them try, often over a bad line, or end."""
        number = self.random.randrange(len(CLOCKS))
        self.world.before = self.world.after = lambda: None
        if self.random.random() < 0.3:
            way = self.random.choice(["before", "after"])
            setattr(self.world, way, partial(self.meanwhile, number))
        self.world.answers = self.random.random() > 0.1
        with suppress(KubeError):
            if self.random.random() > 0.1:
                self.candidates[number].attempt()
            elif self.random.random() > 0.5:
                self.candidates[number].release()
            else:
                self.candidates[number] = self.make(number)
        self.look()


@pytest.mark.parametrize("seed", range(4))
def test_two_never_lead_at_once(seed: int) -> None:
    """Whatever the clocks, the line and the order, and somebody leads when all is quiet again."""
    for play in range(40):
        world = World()
        with keeping(world) as client:
            players = Play(client, world, seed * 1000 + play)
            for _ in range(20):
                players.pass_time()
                players.step()
            assert players.most == 1
            world.before = world.after = lambda: None
            world.answers = True
            first = players.candidates[0]
            first.attempt()
            world.now_s += 20
            first.attempt()
            assert first.leading_since() is not None
