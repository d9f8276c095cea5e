"""Tests of the modules that the cluster is built from."""

import re

import pytest

from tests.charts.tools import MODULES
from tests.cluster.errors import MissingError
from tests.cluster.go_modules import (
    CDI_CHECK,
    FOLDER,
    kubernetes,
    kubernetes_release,
    minors,
    modules_of,
)


def test_five_minors_can_be_built() -> None:
    """Every supported minor has a module whose release is of that minor."""
    assert minors() == ("1.33", "1.34", "1.35", "1.36", "1.37")
    for minor in minors():
        assert kubernetes_release(minor).startswith(f"v{minor}.")


@pytest.mark.parametrize("minor", minors())
def test_staging_modules_match_their_release(minor: str) -> None:
    """A Kubernetes module takes every staging module at the version of its release."""
    text = (kubernetes(minor).folder / "go.mod").read_text()
    staging = re.findall(
        r"^\s+(k8s\.io/[\w-]+) v0\.(\d+)\.(\d+)( // indirect)?$", text, re.MULTILINE
    )
    release = kubernetes_release(minor).split(".")
    versions = {name: (number, patch) for name, number, patch, _ in staging}
    wanted = tuple(release[1:])
    others = {name for name, version in versions.items() if version != wanted}
    assert others <= {"k8s.io/gengo", "k8s.io/kube-openapi", "k8s.io/utils"}
    assert versions["k8s.io/dynamic-resource-allocation"] == wanted
    assert "v0.0.0\n" not in text


def test_every_module_has_sums() -> None:
    """No module builds from versions that are not pinned by their content."""
    for minor in minors():
        for module in modules_of(minor):
            assert (module.folder / "go.sum").stat().st_size > 0


def test_kubernetes_knows_its_version() -> None:
    """The linker writes the release into both version packages."""
    flags = " ".join(kubernetes("1.37").linker_flags())
    release = kubernetes_release("1.37")
    assert f"-X k8s.io/component-base/version.gitVersion={release}" in flags
    assert f"-X k8s.io/client-go/pkg/version.gitVersion={release}" in flags
    assert "version.gitMinor=37" in flags
    assert CDI_CHECK.linker_flags() == ("-s", "-w")


def test_minors_have_hashes_of_their_own() -> None:
    """A module's hash tells its content apart from every other's."""
    modules = [module for minor in minors() for module in modules_of(minor)]
    hashes = {module.content_hash() for module in (*modules, *MODULES)}
    assert len(hashes) == len(list(FOLDER.iterdir()))


def test_unknown_minor_names_the_known_ones() -> None:
    """A minor without a module is refused with those that have one."""
    with pytest.raises(MissingError, match=r"1\.99 is not among 1\.33, .*1\.37"):
        kubernetes("1.99")
