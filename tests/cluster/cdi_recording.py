"""Record anew what the released CDI library makes of the cases in `tests/sim/runtime`.

`python -m tests.cluster.cdi_recording` needs Go once, to build the library's program.
"""

import re
import tempfile
from pathlib import Path
from typing import Final

from tests.cluster.assets import cache_folder
from tests.cluster.build import build_module
from tests.cluster.cdi_library import Container, inject
from tests.cluster.go_modules import CDI_CHECK
from tests.sim.runtime.cdi_cases import cases
from tests.sim.runtime.cdi_record import write
from tests.sim.runtime.oci import Answer

_LIBRARY: Final = "tags.cncf.io/container-device-interface"


def release() -> str:
    """Return the library and its release, as the module of the program names them."""
    text = (CDI_CHECK.folder / "go.mod").read_text()
    found = re.search(rf"^\s*{re.escape(_LIBRARY)} (v\S+)$", text, re.MULTILINE)
    assert found is not None
    return f"{_LIBRARY} {found.group(1)}"


def library_answers(program: str, root: Path) -> dict[str, Answer]:
    """Return the library's answer to every case, laid out below *root*."""
    containers = {
        name: Container(
            directories=case.lay_out(root / str(number)), devices=case.devices, start=case.start
        )
        for number, (name, case) in enumerate(cases().items())
    }
    return dict(zip(containers, inject(program, list(containers.values())), strict=True))


def main() -> None:
    """Write the record; a host with NVIDIA's nodes would complete them and is of no use."""
    if Path("/dev/nvidiactl").exists():
        message = "record on a host without NVIDIA devices"
        raise SystemExit(message)
    program = build_module(CDI_CHECK, cache_folder()) / CDI_CHECK.programs[0]
    with tempfile.TemporaryDirectory() as folder:
        write(release(), library_answers(str(program), Path(folder)))


if __name__ == "__main__":
    main()
