"""What is known of one build of HAMi-core: which node and image it fits, what it needs.

A library says nothing of itself: two releases write the same version and lay their files out
differently, and older ones stall for a minute in each process that finds no directory for locks.
So a manifest stands beside it, under its name and `.manifest.json`. Where there is none, the
release decides if the name of the file tells it (HAMi's images have `libvgpu.so.<release>`), else
what most releases need is assumed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from cdi.errors import SpecError
from cdi.region import REGION_SIZE, RegionLayout
from cdi.wire import read_json

MANIFEST_SUFFIX: Final = ".manifest.json"
MANIFEST_BYTES_MAX: Final = 64 * 1024

_RELEASE: Final = re.compile(r"v?(\d+\.\d+\.\d+)", re.ASCII)

Release = Annotated[str, Field(pattern=r"^\d{1,4}\.\d{1,4}$")]


class Source(StrEnum):
    """Who says it."""

    MANIFEST = "manifest"
    RELEASE = "release"
    """The table below."""
    ASSUMED = "assumed"


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
    )


class CudaRange(_Part):
    """CUDA versions of drivers, both ends included."""

    minimum: Release | None = None
    maximum: Release | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum and self.maximum and version_of(self.minimum) > version_of(self.maximum):
            raise ValueError("minimum is above maximum")
        return self


class Libc(_Part):
    """The C library that containers must have."""

    name: Literal["glibc"] = "glibc"
    minimum: Release


class Manifest(_Part):
    """What stands beside a library; of which build it speaks is the hash's to say."""

    format: Literal[1]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$")]
    """HAMi's release, or a name of the builder's own."""
    region_layout: RegionLayout
    needs_lock_directory: bool
    """Whether it wants to write below `/tmp/vgpulock`."""
    architecture: Literal["x86_64", "aarch64"]
    cuda: CudaRange = CudaRange()
    libc: Libc | None = None

    def render(self) -> bytes:
        """Return the manifest as it stands beside a library."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True, indent=2).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a manifest; SpecError names the first thing that is wrong."""
        if len(data) > MANIFEST_BYTES_MAX:
            raise SpecError("", f"is larger than {MANIFEST_BYTES_MAX} bytes")
        read_json(data)  # pydantic would take a key twice
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(step) for step in first["loc"])
            raise SpecError(field, first["msg"].removeprefix("Value error, ")) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """What holds for one library."""

    source: Source
    version: str = ""
    """Empty where nobody says it."""
    layout: RegionLayout | None = None
    needs_lock_directory: bool = False

    @property
    def region_size(self) -> int:
        """The size of the file that is made for it."""
        return REGION_SIZE if self.layout is None else self.layout.file_size


_CLASSIC: Final = (RegionLayout.V1_1, True)
_CURRENT: Final = (RegionLayout.V1_2, False)
KNOWN_RELEASES: Final[Mapping[str, tuple[RegionLayout, bool]]] = {
    "2.4.0": (RegionLayout.V0, True),
    **dict.fromkeys(("2.4.1", "2.5.0", "2.5.1", "2.5.2", "2.5.3"), _CLASSIC),
    **dict.fromkeys(("2.6.0", "2.6.1", "2.7.0", "2.7.1", "2.8.0"), _CLASSIC),
    "2.8.1": (RegionLayout.V1_1_LONG, False),
    **dict.fromkeys(("2.8.2", "2.8.3", "2.9.0"), _CURRENT),
}
"""HAMi's releases: how the library in them lays out its region, and whether it wants a lock.

From the commit of HAMi-core that each release names. HAMi publishes no hashes.
"""

ASSUMED: Final = Compatibility(source=Source.ASSUMED)


def manifest_path(library: Path) -> Path:
    """Return where the manifest of *library* stands."""
    return library.with_name(library.name + MANIFEST_SUFFIX)


def by_manifest(manifest: Manifest) -> Compatibility:
    """Return what *manifest* says."""
    return Compatibility(
        source=Source.MANIFEST,
        version=manifest.version,
        layout=manifest.region_layout,
        needs_lock_directory=manifest.needs_lock_directory,
    )


def by_release(version: str) -> Compatibility:
    """Return what is known of HAMi's release *version*, such as `v2.8.1`; else what is assumed."""
    found = _RELEASE.fullmatch(version)
    known = KNOWN_RELEASES.get(found[1]) if found else None
    if found is None or known is None:
        return ASSUMED
    layout, locks = known
    return Compatibility(
        source=Source.RELEASE, version=found[1], layout=layout, needs_lock_directory=locks
    )


def release_in_name(name: str) -> str:
    """Return the release in a file name such as `libvgpu.so.v2.8.1`; empty where there is none."""
    return name.partition(".so.")[2]


def version_of(text: str) -> tuple[int, int]:
    """Return `major.minor` as numbers."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)
