"""Sessions with NVML: which library they load, how they fail, and how they end."""

from pathlib import Path

import pynvml
import pytest

from gpu.errors import DriverNotLoadedError, LibraryNotFoundError, NvmlError, StoppedError
from gpu.nvml import Nvml
from sim import nvml
from tests.gpu.simulating import simulated


def test_a_missing_kernel_module_is_its_own_error() -> None:
    """A library without a kernel module is told apart from no library."""
    text = "{errors: {nvmlInitWithFlags: DRIVER_NOT_LOADED}, gpus: []}"
    with simulated(text), pytest.raises(DriverNotLoadedError) as caught:
        Nvml().open()
    assert str(caught.value) == "nvmlInitWithFlags failed: DRIVER_NOT_LOADED"


def test_any_other_failure_names_call_and_reason() -> None:
    """An error that concerns the node is raised with its word."""
    text = "{errors: {nvmlSystemGetDriverVersion: LIB_RM_VERSION_MISMATCH}, gpus: []}"
    with simulated(text), Nvml() as session, pytest.raises(NvmlError) as caught:
        session.inventory()
    assert caught.value.reason == "LIB_RM_VERSION_MISMATCH"
    assert caught.value.call == "nvmlSystemGetDriverVersion"


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    """A placeholder in the library's place is named with the loader's words."""
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_text("no library", encoding="utf-8")
    with pytest.raises(LibraryNotFoundError, match=r"libnvidia-ml\.so\.1"):
        Nvml(library).open()


def test_no_library_at_all_is_said(tmp_path: Path) -> None:
    """A path where nothing lies is named."""
    with pytest.raises(LibraryNotFoundError, match="absent"):
        Nvml(tmp_path / "absent").open()


def test_a_session_that_is_to_end_asks_only_for_its_end() -> None:
    """A scan ends in the middle, without faults that are none, and the session can be closed."""
    asked: list[str] = []

    def stopping() -> bool:
        asked.append("whether to stop")
        return len(asked) > 8

    with simulated("gpus: [{profile: t4}, {profile: t4}]"):
        session = Nvml(stopping=stopping).open()
        with pytest.raises(StoppedError):
            session.read()
        with pytest.raises(StoppedError):
            session.events()
        session.close()
        assert pynvml.nvmlLib.node.sessions == 0


def mapped_libraries() -> list[Path]:
    """Return shared libraries of this machine that can be loaded, none of them NVIDIA's."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {Path(line.split(maxsplit=5)[-1]) for line in maps if ".so" in line}
    return sorted(path for path in files if path.name.startswith(("libc.", "libm.", "libz.")))


def test_the_library_at_the_path_is_used_and_can_change() -> None:
    """The binding gets the file that was found, and another one after a driver update."""
    used = []
    try:
        for library in mapped_libraries():
            with pytest.raises(NvmlError) as caught:
                Nvml(library).open()
            assert (caught.value.call, caught.value.reason) == (
                "nvmlInitWithFlags",
                "FUNCTION_NOT_FOUND",
            )
            used.append(Path(pynvml.nvmlLib._name))
    finally:
        nvml.uninstall()
    assert used == mapped_libraries()
    assert len(used) > 1


def test_a_stand_in_stays(tmp_path: Path) -> None:
    """A simulated library is not replaced by the placeholder file of its driver root."""
    placeholder = tmp_path / "libnvidia-ml.so.580.1"
    placeholder.write_text("placeholder", encoding="utf-8")
    with simulated("gpus: [{profile: t4}]"), Nvml(placeholder) as session:
        assert len(session.inventory().gpus) == 1


def test_a_change_of_the_node_is_seen_by_the_same_session(tmp_path: Path) -> None:
    """A session keeps reading what is true now: errors come and go, GPUs disappear."""
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{profile: t4}, {profile: l4}]", encoding="utf-8")
    nvml.install(path)
    try:
        with Nvml() as session:
            assert len(session.inventory().gpus) == 2
            path.write_text("gpus: [{profile: t4, errors: {all: GPU_IS_LOST}}]", encoding="utf-8")
            broken = session.inventory()
            path.write_text("gpus: [{profile: t4}]", encoding="utf-8")
            healed = session.inventory()
    finally:
        nvml.uninstall()
    assert (len(broken.gpus), len(broken.faults)) == (0, 1)
    assert (len(healed.gpus), len(healed.faults)) == (1, 0)
