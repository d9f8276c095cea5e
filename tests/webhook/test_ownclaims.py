"""Under the names that translated pods rely on there is only what they asked for."""

from typing import Any

import pytest

from tests.webhook.claims_known import a_spec
from webhook import requestannotation
from webhook.ownclaims import check_generated_claim, check_template, owner_of
from webhook.rendering import claim_spec
from webhook.sharerequest import ShareRequest
from webhook.templatecontent import template_name

REQUEST = ShareRequest(memory_mib=3000, cores=0)
SPEC = claim_spec(REQUEST)
NAME = template_name(SPEC)


def a_template(name: str, spec: Any, *, generated: bool = False) -> dict[str, Any]:
    """Build a template."""
    return {"metadata": {"generateName" if generated else "name": name}, "spec": {"spec": spec}}


def a_pod(template: str = NAME) -> dict[str, Any]:
    """Build a translated pod with the entry `gpu-main` for *template*."""
    annotations = {requestannotation.ANNOTATION: requestannotation.write({"gpu-main": REQUEST})}
    entries = [
        {"name": "mine", "resourceClaimTemplateName": "mine"},
        {"name": "gpu-main", "resourceClaimTemplateName": template},
    ]
    return {
        "metadata": {"name": "p", "uid": "u-1", "annotations": annotations},
        "spec": {"resourceClaims": entries},
    }


def a_claim(spec: Any, entry: str = "gpu-main", **owner: Any) -> dict[str, Any]:
    """Build a claim as the control plane makes it for the pod."""
    whose = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1", "controller": True}
    return {
        "metadata": {
            "generateName": f"p-{entry}-",
            "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
            "ownerReferences": [whose | owner],
        },
        "spec": spec,
    }


def test_templates() -> None:
    """A name of our form is for the content that it stands for, by whomever it is made."""
    assert check_template(a_template(NAME, SPEC)) == ()
    assert check_template(a_template("mine", a_spec("1Gi"))) == ()
    for template in (
        a_template(NAME, a_spec("1Gi")),
        a_template("gpuslice-mine", SPEC),
        a_template("gpuslice-", SPEC, generated=True),
        a_template(NAME, None),
    ):
        (refusal,) = check_template(template)
        assert refusal.code == "TemplateNameReserved"


def test_generated_claim() -> None:
    """A claim that is what its pod asked for is taken."""
    assert check_generated_claim(a_claim(SPEC), a_pod()) == ()


def test_foreign_content() -> None:
    """A claim made from a template of other content is refused, and says whose it is."""
    larger = claim_spec(ShareRequest(memory_mib=80000, cores=0))
    (refusal,) = check_generated_claim(a_claim(larger), a_pod())
    assert refusal.code == "TemplateForeign"
    assert "it is not what pod p asked for" in refusal.limit
    assert refusal.value == NAME


def test_pod_and_annotation_differ() -> None:
    """A pod that names a template it did not ask for gets what is said of it."""
    other = template_name(claim_spec(ShareRequest(memory_mib=1, cores=0)))
    (refusal,) = check_generated_claim(a_claim(SPEC), a_pod(other))
    assert refusal.code == "TemplateNotNamed"


def test_other_claims() -> None:
    """Claims of users, of their own templates and of other owners are left alone."""
    spec = a_spec("1Gi")
    assert check_generated_claim(a_claim(spec, entry="mine"), a_pod()) == ()
    assert check_generated_claim(a_claim(spec, entry="not-there"), a_pod()) == ()
    assert check_generated_claim(a_claim(spec, kind="Job"), None) == ()
    assert check_generated_claim(a_claim(spec, controller=False), None) == ()
    assert check_generated_claim({"metadata": {"name": "c"}, "spec": spec}, None) == ()


@pytest.mark.parametrize("pod", [None, {"metadata": {"uid": "u-2"}}, {"metadata": {}}])
def test_unknown_pod(pod: dict[str, Any] | None) -> None:
    """A pod that is not there, or is another one, vouches for nothing."""
    (refusal,) = check_generated_claim(a_claim(SPEC), pod)
    assert refusal.code == "ClaimOwnerUnknown"


def test_owner() -> None:
    """Whom to look for is read from the claim."""
    assert owner_of(a_claim(SPEC)) == ("p", "u-1", "gpu-main")
    assert owner_of({"metadata": {"ownerReferences": "x"}}) is None
    assert owner_of({}) is None
    assert owner_of(a_claim(SPEC, uid=3)) is None
    assert owner_of(a_claim(SPEC, apiVersion="other.example/v1")) is None
