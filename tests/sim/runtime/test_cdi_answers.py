"""This runtime against the CDI library's answers on record, case by case."""

from pathlib import Path

import pytest

from tests.sim.runtime.cdi_cases import cases
from tests.sim.runtime.cdi_record import read
from tests.sim.runtime.oci import answer

CASES = cases()
RECORD = read()


def test_every_case_is_on_record() -> None:
    """No case lacks the library's answer, and no answer lacks its case."""
    assert set(RECORD) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_runtime_does_what_the_library_did(name: str, tmp_path: Path) -> None:
    """The same devices are found, and the container comes out the same or is refused alike."""
    case = CASES[name]
    found = answer(case.lay_out(tmp_path), case.devices, host_root=Path("/"), start=case.start)
    assert found == RECORD[name]


def test_the_record_holds_every_kind_of_answer() -> None:
    """Containers, unknown devices, devices that fail and files that are refused all occur."""
    answers = RECORD.values()
    assert sum(one.container is not None for one in answers) > 80
    assert sum(bool(one.unresolved) for one in answers) > 40
    assert sum(one.failed for one in answers) > 10
    assert sum(bool(one.refused) for one in answers) > 40
