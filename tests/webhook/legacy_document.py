"""Writes `docs/legacy-requests.md` from the table: `python -m tests.webhook.legacy_document`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.webhook.legacy_row import Row
from tests.webhook.legacy_table import GROUPS

PATH: Final = Path(__file__).parents[2] / "docs" / "legacy-requests.md"
TEST: Final = "tests/webhook/test_legacy_table.py"
_SAME: Final = "the same"
_HEAD: Final = f"""\
# Legacy requests

What becomes of each key of HAMi's protocol when the webhook sees it. *With claims* is a cluster
whose API server keeps consumable capacity, so that limits of NVIDIA's GPUs become claims; on
*HAMi's path*, in any other cluster, the webhook prepares pods for HAMi's own scheduler. Devices of
other vendors take that path in both. Names of resources are those of HAMi's chart.

Each line is a test, `test_row[NAME]` in `{TEST}`, and this file is made of them:
`python -m tests.webhook.legacy_document` writes it. A key that the code knows and that has no line
fails the build.
"""


def document() -> str:
    """Return the text of the document."""
    parts = [_HEAD]
    for heading, rows in GROUPS.items():
        lines = "\n".join(_line(row) for row in rows)
        parts.append(
            f"## {heading}\n\n"
            "| key | given | with claims | on HAMi's path | test |\n|---|---|---|---|---|\n"
            f"{lines}\n"
        )
    return "\n".join(parts)


def _line(row: Row) -> str:
    keys = "<br>".join(f"`{key}`" for key in row.keys)
    hami = _SAME if row.dra == row.hami else row.hami.says
    cells = (keys, row.given, row.dra.says, hami, row.name)
    return f"| {' | '.join(_cells(cells))} |"


def _cells(texts: tuple[str, ...]) -> Iterator[str]:
    yield from (text.replace("|", "\\|") for text in texts)


def main() -> int:
    """Write the document."""
    PATH.write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main())
