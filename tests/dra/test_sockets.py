"""Names of sockets, and which of those that lie around are removed."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from dra.sockets import SocketPathTooLongError, remove_stale, socket_paths

REGISTRY = Path("/var/lib/kubelet/plugins_registry")
POD_UID = "11111111-2222-3333-4444-555555555555"


def registration_name(driver: str, *, registry: Path = REGISTRY, pod_uid: str = POD_UID) -> str:
    """Return the name of the registration socket of *driver*."""
    directory = Path("/var/lib/kubelet/plugins/d")
    paths = socket_paths(
        registry=registry, plugin_directory=directory, driver=driver, pod_uid=pod_uid
    )
    assert paths.registration.parent == registry
    return paths.registration.name


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("gpu.example.com", f"gpu.example.com-{POD_UID}-reg.sock"),
        ("a" * 30 + ".example.com", "a" * 30 + ".example.com-Zm_2zKpbPAc-reg.sock"),
        ("b" * 63, "dra-kFNMKgmuLXE8WP4z3sxwFA-reg.sock"),
    ],
)
def test_long_names_are_shortened_as_kubelets_library_does(driver: str, name: str) -> None:
    """Operators find the names that they know from other drivers."""
    assert registration_name(driver) == name


def test_a_single_instance_has_plain_names() -> None:
    """Without a pod UID there is only one."""
    paths = socket_paths(
        registry=REGISTRY, plugin_directory=Path("/p"), driver="gpuslice.io", pod_uid=""
    )
    assert paths.registration == REGISTRY / "gpuslice.io-reg.sock"
    assert paths.dra == Path("/p/dra.sock")


def test_two_instances_have_different_sockets() -> None:
    """During a rolling update neither takes the other's place."""
    paths = [
        socket_paths(
            registry=REGISTRY, plugin_directory=Path("/p"), driver="gpuslice.io", pod_uid=uid
        )
        for uid in (POD_UID, POD_UID.replace("1", "7"))
    ]
    assert paths[0].dra == Path(f"/p/dra-{POD_UID}.sock")
    assert paths[0].dra != paths[1].dra
    assert paths[0].registration != paths[1].registration


@pytest.mark.parametrize("pod_uid", ["", POD_UID])
def test_a_path_that_does_not_fit_is_refused(pod_uid: str) -> None:
    """The limit counts bytes, and one that fits exactly is taken."""
    shortest = "gpuslice.io-Zm_2zKpbPAc-reg.sock" if pod_uid else "gpuslice.io-reg.sock"
    room = 107 - len("/") - len(shortest)
    fitting = Path("/" + "r" * (room - 1))
    assert registration_name("gpuslice.io", registry=fitting, pod_uid=pod_uid) == shortest
    with pytest.raises(SocketPathTooLongError, match="longer than 107 bytes"):
        registration_name("gpuslice.io", registry=Path(f"{fitting}r"), pod_uid=pod_uid)
    with pytest.raises(SocketPathTooLongError):
        registration_name("gpuslice.io", registry=Path("/" + "é" * (room - 1)), pod_uid=pod_uid)


def test_a_dra_socket_that_does_not_fit_is_refused() -> None:
    """There is no shorter name for it."""
    with pytest.raises(SocketPathTooLongError, match=r"dra\.sock"):
        socket_paths(
            registry=REGISTRY,
            plugin_directory=Path("/" + "p" * 100),
            driver="gpuslice.io",
            pod_uid="",
        )


def listening(path: Path) -> socket.socket:
    """Return a socket that answers at *path*."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen(1)
    return server


def test_only_own_sockets_without_listener_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What answers, what is no socket and what has another name stays."""
    monkeypatch.chdir(tmp_path)  # names stay short enough to bind
    listening(Path("dra-old.sock")).close()
    listening(Path("other.sock")).close()
    Path("dra-file.sock").touch()
    Path("dra-directory.sock").mkdir()
    Path("dra-dangling.sock").symlink_to("nowhere")
    with closing(listening(Path("dra-new.sock"))):
        assert remove_stale(Path(), "dra*.sock") == [Path("dra-old.sock")]
    left = sorted(path.name for path in Path().iterdir())
    assert left == [
        "dra-dangling.sock",
        "dra-directory.sock",
        "dra-file.sock",
        "dra-new.sock",
        "other.sock",
    ]


def test_a_listener_too_busy_to_answer_counts_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a refused connection is a sure sign that nobody is there."""
    monkeypatch.chdir(tmp_path)
    with closing(listening(Path("dra.sock"))):
        waiting = []
        for _ in range(4):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            client.connect_ex("dra.sock")
            waiting.append(client)
        assert remove_stale(Path(), "dra*.sock") == []
        for client in waiting:
            client.close()


def test_a_missing_directory_has_no_stale_sockets(tmp_path: Path) -> None:
    """The first start on a node finds nothing."""
    assert remove_stale(tmp_path / "missing", "*.sock") == []
