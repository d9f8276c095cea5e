"""The table of HAMi's values, and what renders with some of them."""

from typing import Any, Final

import yaml

from tests.charts.rendering import CHART, Object, merged, nested, render

KUBERNETES: Final = "1.29.4"
"""Where the failure policy of the webhook is not that of newer releases."""
TABLE: Final[Object] = yaml.safe_load((CHART / "files" / "hami-compat.yaml").read_text())
ROWS: Final[dict[str, Object]] = {row["key"]: row for row in TABLE["keys"]}
FIXED: Final = nested("scheduler.refit.tls", {"mode": "secret", "secret": {"name": "mine"}})
"""Without keys, which each rendering makes anew."""


def given(key: str, value: Any) -> Object:
    """Return the values in which *key* of HAMi's chart has *value*."""
    return nested(f"hamiCompat.{key}", value)


def whole() -> Object:
    """Return HAMi's values.yaml, but for the registries, of which no default is written down."""
    found: Object = {}
    for key, row in ROWS.items():
        if "default" in row and not {"since", "until"} & row.keys():
            found = merged(found, nested(key, row["default"]))
    return {"hamiCompat": found}


def rendered(values: Object) -> list[Object]:
    """Return the objects where HAMi's protocol is served and something is said in HAMi's words."""
    said = given("schedulerName", "hami-scheduler")
    return render(
        merged(merged({"mode": "hami"}, merged(FIXED, said)), values), kubernetes=KUBERNETES
    )
