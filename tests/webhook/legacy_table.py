"""The table of legacy requests: all rows, and the keys that must have one."""

from collections.abc import Iterator
from typing import Final

from hami import deviceconfig, userkeys, vendors
from hami.vendor_rules import ascend, metax, sections
from tests.hami.vendorreading import CHART
from tests.webhook.legacy_row import Row
from tests.webhook.legacy_rows_annotations import annotation_rows
from tests.webhook.legacy_rows_config import nvidia_config_rows
from tests.webhook.legacy_rows_nvidia import resource_rows
from tests.webhook.legacy_rows_sections import section_rows
from tests.webhook.legacy_rows_vendors import vendor_annotation_rows, vendor_resource_rows
from webhook import environment

GROUPS: Final[dict[str, tuple[Row, ...]]] = {
    "Resources of NVIDIA's GPUs": tuple(resource_rows()),
    "Annotations": tuple(annotation_rows()),
    "Resources of other vendors": tuple(vendor_resource_rows()),
    "Annotations for other vendors": tuple(vendor_annotation_rows()),
    "`device-config.yaml`: `nvidia`": tuple(nvidia_config_rows()),
    "`device-config.yaml`: other vendors": tuple(section_rows()),
}
"""Rows by the heading that they stand below."""
ROWS: Final = tuple(row for rows in GROUPS.values() for row in rows)

_CHIPS: Final = "vnpus.configs[]"
_TEMPLATES: Final = f"{_CHIPS}.templates[]"


def required_keys() -> Iterator[str]:
    """Yield every key that the code knows, from the code."""
    yield from deviceconfig.NvidiaConfig().keys
    yield from (*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS, *userkeys.FRACTION_NAMES)
    for vendor in CHART.values():
        yield from vendor.keys
        yield from (*vendor.use_uuid_keys, *vendor.nouse_uuid_keys)
        yield from (*vendor.use_type_keys, *vendor.nouse_type_keys)
    yield from (metax.APP_CLASS_KEY, metax.QOS_KEY, metax.TOPOLOGY_KEY)
    yield from (ascend.MODE_KEY, environment.CONTROL)
    yield from (f"nvidia.{key}" for key in deviceconfig.NVIDIA_KEYS)
    for name in set(deviceconfig.SECTION_NAMES) - {"nvidia"}:
        yield from (f"{name}.{key}" for key in vendors.known_keys(name))
    yield from (f"{_CHIPS}.{key}" for key in sorted(sections.AscendChip.keys()))
    yield from (f"{_TEMPLATES}.{key}" for key in sorted(sections.AscendTemplate.keys()))


def keys_without_row() -> set[str]:
    """Return the keys that nobody has said anything about."""
    return set(required_keys()) - {key for row in ROWS for key in row.keys}
