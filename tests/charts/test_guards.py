"""What the chart refuses, and that each refusal names the value and what to do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from charts.values import moved, schema
from cli.doctor.cluster.owners import PRODUCTS
from tests.charts.apiserver import install
from tests.charts.rendering import (
    NAMESPACE,
    RELEASE,
    Object,
    RefusedError,
    nested,
    of_kind,
    render,
)


def _refused(values: Mapping[str, Any], said: str, **where: Any) -> None:
    with pytest.raises(RefusedError) as refusal:
        render(values, **where)
    assert said in str(refusal.value)
    assert str(refusal.value).count("execution error") == 1


def test_the_default_namespace_is_refused_unless_it_is_allowed() -> None:
    """Everybody may write into it; whoever wants that says so."""
    _refused({}, "allowDefaultNamespace=true", namespace="default")
    _refused({"namespaceOverride": "default"}, "--namespace gpuslice-system")
    assert render({"allowDefaultNamespace": True}, namespace="default")
    assert render({"namespaceOverride": "gpus"}, namespace="default")


@pytest.mark.parametrize("kubernetes", ["1.25.0", "1.31.2+k3s1", "1.32.0", "1.33.9-gke.1"])
def test_claims_are_refused_where_no_server_has_them(kubernetes: str) -> None:
    """Below 1.34 mode dra says what to use, and what to say of a server that serves them."""
    _refused({"mode": "dra"}, "use mode=auto or mode=hami", kubernetes=kubernetes)
    _refused({"mode": "dra", "resourceApiVersion": "v1"}, "mode=dra", kubernetes=kubernetes)


@pytest.mark.parametrize(("version", "kubernetes"), [("v1beta1", "1.31.0"), ("v1beta2", "1.32.0")])
def test_claims_are_refused_in_a_version_that_came_later(version: str, kubernetes: str) -> None:
    """No server of that release can be told to serve it."""
    values = {"mode": "dra", "resourceApiVersion": version}
    _refused(values, f"serves no claims by resourceApiVersion={version}", kubernetes=kubernetes)


@pytest.mark.parametrize(
    ("version", "kubernetes"),
    [("v1beta1", "1.32.0"), ("v1beta1", "1.33.0"), ("v1beta2", "1.33.0"), ("v1beta2", "1.34.0")],
)
def test_older_versions_of_claims_are_for_servers_that_have_them(
    version: str, kubernetes: str
) -> None:
    """An administrator who has switched claims on gets whole GPUs, by the version that is named."""
    objects = render({"mode": "dra", "resourceApiVersion": version}, kubernetes=kubernetes)
    classes = of_kind(objects, "DeviceClass")
    assert {each["apiVersion"] for each in classes} == {f"resource.k8s.io/{version}"}


@pytest.mark.parametrize(
    ("values", "kubernetes", "said"),
    [
        ({"mode": "dra", "scheduler": {"enabled": True}}, "1.37.0", "scheduler.enabled=true"),
        (
            {
                "mode": "dra",
                "webhook": {"enabled": False},
                "deviceConfig": {"sections": {"nvidia": {"defaultMemory": 1024}}},
            },
            "1.37.0",
            "set webhook.enabled=true",
        ),
        (
            {
                "mode": "hami",
                "kubeletPlugin": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            },
            "1.37.0",
            "kubeletPlugin.updateStrategy.rollingUpdate.maxSurge",
        ),
        (
            {"kubeletPlugin": {"updateStrategy": {"rollingUpdate": {"maxSurge": "10%"}}}},
            "1.33.0",
            "kubeletPlugin.updateStrategy.rollingUpdate.maxSurge",
        ),
        (
            {"webhook": {"podDisruptionBudget": {"minAvailable": 2}}},
            "1.37.0",
            "webhook.podDisruptionBudget.minAvailable=2: with webhook.replicas=2",
        ),
        (
            {"webhook": {"podDisruptionBudget": {"minAvailable": "100%"}}},
            "1.37.0",
            "webhook.podDisruptionBudget.minAvailable=100%",
        ),
        (
            {"mode": "hami", "scheduler": {"replicas": 2, "leaderElect": False}},
            "1.37.0",
            "leaderElect=true",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(
    values: dict[str, Any], kubernetes: str, said: str
) -> None:
    """Each sentence names the value that stands in the way."""
    _refused(values, said, kubernetes=kubernetes)


def _foreign(key: str) -> None:
    _refused(nested(key, {"a": "b"}), f"{key}: ")


@pytest.mark.ahead(by=_foreign)
@pytest.mark.parametrize("key", sorted(moved.keys()))
def test_values_of_other_charts_are_refused_with_what_to_use(key: str) -> None:
    """The schema lets them through to the template, which knows the successor."""
    _foreign(key)
    _refused(nested(key, {"a": "b"}), moved.keys()[key])


def test_values_of_other_charts_are_refused_whatever_they_say() -> None:
    """Also false and nothing are something that was said."""
    _refused({"devicePlugin": False}, "hamiCompat.devicePlugin")
    _refused({"scheduler": {"patch": {}}}, "hamiCompat.scheduler.patch")


def test_keys_that_two_charts_share_are_ours() -> None:
    """What is let pass as a value of this chart is one, and what is refused as HAMi's is none."""
    known = set(_paths(schema.document()))
    assert set(moved.shared()) <= known
    assert not set(moved.keys()) & known
    named = {word for each in moved.keys().values() for word in _values_named(each)}
    assert named <= known


