"""The manifests of the extender agree with the program."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.routes import filtering
from extender.settings import ExtenderSettings
from hami.deviceconfig import NvidiaConfig

_FOLDER = Path(__file__).parents[2] / "manifests" / "hami" / "scheduler"


def _documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_FOLDER / name).read_text()))


def _configuration() -> dict[str, Any]:
    (config_map,) = _documents("config.yaml")
    found: dict[str, Any] = yaml.safe_load(config_map["data"]["config.yaml"])
    return found


def _extender() -> dict[str, Any]:
    (found,) = _configuration()["extenders"]
    assert isinstance(found, dict)
    return found


def _settings() -> ExtenderSettings:
    return ExtenderSettings.from_arguments([], program="gpuslice-extender")


def test_kube_scheduler_asks_where_the_extender_listens() -> None:
    """By its defaults, and for as long as these say."""
    extender, settings = _extender(), _settings()
    assert extender["urlPrefix"] == f"http://{settings.address}:{settings.port}"
    assert f"/{extender['filterVerb']}" == filtering.PATH
    assert extender["bindVerb"] == "bind"
    assert extender["httpTimeout"] == f"{settings.http_timeout_s:.0f}s"
    assert "prioritizeVerb" not in extender


def test_no_pod_goes_past_the_extender() -> None:
    """Names come, not nodes; and a failure is a failure."""
    extender = _extender()
    assert extender["nodeCacheCapable"] is True
    assert extender["ignorable"] is False


def test_all_names_are_managed_and_only_the_count_is_counted() -> None:
    """No node has the others, so kube-scheduler must not look for them."""
    managed = {each["name"]: each["ignoredByScheduler"] for each in _extender()["managedResources"]}
    nvidia = NvidiaConfig()
    assert managed.keys() == nvidia.keys
    assert [name for name, ignored in managed.items() if not ignored] == [
        nvidia.resource_count_name
    ]


def test_the_lease_is_that_of_the_scheduler() -> None:
    """Its name is the one by default; its rights are in the namespace that it is in."""
    election = _configuration()["leaderElection"]
    assert election["resourceName"] == _settings().leader_elect_resource_name
    roles = [each for each in _documents("rbac.yaml") if each["kind"] == "Role"]
    assert {each["metadata"]["namespace"] for each in roles} == {election["resourceNamespace"]}
    (profile,) = _configuration()["profiles"]
    assert profile["schedulerName"] == _settings().scheduler_name


@pytest.mark.parametrize(
    ("resource", "verbs"),
    [
        ("nodes", {"list", "watch", "patch"}),
        ("pods", {"get", "list", "watch", "patch"}),
        ("pods/binding", {"create"}),
        ("resourcequotas", {"list", "watch"}),
        ("events", {"create", "patch"}),
    ],
)
def test_rights_are_those_of_its_requests(resource: str, verbs: set[str]) -> None:
    """Not one more."""
    (role,) = [each for each in _documents("rbac.yaml") if each["kind"] == "ClusterRole"]
    (rule,) = [each for each in role["rules"] if resource in each["resources"]]
    assert set(rule["verbs"]) == verbs


def test_everything_is_bound_to_the_one_account() -> None:
    """Which exists."""
    documents = _documents("rbac.yaml")
    (account,) = [each for each in documents if each["kind"] == "ServiceAccount"]
    for binding in (each for each in documents if "subjects" in each):
        (subject,) = binding["subjects"]
        assert subject["name"] == account["metadata"]["name"]
        assert subject["namespace"] == account["metadata"]["namespace"]
    roles = {
        (each["kind"], each["metadata"]["name"]) for each in documents if "Role" in each["kind"]
    }
    kubernetes = re.compile("system:|extension-apiserver")
    for binding in (each for each in documents if "roleRef" in each):
        ref = binding["roleRef"]
        assert kubernetes.match(ref["name"]) or (ref["kind"], ref["name"]) in roles
