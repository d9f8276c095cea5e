"""Checks of releases: skew, known faults, runtimes."""

import pytest

from cli.doctor.cluster.releases import FAULTS, Skew, skew_of
from cli.doctor.model import Status
from cli.doctor.release import Release, lacks_cdi, lets_pods_override, release_of
from tests.cli.doctor.world import NODES, SLICES, node, published, world


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("v1.31.2+k3s1", (1, 31, 2)),
        ("v1.29.11-eks-56e63d8", (1, 29, 11)),
        ("1.7.0~rc1", (1, 7, 0)),
        ("2.1", (2, 1, 0)),
        ("unknown", None),
        ("", None),
    ],
)
def test_releases_are_read_with_suffixes(text: str, release: tuple[int, int, int] | None) -> None:
    """Vendors add what they like behind the numbers."""
    assert release_of(text) == release


@pytest.mark.parametrize(
    ("kubelet", "server", "has_gpus", "skew"),
    [
        (37, 36, False, Skew.NEWER),
        (33, 37, False, Skew.OLD),
        (33, 36, False, None),
        (33, 36, True, Skew.NO_CLAIMS),
        (35, 36, True, Skew.BY_GATE),
        (35, 35, True, None),
        (32, 33, True, None),
        (36, 37, True, None),
    ],
)
def test_skew(kubelet: int, server: int, has_gpus: bool, skew: Skew | None) -> None:  # noqa: FBT001
    """A kubelet is newer, too old, too old for claims, or able to share by a gate alone."""
    assert skew_of(Release(1, kubelet), Release(1, server), has_gpus=has_gpus) is skew


def test_skew_of_a_cluster() -> None:
    """The worst that kubelets have is told, with the nodes that have it."""
    with world("1.36") as at:
        at.put(NODES, node("a", kubelet="v1.36.2"), node("b", kubelet="v1.35.1"))
        assert at.verdict("kubelet-skew").seen == "API server 1.36.0, 2 kubelets of 1.35, 1.36"
        at.put(SLICES, published("b"))
        verdict = at.verdict("kubelet-skew")
        assert (verdict.status, "b (1.35.1)" in verdict.seen) == (Status.WARNING, True)
        at.put(NODES, node("c", kubelet="v1.37.0"))
        verdict = at.verdict("kubelet-skew")
        assert (verdict.status, "c (1.37.0)" in verdict.seen) == (Status.FAILED, True)


def test_known_faults_are_those_of_the_patch_level() -> None:
    """The kubelet that hangs is named by its patch level, and one patch later it is not."""
    with world("1.36") as at:
        at.put(NODES, node("a", kubelet="v1.34.0"), node("b", kubelet="v1.36.1"))
        at.put(SLICES, published("b"))
        assert at.verdict("known-faults").status is Status.OK
        at.put(SLICES, published("a"))
        verdict = at.verdict("known-faults")
        assert verdict.status is Status.WARNING
        assert any("hangs" in each and "1.34.2" in each for each in verdict.details)


def test_scheduler_is_known_by_its_image() -> None:
    """Where kube-scheduler runs as a pod its tag counts, elsewhere the server's release."""
    with world("1.36") as at:
        image = "registry.example.com/kube-scheduler:v1.34.4@sha256:00"
        spec = {"containers": [{"name": "s", "image": image}]}
        labels = {"component": "kube-scheduler"}
        scheduler = {"metadata": {"name": "s", "labels": labels}, "spec": spec}
        at.front.serve("/api/v1/namespaces/kube-system/pods", scheduler)
        (said,) = at.verdict("known-faults").details
        assert said.startswith("kube-scheduler 1.34.4 ends at")
    with world("1.34") as at:
        assert "kube-scheduler 1.34.0" in at.verdict("known-faults").details[0]


def test_faults_end_after_they_begin() -> None:
    """Each known fault has a first release, and a first one without it after that."""
    for fault in FAULTS:
        assert fault.since < fault.until


@pytest.mark.parametrize(
    ("release", "overrides"),
    [
        ((1, 34, 0), False),
        ((1, 33, 3), False),
        ((1, 33, 2), True),
        ((1, 32, 7), False),
        ((1, 31, 10), True),
        ((1, 31, 11), False),
        ((1, 30, 99), True),
        ((1, 35, 0), False),
    ],
)
def test_crio_that_lets_pods_override(release: tuple[int, int, int], overrides: bool) -> None:  # noqa: FBT001
    """CRI-O's mended patch levels are one for each minor, and older minors have none."""
    assert lets_pods_override("cri-o", Release(*release)) is overrides
    assert not lets_pods_override("containerd", Release(*release))


def test_runtimes_of_gpu_nodes() -> None:
    """Only nodes with GPUs count, and one whose runtime lacks CDI is the worst."""
    assert lacks_cdi("containerd", Release(1, 6, 30))
    with world() as at:
        at.put(NODES, node("plain", runtime="containerd://1.6.1"))
        assert at.verdict("runtime-releases").status is Status.SKIPPED
        gpu = {"nvidia.com/gpu.present": "true"}
        at.put(NODES, node("a", labels=gpu))
        assert at.verdict("runtime-releases").seen == "on nodes with GPUs: containerd 2.1"
        at.put(NODES, node("b", labels=gpu, runtime="cri-o://1.32.1"))
        assert at.verdict("runtime-releases").status is Status.WARNING
        at.put(NODES, node("c", labels=gpu, runtime="containerd://1.6.20"))
        verdict = at.verdict("runtime-releases")
        assert (verdict.status, "c (containerd 1.6.20)" in verdict.seen) == (Status.FAILED, True)
