"""One claim with limits, one container at a time."""

from typing import Any

import pytest

from tests.webhook.claims_known import Known, a_config, a_spec, with_configs
from webhook.claimspec import CLASSES
from webhook.sharedpods import NamespaceLookup, check_pod_claims

SHARE, WHOLE = a_spec("3000Mi"), a_spec()
KNOWN = Known(
    claims={"share": SHARE, "other": a_spec(cores="30"), "whole": WHOLE},
    templates={"share": SHARE, "whole": WHOLE},
    pods={"share": ["p"]},
)
BY_CLAIM = {"name": "gpu", "resourceClaimName": "share"}
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "share"}


def a_container(name: str, *claims: str, **fields: Any) -> dict[str, Any]:
    """Build a container that uses these entries."""
    resources = {"claims": [{"name": each} for each in claims]}
    return {"name": name, "image": "example.com/app", "resources": resources, **fields}


def a_pod(
    entries: list[dict[str, Any]],
    *containers: dict[str, Any],
    inits: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """Build the pod `p` with these claims."""
    spec = {
        "containers": list(containers),
        "initContainers": list(inits),
        "resourceClaims": entries,
    }
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}


def said(pod: Any, known: Known = KNOWN, sharing: tuple[str, ...] = ()) -> list[str]:
    """Return what is said against *pod*."""
    return [str(each) for each in check_pod_claims(pod, known, sharing=sharing)]


@pytest.mark.parametrize("entry", [BY_CLAIM, BY_TEMPLATE])
def test_two_containers(entry: dict[str, Any]) -> None:
    """Two containers that stay cannot use one share."""
    pod = a_pod([entry], a_container("a", "gpu"), a_container("b", "gpu"))
    (refusal,) = said(pod)
    assert refusal.startswith("ShareUsedByManyContainers: spec.resourceClaims: `gpu`")
    assert "used by a, b" in refusal


def test_one_claim_by_two_entries() -> None:
    """Two names of one claim are one claim; of one template they are two."""
    both = (a_container("a", "gpu"), a_container("b", "gpu2"))
    assert len(said(a_pod([BY_CLAIM, BY_CLAIM | {"name": "gpu2"}], *both))) == 1
    assert said(a_pod([BY_TEMPLATE, BY_TEMPLATE | {"name": "gpu2"}], *both)) == []


def test_init_containers() -> None:
    """Init containers that end may use an app's share before it; a sidecar runs beside it."""
    app = a_container("app", "gpu")
    inits = (a_container("i1", "gpu"), a_container("i2", "gpu"))
    assert said(a_pod([BY_CLAIM], app, inits=inits)) == []
    sidecar = a_container("s", "gpu", restartPolicy="Always")
    assert len(said(a_pod([BY_CLAIM], app, inits=(sidecar,)))) == 1
    alone = a_container("app")
    assert len(said(a_pod([BY_CLAIM], alone, inits=(sidecar, inits[0])))) == 1
    assert said(a_pod([BY_CLAIM], alone, inits=(inits[0], sidecar))) == []


@pytest.mark.parametrize("claim", ["whole", "not-there"])
def test_no_limits(claim: str) -> None:
    """Whole GPUs may be used by many; of what is not known nothing is said."""
    for kind in ("resourceClaimName", "resourceClaimTemplateName"):
        entry = {"name": "gpu", kind: claim}
        pod = a_pod([entry], a_container("a", "gpu"), a_container("b", "gpu"))
        assert said(pod) == []


@pytest.mark.parametrize(
    ("spec", "limited"),
    [
        (a_spec(cores="99"), True),
        (a_spec(cores="100"), False),
        (a_spec(cores="0"), False),
        (a_spec("1Gi", device_class="gpu.gpuslice.io"), True),
        (a_spec("1Gi", device_class="mig.gpuslice.io"), False),
        (a_spec("1Gi", device_class="gpu.example.com"), False),
        (a_spec("1Gi", adminAccess=True), False),
        (with_configs(SHARE, a_config(enforcement="none")), False),
        (with_configs(SHARE, a_config(enforcement="none"), a_config(priority=0)), True),
        (with_configs(SHARE, a_config("gpu", enforcement="none")), False),
        (with_configs(SHARE, a_config("else", enforcement="none")), True),
    ],
)
def test_what_is_limited(spec: dict[str, Any], *, limited: bool) -> None:
    """It follows from what is asked, not from the class, and from the config that counts."""
    pod = a_pod([BY_CLAIM], a_container("a", "gpu"), a_container("b", "gpu"))
    assert bool(said(pod, Known(claims={"share": spec}))) is limited


