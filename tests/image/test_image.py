"""What is in the built image, and what runs in it."""

import json
import re
import stat
from typing import Any

import pytest

from image import sources
from image.builders import TIME_S
from image.places import SBOM
from tests.image.conftest import Unpacked

pytestmark = pytest.mark.image

_HELP = ("", "node-agent", "webhook", "extender", "discover", "install-library", "explain")
# What the modules need that are for the demo, for `explain` and for the build of the package.
_NOT_THERE = {"cel_expr_python", "grpc_tools", "hatchling", "jsonschema", "kubernetes_validate"}
_IMPORT_ALL = """
import importlib, json, pkgutil
failed, count = {}, 0
for top in "cdi cli dra extender gpu hami kube protos sim webhook".split():
    for found in pkgutil.walk_packages(importlib.import_module(top).__path__, top + "."):
        if found.name.endswith("__main__"):
            continue
        count += 1
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            failed[found.name] = error.name
print(json.dumps([count, failed]))
"""
_DISTRIBUTIONS = """
import json
from importlib.metadata import distributions
print(json.dumps([[each.name, each.version, bool(each.metadata.get("License")
    or each.metadata.get("License-Expression"))] for each in distributions()]))
"""


@pytest.mark.parametrize("command", _HELP)
def test_each_program_starts_as_nobody_on_a_read_only_file_system(
    image: Unpacked, command: str
) -> None:
    """`--help` of each program is told by the image's user, who can write nowhere."""
    done = image.run(*image.config["config"]["Entrypoint"], *command.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: gpuslice")
    assert not done.stderr


def test_user_is_nobody_in_particular_by_number(image: Unpacked) -> None:
    """Kubelet can see that the user is not root, which it cannot of a name."""
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", image.config["config"]["User"])
    told = image.python("import os; print(os.getuid(), os.getgid(), os.getgroups())")
    assert told.split()[:2] == image.config["config"]["User"].split(":")


def test_no_module_of_a_program_fails_to_import(image: Unpacked) -> None:
    """All modules import, but for those of the demo, of `explain` and of the package's build."""
    count, failed = json.loads(image.python(_IMPORT_ALL))
    assert count > 500
    assert set(failed.values()) <= _NOT_THERE
    tops = {".".join(name.split(".")[:2]) for name in failed}
    assert {each for each in tops if not each.startswith("sim.")} <= {
        "cli.demo",
        "cli.explain",
        "protos.build",
    }


def test_modules_are_compiled_whatever_the_time_of_their_files(image: Unpacked) -> None:
    """Bytecode is there for our modules and the library's, and is used without a look at times."""
    told = image.python(
        "import email.parser, json, dra.publisher as ours\n"
        "print(json.dumps([ours.__cached__, email.parser.__cached__]))"
    )
    for cached in json.loads(told):
        content = (image.root / cached.lstrip("/")).read_bytes()
        assert int.from_bytes(content[4:8], "little") == 0b01, "unchecked hash"


def test_holds_no_shell_compiler_installer_or_test(image: Unpacked) -> None:
    """Nothing can be installed, built or typed in there, and no package brings its tests."""
    programs = {
        name
        for name, member in image.members.items()
        if member.isfile() and member.mode & 0o111 and ".so" not in name
    }
    assert programs == {
        "opt/gpuslice/bin/gpuslice",
        *(name for name in image.members if re.fullmatch(r"usr/(local/)?bin/python3\.\d+", name)),
    }
    packages = {each.name for each in image.root.glob("opt/gpuslice/lib/python3*/site-packages/*")}
    assert packages
    unwanted = {"pip", "setuptools", "wheel", "pytest", "mypy", "tests", "grpc_tools", "image"}
    assert not packages & unwanted
    found = [path for path in image.root.rglob("tests") if "site-packages" in path.parts]
    assert not found


def test_no_file_gives_rights_or_can_be_changed(image: Unpacked) -> None:
    """No file runs as its owner, all are root's, and only /tmp takes files of anybody."""
    for name, member in image.members.items():
        assert not member.mode & (stat.S_ISUID | stat.S_ISGID), name
        assert (member.uid, member.gid) == (0, 0), name
        if not member.issym() and name != "tmp":
            assert not member.mode & (stat.S_IWGRP | stat.S_IWOTH), name
    assert stat.S_IMODE(image.members["tmp"].mode) == 0o1777
    assert not any(
        "security.capability" in key for m in image.members.values() for key in m.pax_headers
    )


def test_has_what_nvidias_library_of_the_node_needs(image: Unpacked) -> None:
    """The node's NVML finds the parts of a C library that it names, and the loader finds them."""
    told = image.python(
        "import ctypes\n"
        "for name in 'libc.so.6 libdl.so.2 libm.so.6 libpthread.so.0 librt.so.1'.split():\n"
        "    print(ctypes.CDLL(name)._name)"
    )
    assert len(told.split()) == 5


def test_public_authorities_are_known(image: Unpacked) -> None:
    """TLS to a server that a public authority vouches for can be checked."""
    told = image.python("import ssl; print(len(ssl.create_default_context().get_ca_certs()))")
    assert int(told) > 50


def test_names_and_labels_tell_what_it_is(image: Unpacked) -> None:
    """The image is named by its version alone, and labelled with the commit it was made from."""
    state = sources.read()
    assert [tag.rpartition("/")[2] for tag in image.tags] == [f"gpuslice:{state.version}"]
    labels = image.config["config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == state.version
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", labels["org.opencontainers.image.revision"])
    assert image.config["os"] == "linux"


def test_all_files_have_one_time(image: Unpacked) -> None:
    """No file says when the image was built, so a layer that has not changed stays the same."""
    assert {member.mtime for member in image.members.values()} == {TIME_S}


def components(image: Unpacked) -> dict[str, dict[str, Any]]:
    """Return what the image's document says of each part, by a name that all tools agree on."""
    path = image.root / "usr/share/gpuslice/sbom.cdx.json"
    bom = json.loads(path.read_text(encoding="utf-8"))
    assert bom["bomFormat"] == "CycloneDX"
    found = [bom["metadata"]["component"], *bom["components"]]
    return {normal(each["name"]): each for each in found}


def normal(name: str) -> str:
    """Return a distribution's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_document_names_every_package_with_version_and_licence(image: Unpacked) -> None:
    """Each distribution of the environment is in the document, with the licence that it tells."""
    told = components(image)
    installed = json.loads(image.python(_DISTRIBUTIONS))
    assert {"gpuslice", "grpcio", "fastapi", "numpy"} <= {name for name, *_ in installed}
    for name, version, has_licence in installed:
        component = told[normal(name)]
        assert component["version"] == version, name
        assert component.get("licenses") or not has_licence, name


def test_document_names_what_is_of_the_distribution(image: Unpacked) -> None:
    """Each package of which a file was taken is in the document, and so is its licence's text."""
    told = components(image)
    packages = list((image.root / "var/lib/dpkg/status.d").iterdir())
    assert {"libc6", "ca-certificates"} <= {each.name for each in packages}
    for each in packages:
        fields = dict(
            line.split(": ", 1)
            for line in each.read_text().splitlines()
            if re.match(r"\w+: ", line)
        )
        component = told[normal(each.name)]
        assert component["version"] == fields["Version"]
        assert component["purl"].startswith("pkg:deb/")
        assert (image.root / "usr/share/doc" / each.name / "copyright").stat().st_size > 0
    version = image.python("import platform; print(platform.python_version())").strip()
    assert told["python"]["version"] == version


def test_document_is_laid_beside_the_archive(image: Unpacked) -> None:
    """`make image` leaves the same document in the build folder."""
    inside = image.root / "usr/share/gpuslice/sbom.cdx.json"
    assert SBOM.read_bytes() == inside.read_bytes()
