"""Which glibc a library needs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdi.elf import problem
from cdi.elfversions import LibcNeeds, libc_needs
from tests.cdi.elves import shared_object


@pytest.mark.parametrize(
    ("versions", "minimum", "private"),
    [
        (["GLIBC_2.17"], (2, 17), False),
        (["GLIBC_2.9", "GLIBC_2.28", "GLIBC_2.2.5"], (2, 28), False),
        (["GLIBC_2.17", "GLIBC_PRIVATE"], (2, 17), True),
        (["GLIBC_2.17", "GLIBC_ABI_DT_RELR"], (2, 36), False),
        (["GLIBCXX_3.4"], None, False),
    ],
)
def test_newest_version_that_is_needed_counts(
    versions: list[str], minimum: tuple[int, int] | None, *, private: bool
) -> None:
    """Versions are numbers, not texts; what is not glibc's says nothing of glibc."""
    content = shared_object(versions)
    assert problem(content) is None
    assert libc_needs(content) == LibcNeeds(minimum=minimum, private=private)


def test_real_library_needs_a_glibc() -> None:
    """The mathematics that this interpreter has loaded need the C library of the same build."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    libraries = {line.split()[-1] for line in maps if "/libm.so" in line or "/libm-" in line}
    if not libraries:
        pytest.skip("this interpreter has loaded no mathematics")
    needs = libc_needs(Path(libraries.pop()).read_bytes())
    assert needs is not None
    assert needs.minimum is not None
    assert needs.minimum_text.startswith("2.")


def test_library_without_sections_tells_nothing() -> None:
    """A stripped one may need anything."""
    assert libc_needs(shared_object()[:60] + bytes(4)) is None


@given(st.integers(0, 700), st.binary(min_size=1, max_size=8))
def test_damaged_library_is_answered(place: int, junk: bytes) -> None:
    """Whatever stands where: an answer or none, and no error."""
    content = bytearray(shared_object(["GLIBC_2.17", "GLIBC_2.34"]))
    content[place : place + len(junk)] = junk
    found = libc_needs(bytes(content))
    assert found is None or isinstance(found, LibcNeeds)
