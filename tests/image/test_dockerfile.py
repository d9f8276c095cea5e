"""Tests of the Dockerfile and of the pins that it installs."""

import re
import tomllib
from typing import Any

import pytest

from image.sources import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
REQUIREMENTS = ROOT / "requirements"


def pyproject() -> dict[str, Any]:
    """Return the project's description."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions that a file pins, by package."""
    found: dict[str, set[str]] = {}
    for line in (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([a-z0-9.-]+)==([^ ;\\]+)", line):
            found.setdefault(match[1], set()).add(match[2])
    return found


def test_no_image_is_named_by_the_dockerfile() -> None:
    """Where the base comes from is said by who builds; everything else is a stage or nothing."""
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert len(stages) == DOCKERFILE.count("\nFROM ")
    known = {"${BASE}", "scratch"}
    for source, name in stages:
        assert source in known
        known.add(name)
    assert set(re.findall(r"--from=(\S+)", DOCKERFILE)) <= known


def test_nothing_is_of_one_architecture() -> None:
    """The same file builds for both."""
    assert not re.search(r"x86|amd64|aarch64|arm64|linux-gnu", DOCKERFILE)


def test_only_files_that_are_pinned_by_hash_are_installed() -> None:
    """Each installation takes wheels by their hashes, or what was just built, and nothing else."""
    lines = DOCKERFILE.replace("\\\n", " ")
    installations = re.findall(r"pip (?:--python \S+ )?install ([^&\n]*)", lines)
    assert len(installations) == 3
    for each in installations:
        assert "--require-hashes" in each or "--no-index" in each
        assert "--only-binary :all:" in each or "--no-index" in each
    assert set(re.findall(r"-r /build/(\S+)", lines)) == {"image.txt", "build.txt"}


def test_image_has_the_versions_that_tests_ran_with() -> None:
    """Every pin of the image is one of those of the developers' environment."""
    tested = pins("dev.txt")
    found = pins("image.txt")
    assert {"grpcio", "fastapi", "msgspec"} <= set(found)
    for name, versions in found.items():
        assert versions <= tested[name], name


@pytest.mark.parametrize("extra", ["webhook", "extender"])
def test_pins_hold_what_the_programs_need(extra: str) -> None:
    """Each requirement of the project and of its servers is pinned."""
    project = pyproject()["project"]
    for each in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        name = re.match(r"[A-Za-z0-9-]+", each)
        assert name
        assert name[0] in pins("image.txt")


def test_build_has_what_the_package_is_built_with() -> None:
    """The group that is pinned for the build begins with what the build system asks for."""
    described = pyproject()
    asked = described["build-system"]["requires"]
    assert described["dependency-groups"]["image-build"][: len(asked)] == asked
    assert {re.split("[=<>]", each)[0] for each in asked} <= set(pins("build.txt"))
