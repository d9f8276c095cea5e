"""What the chart reads from the cluster for kube-scheduler and the extender."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts import schedulers
from tests.charts.apiserver import api_server
from tests.charts.rendering import (
    CHART,
    NAMESPACE,
    RELEASE,
    Object,
    RefusedError,
    merged,
    nested,
    of_kind,
    one,
    render,
    run,
)
from tests.charts.schedulers import HAMI, NAME

KUBERNETES: Final = "1.31.2+k3s1"


def _seen(
    folder: Path, objects: Sequence[Object], values: Object | None = None, *, helm: int = 4
) -> list[Object]:
    """Render where helm sees *objects* in a cluster."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(merged(HAMI, values or {})))
    with api_server(folder, objects, release=KUBERNETES) as kubeconfig:
        text = run(
            helm,
            *("template", RELEASE, str(CHART), "--namespace", NAMESPACE),
            *("--dry-run=server", "--disable-openapi-validation"),
            *("--kube-version", KUBERNETES, "--values", str(file)),
            kubeconfig=str(kubeconfig),
        )
    return [each for each in yaml.safe_load_all(text) if each]


def _object(kind: str, name: str, namespace: str, **rest: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": rest.pop("labels", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}


def _scheduler(image: str) -> Object:
    containers = [{"name": "kube-scheduler", "image": image}]
    labels = {"component": "kube-scheduler", "tier": "control-plane"}
    spec = {"containers": containers}
    return _object("Pod", "kube-scheduler-a", "kube-system", labels=labels, spec=spec)


OTHER: Final = _object("Pod", "coredns", "kube-system", spec={"containers": [{"image": "coredns"}]})


@pytest.mark.parametrize("helm", [3, 4])
def test_the_image_is_that_of_the_clusters_own_kube_scheduler(tmp_path: Path, helm: int) -> None:
    """Found by the label that kubeadm and others give its pods."""
    image = "registry.example.com:5000/kube-scheduler:v1.31.2"
    assert schedulers.image(_seen(tmp_path, [OTHER, _scheduler(image)], helm=helm)) == image


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"tag": "v1.31.9"}, "registry.example.com:5000/kube-scheduler:v1.31.9"),
        ({"repository": "mine"}, "mine:v1.31.2"),
    ],
)
def test_what_is_said_goes_before_what_is_seen(
    tmp_path: Path, image: Object, expected: str
) -> None:
    """A tag alone is of the image that was seen."""
    seen = _scheduler(f"registry.example.com:5000/kube-scheduler:v1.31.2@sha256:{64 * '0'}")
    values = nested("scheduler.kubeScheduler.image", image)
    assert schedulers.image(_seen(tmp_path, [seen], values)) == expected


def test_a_managed_control_plane_has_no_such_pods(tmp_path: Path) -> None:
    """Then the image has to be named."""
    with pytest.raises(RefusedError, match=r"set scheduler\.kubeScheduler\.image\.repository"):
        _seen(tmp_path, [OTHER])


def test_an_upgrade_keeps_the_certificate(tmp_path: Path) -> None:
    """Also with the other major of helm; a Secret that lacks a part is made anew."""
    first = render(HAMI)
    owner = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": NAMESPACE}
    secret = merged(one(first, "Secret", f"{NAME}-tls"), nested("metadata.annotations", owner))
    pod = _scheduler("kube-scheduler:v1.31.2")
    for helm in (3, 4):
        objects = _seen(tmp_path, [pod, secret], helm=helm)
        assert one(objects, "Secret", f"{NAME}-tls")["data"] == secret["data"]
        authority = one(objects, "Secret", f"{NAME}-ca")["data"]["ca.crt"]
        assert authority == secret["data"]["ca.crt"]
    broken = merged(secret, {"data": {"tls.key": ""}})
    made = one(_seen(tmp_path, [pod, broken]), "Secret", f"{NAME}-tls")["data"]
    assert made["tls.key"]
    assert made["tls.crt"] != secret["data"]["tls.crt"]


def test_names_are_read_from_a_config_map_of_yours(tmp_path: Path) -> None:
    """As the programs read them when they run."""
    text = "nvidia:\n  resourceCountName: example.com/gpu\n"
    theirs = _object("ConfigMap", "theirs", NAMESPACE, data={"device-config.yaml": text})
    pod = _scheduler("kube-scheduler:v1.31.2")
    values = nested("deviceConfig.existingConfigMap", "theirs")
    objects = _seen(tmp_path, [pod, theirs], values)
    assert schedulers.managed(objects) == {"example.com/gpu": False}
    assert not [each for each in of_kind(objects, "ConfigMap") if "device-config.yaml" in str(each)]
