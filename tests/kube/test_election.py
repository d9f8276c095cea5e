"""Electors at work with the simulated API server."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from kube.client import Client
from kube.election import Elector
from kube.lease import Terms, identity_of
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually

QUICK = Terms(lease_s=2, renew_deadline_s=1.0, retry_s=0.05)
PATIENT = Terms(lease_s=60, renew_deadline_s=50.0, retry_s=0.05)


@dataclass
class Office:
    """Who was told to lead, in order, and how many led at once by their own clocks."""

    told: list[str] = field(default_factory=list)
    electors: dict[str, Elector] = field(default_factory=dict)
    most: int = 0

    def start(self, name: str) -> None:
        """Note that *name* leads, and who else does."""
        self.told.append(f"+{name}")
        self.most = max(self.most, len(leaders(self.electors)))

    def stop(self, name: str) -> None:
        """Note that *name* leads no more."""
        self.told.append(f"-{name}")


@contextmanager
def electing(
    server: ServerThread, office: Office, *names: str, terms: Terms = QUICK
) -> Iterator[tuple[dict[str, Elector], dict[str, Client]]]:
    """Run an elector of each of *names*."""
    clients = {name: server.client(name) for name in names}
    electors = {
        name: Elector(
            client,
            namespace="default",
            name="lease",
            identity=identity_of(name, f"{name}:1"),
            on_started=partial(office.start, name),
            on_stopped=partial(office.stop, name),
            terms=terms,
        )
        for name, client in clients.items()
    }
    office.electors = electors
    for elector in electors.values():
        elector.start()
    try:
        yield electors, clients
    finally:
        for elector in electors.values():
            elector.stop()
        for client in clients.values():
            client.close()


def leaders(electors: dict[str, Elector]) -> list[str]:
    """Return who leads."""
    return [name for name, elector in electors.items() if elector.is_leader()]


def test_one_of_two_leads_and_hands_over_when_it_stops() -> None:
    """The other follows at once, and each knows the leader's address."""
    office = Office()
    with serving() as server, electing(server, office, "a", "b", terms=PATIENT) as (electors, _):
        (first,) = eventually(lambda: leaders(electors))
        second = "b" if first == "a" else "a"
        eventually(lambda: electors[second].leader_address() == f"{first}:1")
        assert electors[first].leader_address() == f"{first}:1"
        assert (electors[first].leading_since() or 0) <= time.monotonic()
        assert electors[second].leading_since() is None
        electors[first].stop()
        eventually(lambda: leaders(electors) == [second])
    assert office.told == [f"+{first}", f"-{first}", f"+{second}", f"-{second}"]
    assert office.most == 1


def test_without_a_server_the_leader_stops_and_comes_back() -> None:
    """It stops before its lease is over for others, and one leads again when the server is back."""
    office = Office()
    with serving() as server, electing(server, office, "a", "b") as (electors, _):
        eventually(lambda: leaders(electors))
        server.run(server.server.pause())
        eventually(lambda: office.told[-1].startswith("-"))
        assert not leaders(electors)
        server.run(server.server.resume())
        eventually(lambda: leaders(electors))
    assert office.most == 1


def test_conflicts_and_failures_are_outlasted() -> None:
    """Renewals that are refused for a while do not change who leads."""
    office = Office()
    with serving() as server, electing(server, office, "a", "b", terms=PATIENT) as (electors, _):
        eventually(lambda: leaders(electors))
        for status in (409, 500, 403):
            server.call(server.server.fail_next, 1, status, verb="update")
        eventually(lambda: _renewals(server) > 6)
        assert len(leaders(electors)) == 1
    assert office.most == 1
    assert len(office.told) == 2


def test_one_that_is_cut_off_is_replaced_after_its_lease() -> None:
    """A leader whose credentials are taken stops, and the other leads."""
    office = Office()
    with serving() as server, electing(server, office, "a", "b") as (electors, _):
        (first,) = eventually(lambda: leaders(electors))
        server.call(server.server.revoke, first)
        eventually(lambda: leaders(electors) not in ([first], []))
    assert office.told[:2] == [f"+{first}", f"-{first}"]
    assert office.most == 1


def test_work_that_could_not_be_stopped_keeps_the_lease() -> None:
    """When *on_stopped* fails the Lease is left to expire instead of being handed over."""
    with serving() as server:
        client = server.client("a")

        def broken() -> None:
            message = "still writing"
            raise RuntimeError(message)

        identity = identity_of("a", "a:1")
        elector = Elector(
            client,
            namespace="default",
            name="lease",
            identity=identity,
            on_stopped=broken,
            terms=QUICK,
        )
        elector.start()
        eventually(elector.is_leader)
        elector.stop()
        assert not elector.is_leader()
        lease = server.run(server.server.api.get("leases", "lease", "default"))
        assert lease["spec"]["holderIdentity"] == identity
        client.close()


def _renewals(server: ServerThread) -> int:
    return sum(record.verb == "update" for record in server.call(lambda: server.server.requests))