def _paths(part: Object, before: str = "") -> list[str]:
    return [
        path
        for key, inner in schema.known(part).items()
        for path in (before + key, *_paths(inner, f"{before}{key}."))
    ]


_TOP: Final = set(schema.known(schema.document()))


def _values_named(sentence: str) -> list[str]:
    words = sentence.replace(",", " ").split()
    return [
        word for word in words if word.partition(".")[0] in _TOP - {"hamiCompat"} and "." in word
    ]


def _daemon_set(name: str, image: str, *, container: str = "main", nodes: int = 3) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "other"},
        "spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}},
        "status": {"desiredNumberScheduled": nodes},
    }


@pytest.mark.parametrize("helm", [3, 4])
def test_an_empty_cluster_is_installed_into(tmp_path: Path, helm: int) -> None:
    """With nobody else there, helm renders by what it looked up."""
    assert "kind: DaemonSet" in install(tmp_path, [], helm=helm)


@pytest.mark.parametrize(
    ("name", "word"), [(each.name, word) for each in PRODUCTS for word in each.words]
)
def test_another_owner_of_gpus_is_refused(tmp_path: Path, name: str, word: str) -> None:
    """Each product that doctor knows is known to the chart, and named with its DaemonSet."""
    owner = _daemon_set("gpus", f"registry.example.com/{word}:1.0")
    with pytest.raises(RefusedError, match="gpuResourcesEnabledOverride=true") as refusal:
        install(tmp_path, [owner])
    assert f"{name} (DaemonSet other/gpus)" in str(refusal.value)


@pytest.mark.parametrize("helm", [3, 4])
def test_another_owner_is_let_be_when_that_is_asked_for(tmp_path: Path, helm: int) -> None:
    """Side by side on different nodes is how clusters are migrated."""
    owner = _daemon_set(
        "nvidia-device-plugin-daemonset", "registry.example.com/k8s-device-plugin:1"
    )
    with pytest.raises(RefusedError, match="another owner of GPUs"):
        install(tmp_path, [owner], helm=helm)
    values = {"gpuResourcesEnabledOverride": True}
    assert "kind: DaemonSet" in install(tmp_path, [owner], values, helm=helm)
    without = {"kubeletPlugin": {"enabled": False}}
    assert "kind: Deployment" in install(tmp_path, [owner], without, helm=helm)


_LABELS: Final = {"app.kubernetes.io/name": "gpuslice", "app.kubernetes.io/instance": RELEASE}


@pytest.mark.parametrize(
    "harmless",
    [
        _daemon_set("nvidia-device-plugin", "registry.example.com/k8s-device-plugin:1", nodes=0),
        _daemon_set("node-exporter", "registry.example.com/node-exporter:1"),
        _daemon_set(
            "nvidia-dra-driver-gpu-kubelet-plugin",
            "registry.example.com/k8s-dra-driver-gpu:1",
            container="compute-domains",
        ),
    ],
    ids=["on no node", "another thing", "without its part for GPUs"],
)
def test_who_gives_no_gpus_away_is_let_be(tmp_path: Path, harmless: Object) -> None:
    """A DaemonSet on no node, one of something else, and NVIDIA's driver without its GPU part."""
    assert "kind: DaemonSet" in install(tmp_path, [harmless])


def test_a_second_release_is_another_owner_and_the_own_one_is_not(tmp_path: Path) -> None:
    """An upgrade finds its own agents; two releases would serve the same GPUs."""
    own = _daemon_set("agent-of-the-last-release", "gpuslice:1")
    own["metadata"].update(labels=_LABELS, namespace=NAMESPACE)
    assert "kind: DaemonSet" in install(tmp_path, [own])
    own["metadata"]["namespace"] = "elsewhere"
    with pytest.raises(RefusedError, match="another release of this chart"):
        install(tmp_path, [own])


def test_classes_of_another_driver_are_an_owner_too(tmp_path: Path) -> None:
    """They are there where its GPU part is switched on; one that this chart made is nobody's."""
    theirs: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
    }
    with pytest.raises(RefusedError, match=r"NVIDIA's DRA driver \(DeviceClass gpu.nvidia.com\)"):
        install(tmp_path, [theirs])
    assert install(tmp_path, [theirs], {"mode": "hami"})
    theirs["metadata"]["labels"] = _LABELS
    assert install(tmp_path, [theirs])
