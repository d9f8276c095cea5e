"""What the webhook may do, by way and by release."""

from typing import Any, Final

import pytest

from tests.charts.rendering import (
    NAMESPACE,
    nested,
    of_kind,
    one,
    render,
    render_text,
)
from tests.charts.webhooks import (
    NAME,
    pod_of,
    rights,
)

NAMED = {
    ("services", "gpuslice-webhook", "get"),
    ("leases", "gpuslice-webhook", "get"),
    ("leases", "gpuslice-webhook", "update"),
    ("leases", "", "create"),
}
SECRET = {
    ("secrets", "gpuslice-webhook-tls", "get"),
    ("secrets", "gpuslice-webhook-tls", "update"),
    ("secrets", "", "create"),
}


def test_it_changes_only_its_own_objects_and_templates() -> None:
    """Everything else is read, and what can be bound to a name is."""
    objects = render()
    found = rights(one(objects, "ClusterRole", NAME))
    writes = {each for each in found if each[2] not in {"get", "list", "watch"}}
    assert writes == {
        ("resourceclaimtemplates", "", "create"),
        ("resourceclaimtemplates", "", "delete"),
        ("events", "", "create"),
        ("events", "", "patch"),
        ("subjectaccessreviews", "", "create"),
        ("mutatingwebhookconfigurations", "gpuslice", "patch"),
        ("validatingwebhookconfigurations", "gpuslice", "patch"),
    }
    assert "secrets" not in {resource for resource, _, _ in found}
    assert rights(one(objects, "Role", NAME)) == NAMED | SECRET


_READ: Final = frozenset({"list", "watch"})
_MADE: Final = frozenset({*_READ, "create", "delete"})


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.25.16", _MADE),
        ("auto", "1.33.4", _MADE),
        ("auto", "1.37.0", _MADE),
        ("dra", "1.34.0", _MADE),
        ("hami", "1.25.16", _READ | {"delete"}),
        ("hami", "1.37.0", _READ | {"delete"}),
    ],
)
def test_templates_are_made_only_where_claims_may_serve(
    mode: str, kubernetes: str, expected: frozenset[str]
) -> None:
    """Whether they do is asked by a create, also of older servers: these can be upgraded."""
    role = rights(one(render({"mode": mode}, kubernetes=kubernetes), "ClusterRole", NAME))
    assert {verb for found, _, verb in role if found == "resourceclaimtemplates"} == expected
    read = {(found, verb) for found, _, verb in role}
    for kind in ("resourceslices", "resourceclaims"):
        assert {verb for found, verb in read if found == kind} == _READ


@pytest.mark.parametrize(
    ("values", "kubernetes"),
    [({}, "1.37.0"), ({}, "1.33.4"), ({"mode": "hami"}, "1.37.0")],
)
def test_every_right_says_why(values: dict[str, Any], kubernetes: str) -> None:
    """A comment stands before each rule."""
    lines = [line.strip() for line in render_text(values, kubernetes=kubernetes).splitlines()]
    rules = [index for index, line in enumerate(lines) if line.startswith("- apiGroups:")]
    roles = [index for index in rules if "verbs:" in "".join(lines[index : index + 4])]
    assert roles
    ours = [index for index in roles if role_at(lines, index) == NAME]
    assert ours
    assert all(lines[index - 1].startswith("#") for index in ours)


def role_at(lines: list[str], index: int) -> str:
    """Return the name of the object around a line."""
    while not lines[index].startswith("name: "):
        index -= 1
    return lines[index].removeprefix("name: ")


def test_bindings_name_the_account_and_the_roles() -> None:
    """Also an account of the administrator's, which is not made."""
    values = {"webhook": {"serviceAccount": {"create": False, "name": "hook"}}}
    objects = render(values)
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert not {NAME, "hook"} & accounts
    assert pod_of(one(objects, "Deployment", NAME))["serviceAccountName"] == "hook"
    for kind in ("ClusterRole", "Role"):
        binding = one(objects, f"{kind}Binding", NAME)
        assert binding["roleRef"]["kind"] == kind
        assert binding["roleRef"]["name"] == NAME
        (subject,) = binding["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": "hook", "namespace": NAMESPACE}


def test_rights_can_be_somebody_elses_business() -> None:
    """Without rbac.create none are rendered for the webhook."""
    objects = render(nested("rbac.create", value=False))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
        assert NAME not in {each["metadata"]["name"] for each in of_kind(objects, kind)}
