"""The search for the driver, on fake trees of the hosts that people have."""

import threading
from pathlib import Path

import pytest

from gpu import driver
from gpu.errors import DriverNotFoundError

VERSION = "580.95.05"
MULTIARCH = "usr/lib/x86_64-linux-gnu"


def library(host: Path, directory: str, *, link: bool = True, version: str = VERSION) -> Path:
    """Put an NVML library into *directory* of *host* and return the file."""
    path = host / directory / f"libnvidia-ml.so.{version}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("library", encoding="utf-8")
    if link:
        path.with_name("libnvidia-ml.so.1").symlink_to(path.name)
    return path


def operator_says(host: Path, text: str) -> None:
    """Write the GPU Operator's file."""
    path = host / "run/nvidia/validations/driver-ready"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("directory", "host_path"),
    [
        ("usr/lib64", "/"),
        (MULTIARCH, "/"),
        ("usr/lib/aarch64-linux-gnu", "/"),
        (f"{MULTIARCH}/nvidia/current", "/"),
        ("usr/lib", "/"),
        ("lib64", "/"),
        ("home/kubernetes/bin/nvidia/lib64", "/home/kubernetes/bin/nvidia"),
        (f"run/nvidia/driver/{MULTIARCH}", "/run/nvidia/driver"),
    ],
)
@pytest.mark.parametrize("link", [True, False])
def test_known_places_are_found(
    tmp_path: Path, directory: str, host_path: str, *, link: bool
) -> None:
    """Every vendor's place is found, with or without the link `libnvidia-ml.so.1`."""
    file = library(tmp_path, directory, link=link)
    found = driver.find(host_root=tmp_path)
    assert found.host_path == host_path
    assert found.local_path == tmp_path / host_path.lstrip("/")
    assert (found.library_path, found.library_dir) == (file, file.parent)


def test_the_link_decides_between_versions(tmp_path: Path) -> None:
    """Of two drivers the linked one is in use, even if the other is newer."""
    used = library(tmp_path, MULTIARCH, version="570.10")
    library(tmp_path, MULTIARCH, version="580.10", link=False)
    assert driver.find(host_root=tmp_path).library_path == used


def test_without_a_link_the_newest_version_counts(tmp_path: Path) -> None:
    """Versions compare as numbers, not as text."""
    library(tmp_path, MULTIARCH, version="99.20", link=False)
    newest = library(tmp_path, MULTIARCH, version="580.9", link=False)
    assert driver.find(host_root=tmp_path).library_path == newest


def test_dangling_and_circular_links_are_passed_over(tmp_path: Path) -> None:
    """A link that leads nowhere does not end the search."""
    broken = tmp_path / "usr/lib64"
    broken.mkdir(parents=True)
    (broken / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.470.1")
    (broken / "libnvidia-ml.so.1.1").symlink_to("libnvidia-ml.so.1.1")
    file = library(tmp_path, MULTIARCH)
    assert driver.find(host_root=tmp_path).library_path == file


def test_links_are_followed_inside_the_driver_root(tmp_path: Path) -> None:
    """A driver container's absolute link means its own tree, not the agent's."""
    file = library(tmp_path, "run/nvidia/driver/opt/nvidia", link=False)
    link = tmp_path / "run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"
    link.parent.mkdir(parents=True)
    link.symlink_to(f"/opt/nvidia/{file.name}")
    assert driver.find(host_root=tmp_path).library_path == file


def test_the_driver_container_wins_over_the_host(tmp_path: Path) -> None:
    """An old driver on the host does not hide the operator's."""
    library(tmp_path, "usr/lib64", version="470.1")
    file = library(tmp_path, f"run/nvidia/driver/{MULTIARCH}")
    assert driver.find(host_root=tmp_path).library_path == file


def test_a_configured_root_is_the_only_one(tmp_path: Path) -> None:
    """Who names a root gets that one or an error, never another driver."""
    library(tmp_path, "usr/lib64")
    file = library(tmp_path, "opt/driver/lib64")
    assert driver.find("/opt/driver", host_root=tmp_path).library_path == file
    with pytest.raises(DriverNotFoundError) as caught:
        driver.find("/opt/other", host_root=tmp_path)
    assert caught.value.tried == (("/opt/other", "no such directory"),)


def test_nothing_found_lists_every_place(tmp_path: Path) -> None:
    """The message names each root and, where the root exists, each directory in it."""
    (tmp_path / "run/nvidia/driver").mkdir(parents=True)
    with pytest.raises(DriverNotFoundError) as caught:
        driver.find(host_root=tmp_path)
    message = str(caught.value)
    assert [root for root, _ in caught.value.tried] == list(driver.ROOTS)
    assert "/home/kubernetes/bin/nvidia: no such directory" in message
    for name in driver.LIBRARY_DIRS:
        assert name in message


@pytest.mark.parametrize(
    "line",
    [
        "NVIDIA_DRIVER_ROOT=/opt/gpu",
        'NVIDIA_DRIVER_ROOT="/opt/gpu"',
        "  NVIDIA_DRIVER_ROOT = '/opt/gpu'  ",
        "IS_HOST_DRIVER=false\nnot a pair\nNVIDIA_DRIVER_ROOT= /opt/gpu\nDRIVER_ROOT_CTR_PATH=/x",
    ],
)
def test_the_operators_word_comes_first(tmp_path: Path, line: str) -> None:
    """The root that the GPU Operator names is used, however it quotes it."""
    operator_says(tmp_path, line)
    library(tmp_path, "run/nvidia/driver/lib64")
    file = library(tmp_path, "opt/gpu/lib64")
    found = driver.find(host_root=tmp_path)
    assert (found.host_path, found.library_path) == ("/opt/gpu", file)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVIDIA_DRIVER_ROOT=",
        "NVIDIA_DRIVER_ROOT=run/nvidia/driver",
        "NVIDIA_DRIVER_ROOT=/nowhere",
        "DRIVER_ROOT_CTR_PATH=/host",
    ],
)
def test_an_unusable_word_leaves_the_search(tmp_path: Path, line: str) -> None:
    """Relative, empty or wrong: the known places are searched as if nothing were said."""
    operator_says(tmp_path, line)
    file = library(tmp_path, "usr/lib64")
    assert driver.find(host_root=tmp_path).library_path == file


