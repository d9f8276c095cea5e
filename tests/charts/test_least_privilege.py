"""Pods and roles of every render have no more than they need, and say why they have it."""

import json
import re
import subprocess
from typing import Final

import pytest

from tests.charts.matrix import CASES, Case
from tests.charts.rendering import (
    RELEASE,
    pod_templates,
)
from tests.charts.tools import POD_SECURITY, program

_AGENT: Final = f"DaemonSet/{RELEASE}-node-agent"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pods_have_no_more_than_they_need(case: Case) -> None:
    """Nothing writes into an image, gains privileges or is told of Services; images have a tag."""
    for name, template in pod_templates(case.objects()):
        pod = template["spec"]
        assert pod["enableServiceLinks"] is False
        assert not any(pod.get(each) for each in ("hostNetwork", "hostIPC"))
        assert pod.get("hostPID", False) is False or name == _AGENT
        for each in [*pod["containers"], *pod.get("initContainers", [])]:
            context = each["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            if not context.get("privileged"):
                assert context["allowPrivilegeEscalation"] is False
                assert context["capabilities"] == {"drop": ["ALL"]}
            assert context.get("privileged", False) is (each["name"] == "node-agent")
            assert re.search(r":[^/:]+$|@sha256:", each["image"]), each["image"]
            assert "latest" not in each["image"]
            if case.values == "rich" and each["name"] not in {"library", "install-library"}:
                assert each["resources"]["requests"]


def test_all_pods_but_the_agents_are_restricted() -> None:
    """Kubernetes' own judge admits them at the level restricted of each release."""
    questions = [
        {
            "level": "restricted",
            "version": f"v1.{case.minor}",
            "name": f"{case} {name}",
            "pod": template,
        }
        for case in CASES
        for name, template in pod_templates(case.objects())
    ]
    said = subprocess.run(  # noqa: S603 - as it was built
        [str(program(POD_SECURITY))],
        input=json.dumps(questions),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    agents = [line for line in said if f" {_AGENT}: " in line]
    assert [line for line in said if line not in agents] == []
    assert agents, "the judge judges nothing"


_FORBIDDEN_VERBS: Final = {"*", "escalate", "bind", "impersonate"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_role_is_wider_than_it_must_be(case: Case) -> None:
    """No wildcard, no Secret but by its name, nothing by which more rights could be had."""
    for each in case.objects():
        for rule in each.get("rules", []) if each["kind"] in {"Role", "ClusterRole"} else []:
            assert not _FORBIDDEN_VERBS & set(rule["verbs"]), rule
            assert "*" not in [*rule["apiGroups"], *rule["resources"]], rule
            if "secrets" in rule["resources"]:
                assert each["kind"] == "Role"
                assert rule["verbs"] == ["create"] or rule["resourceNames"], rule
                assert not {"list", "watch"} & set(rule["verbs"]), rule
            assert not {"pods/exec", "nodes/proxy", "serviceaccounts/token"} & {*rule["resources"]}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_right_says_why(case: Case) -> None:
    """Each rule of a role has a comment above it, or goes on with what the rule before is about."""
    for document in case.text().split("\n---\n"):
        if not re.search(r"^kind: (Cluster)?Role$", document, re.MULTILINE):
            continue
        lines = document.splitlines()
        start = lines.index("rules:")
        resources = ""
        for number in range(start + 1, len(lines)):
            if not lines[number].startswith("- "):
                continue
            before, resources = resources, lines[number + 1]
            said = lines[number - 1].startswith("# ") or resources == before
            assert said, "\n".join(lines[number : number + 3])
