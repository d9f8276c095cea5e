"""Values as they travel: plain JSON, copied at every border of the server.

`copy.deepcopy` keeps a memo for cycles that JSON cannot have, and costs several times as much;
a simulated cluster copies every object it reads.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

JsonObject = dict[str, Any]


def copy_json(value: Any) -> Any:
    """Return an independent copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def timestamp(*, in_s: int = 0) -> str:
    """Return the time *in_s* seconds from now as metav1.Time writes it: UTC, whole seconds."""
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=in_s)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
