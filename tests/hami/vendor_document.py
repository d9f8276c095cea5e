"""Writes the table of vendors in docs/device-plugin.md: `python -m tests.hami.vendor_document`."""

from pathlib import Path
from typing import Final

import yaml

from hami import deviceconfig
from hami.backends import Backend, backends
from hami.requests import NVIDIA
from hami.vendor_rules import chart
from hami.vendor_rules.vendor import Register, Vendor
from tests.hami.chartconfig import chart_config

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "device-plugin.md"
BEGIN: Final = "<!-- vendors -->\n"
END: Final = "<!-- end of vendors -->\n"
_HEAD: Final = (
    "| word | resource | registers in | sign of life | is given devices in | reads too | lock |\n"
    "|---|---|---|---|---|---|---|\n"
)


def table() -> str:
    """Return the table for the configuration that HAMi's chart renders."""
    text = chart_config() + yaml.safe_dump(dict(chart.SECTIONS))
    served = backends(deviceconfig.parse(text, ascend=True, iluvatar=True))
    return _HEAD + "".join(_row(each) for each in served if each.word != NVIDIA)


def written(document: str) -> str:
    """Return *document* with the table as it is now."""
    before, _, rest = document.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _row(backend: Backend) -> str:
    is_capacity = backend.register is Register.CAPACITY
    more = backend.scheduler_keys if isinstance(backend, Vendor) else ()
    cells = (
        backend.word,
        _code(backend.count_name),
        "`status.capacity`" if is_capacity else _code(backend.register_key),
        _code(backend.handshake_key),
        _code(backend.in_request_key) or _code(backend.support_key),
        ", ".join(map(_code, more)),
        _code(backend.lock),
    )
    return f"| {' | '.join(cells)} |\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