@pytest.mark.parametrize(
    ("asked", "limited"),
    [({}, False), ({"memory": "1Gi"}, True), ({"memory": "1Gi", "multiprocessors": "14"}, False)],
)
def test_what_is_limited_of_a_class_of_an_administrator(
    asked: dict[str, str], *, limited: bool
) -> None:
    """Where it was named as one of ours, a part of a GPU is; MIG devices are not."""
    capacity = {"requests": asked}
    spec = a_spec(device_class="lab.example", capacity=capacity)
    pod = a_pod([BY_CLAIM], a_container("a", "gpu"), a_container("b", "gpu"))
    assert said(pod, Known(claims={"share": spec})) == []
    known = Known(claims={"share": spec}, classes=CLASSES | {"lab.example"})
    assert bool(said(pod, known)) is limited


def test_two_pods() -> None:
    """A second pod on a share is refused with the name of the first; on a whole GPU it is not."""
    known = Known(claims=KNOWN.claims, pods={"share": ["p", "first"], "whole": ["first"]})
    pod = a_pod([BY_CLAIM], a_container("a", "gpu"))
    (refusal,) = said(pod, known)
    assert refusal.startswith("ShareUsedByManyPods: spec.resourceClaims: `share`")
    assert "pod first has it" in refusal
    assert said(pod) == []
    whole = {"name": "gpu", "resourceClaimName": "whole"}
    assert said(a_pod([whole], a_container("a", "gpu")), known) == []
    assert said(a_pod([BY_CLAIM], a_container("a")), known) == []
    nameless = pod | {"metadata": {"name": []}}
    assert said(nameless, known) == [refusal]


def test_two_claims_in_one_container() -> None:
    """Two sets of limits overwrite each other, also that of a legacy request beside a claim's."""
    entries = [BY_CLAIM, {"name": "more", "resourceClaimName": "other"}]
    (refusal,) = said(a_pod(entries, a_container("a", "gpu", "more")))
    assert refusal.startswith("ManySharesInContainer: spec.containers[0].resources: `gpu, more`")
    assert said(a_pod(entries, a_container("a", "gpu"), a_container("b", "more"))) == []
    assert len(said(a_pod([BY_CLAIM], a_container("a", "gpu")), sharing=("a",))) == 1
    assert said(a_pod([BY_CLAIM], a_container("a", "gpu")), sharing=("b",)) == []
    whole = {"name": "more", "resourceClaimName": "whole"}
    assert said(a_pod([BY_CLAIM, whole], a_container("a", "gpu", "more"))) == []


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"spec": None},
        {"spec": {"resourceClaims": "x", "containers": [None, {"resources": []}]}},
        {"metadata": [], "spec": {"resourceClaims": [None, {"name": 1}, {"name": "x"}]}},
        {"spec": {"resourceClaims": [BY_CLAIM], "containers": [{"resources": {"claims": [3]}}]}},
    ],
)
def test_odd_pods(pod: Any) -> None:
    """A pod that is none has no claims."""
    assert said(pod) == []


class View:
    """A namespace as a view of the cluster shows it."""

    def claims(self, namespace: str) -> tuple[dict[str, Any], ...]:
        """Return a claim that two pods have, one of which has ended."""
        reserved = [
            {"resource": "pods", "name": name, "uid": name} for name in ("reserved", "ended")
        ]
        reserved.append({"resource": "others", "apiGroup": "x", "name": "other", "uid": "o"})
        metadata = {"name": "share", "namespace": namespace}
        return ({"metadata": metadata, "spec": SHARE, "status": {"reservedFor": reserved}},)

    def pods(self, namespace: str) -> tuple[dict[str, Any], ...]:
        """Return one pod that uses the claim and has not been scheduled, and one that ended."""
        pending, ended, other = (a_pod([BY_CLAIM], a_container("a", "gpu")) for _ in range(3))
        pending["metadata"] = {"name": "pending", "namespace": namespace}
        ended["metadata"] = {"name": "ended", "namespace": namespace}
        ended["status"] = {"phase": "Failed"}
        other["metadata"] = {"name": "other", "namespace": namespace}
        other["spec"]["resourceClaims"] = [BY_TEMPLATE]
        return pending, ended, other

    def template_spec(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the one template of the namespace `team`."""
        return SHARE if (namespace, name) == ("team", "share") else None


def test_lookup() -> None:
    """Who has a claim is told by the pods and by the claim, without pods that have ended."""
    lookup = NamespaceLookup(View(), "team")
    assert set(lookup.users("share")) == {"pending", "reserved"}
    assert lookup.users("not-there") == set()
    assert lookup.claim_spec("share") == SHARE
    assert lookup.claim_spec("not-there") is None
    assert lookup.template_spec("share") == SHARE
    pod = a_pod([BY_CLAIM], a_container("a", "gpu"))
    assert [each.code for each in check_pod_claims(pod, lookup)] == ["ShareUsedByManyPods"]
