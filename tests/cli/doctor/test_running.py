"""Running checks: one that cannot ask stops no other."""

import pytest

from cli.doctor.cluster.checks import CHECKS
from cli.doctor.model import Check, Half, Status, Verdict, ok
from cli.doctor.node.checks import CHECKS as NODE_CHECKS
from cli.doctor.running import from_error, is_lack_of_rights, run
from kube.errors import ConnectionFailedError, ForbiddenError, NotServedError, UnauthorizedError
from tests.cli.doctor.world import CLASSES, SLICES, classes, published, world


def test_ids_are_unique() -> None:
    """Documents and scripts name a check by its id."""
    names = [*(each.id for each in CHECKS), *(each.id for each in NODE_CHECKS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("part", "hit"),
    [
        ("deviceclasses", {"device-classes"}),
        ("resourceslices", {"other-drivers", "published-gpus"}),
        ("daemonsets", {"other-daemonsets"}),
        ("mutatingwebhook", {"webhook-configured", "webhook-answers", "other-webhooks"}),
        ("validatingadmissionpolicybindings", {"slice-policies"}),
        ("resourceclaimtemplates", {"templates-left"}),
    ],
)
def test_one_refusal_leaves_the_others(part: str, hit: set[str]) -> None:
    """What may not be listed is unknown with the reason; all other checks have their answers."""
    with world() as at:
        at.put(CLASSES, *classes())
        at.put(SLICES, published("a"))
        before = {it.id: it.verdict for it in run(CHECKS, at.cluster(), Half.CLUSTER)}
        at.front.refused.append(("GET", part))
        after = {it.id: it.verdict for it in run(CHECKS, at.cluster(), Half.CLUSTER)}
        unknown = {name for name, it in after.items() if it.status is Status.UNKNOWN}
        assert hit <= unknown
        for name in hit:
            assert "not allowed" in after[name].seen
        untouched = set(before) - unknown - {"node-agents", "slice-policies", "known-faults"}
        assert len(untouched) > 18
        assert all(after[name].status is before[name].status for name in untouched)


def test_odd_object_stops_nothing() -> None:
    """A check that trips says so, and the next one runs."""

    def trip(_: None) -> Verdict:
        raise AttributeError("no such thing")

    checks = [Check(id="one", run=trip), Check(id="two", run=lambda _: ok("well"))]
    first, second = run(checks, None, Half.NODE)
    assert first.verdict.status is Status.UNKNOWN
    assert "AttributeError: no such thing" in first.verdict.seen
    assert second.verdict.status is Status.OK


def test_errors_become_verdicts() -> None:
    """A refusal is unknown, a kind that is not served is skipped, and never anything well."""
    assert from_error(NotServedError("no group")).status is Status.SKIPPED
    for error in (
        ForbiddenError(403, "Forbidden", "no"),
        UnauthorizedError(401, "Unauthorized", "no"),
        ConnectionFailedError("refused"),
    ):
        assert from_error(error).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("message", "lacking"),
    [
        ('pods is forbidden: User "x" cannot create resource "pods" in API group ""', True),
        ('admission webhook "pods.gpuslice.io" denied the request: no', False),
        ('pods "x" is forbidden: exceeded quota: q', False),
    ],
)
def test_rights_are_told_from_opinions(message: str, lacking: bool) -> None:  # noqa: FBT001
    """The same status stands for a lack of rights and for somebody who did not like the object."""
    assert is_lack_of_rights(ForbiddenError(403, "Forbidden", message)) is lacking