def test_an_unreadable_word_leaves_the_search(tmp_path: Path) -> None:
    """A file that is no text, or a directory in its place, says nothing."""
    file = library(tmp_path, "usr/lib64")
    path = tmp_path / "run/nvidia/validations/driver-ready"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"NVIDIA_DRIVER_ROOT=/\xff")
    assert driver.find(host_root=tmp_path).library_path == file
    path.unlink()
    path.mkdir()
    assert driver.find(host_root=tmp_path).library_path == file


def test_the_search_waits_for_the_operator(tmp_path: Path) -> None:
    """While the operator is validating, an old driver on the host is not taken."""
    library(tmp_path, "usr/lib64")
    file = library(tmp_path, "run/nvidia/driver/lib64")
    (tmp_path / "run/nvidia/validations").mkdir()
    ready = threading.Timer(0.1, operator_says, (tmp_path, "NVIDIA_DRIVER_ROOT=/run/nvidia/driver"))
    ready.start()
    found = driver.find(host_root=tmp_path, operator_wait_s=60)
    ready.join()
    assert found.library_path == file


@pytest.mark.parametrize("container_ready", [True, False])
def test_nobody_waits_for_an_operator_that_has_nothing_to_say(
    tmp_path: Path, *, container_ready: bool
) -> None:
    """Without the operator, or with an old one whose driver is up, the search goes on at once."""
    library(tmp_path, "usr/lib64")
    if container_ready:
        marker = tmp_path / "run/nvidia/validations/.driver-ctr-ready"
        marker.parent.mkdir(parents=True)
        marker.touch()
    assert driver.find(host_root=tmp_path, operator_wait_s=3600).host_path == "/"


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    """A program that must end does not sit out the wait."""
    library(tmp_path, "usr/lib64")
    (tmp_path / "run/nvidia/validations").mkdir(parents=True)
    stop = threading.Event()
    stop.set()
    assert driver.find(host_root=tmp_path, operator_wait_s=3600, stop=stop).host_path == "/"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (["run/nvidia/driver/dev/nvidiactl", "dev/nvidiactl"], "/run/nvidia/driver"),
        (["run/nvidia/driver/dev/null", "dev/nvidiactl"], "/"),
        (["run/nvidia/driver/dev/null"], "/run/nvidia/driver"),
        ([], "/"),
    ],
)
def test_the_dev_root_is_where_the_nodes_are(
    tmp_path: Path, nodes: list[str], expected: str
) -> None:
    """Only a driver root that has the nodes is their root."""
    library(tmp_path, "run/nvidia/driver/lib64")
    for node in nodes:
        (tmp_path / node).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / node).touch()
    found = driver.find(host_root=tmp_path)
    assert found.host_dev_path == expected
    assert found.local_dev_path == tmp_path / expected.lstrip("/")


def test_the_operator_names_the_dev_root(tmp_path: Path) -> None:
    """What the operator says about nodes holds for its root alone, and if it is there."""
    operator_says(tmp_path, "NVIDIA_DRIVER_ROOT=/opt/gpu\nNVIDIA_DEV_ROOT=/opt/nodes\n")
    library(tmp_path, "usr/lib64")
    assert driver.find(host_root=tmp_path).host_dev_path == "/"
    library(tmp_path, "opt/gpu/lib64")
    assert driver.find(host_root=tmp_path).host_dev_path == "/"
    (tmp_path / "opt/nodes").mkdir()
    assert driver.find(host_root=tmp_path).host_dev_path == "/opt/nodes"
