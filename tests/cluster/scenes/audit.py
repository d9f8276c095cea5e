"""What our parts ask of the API server, counted by the server itself: its audit log."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.cluster.scenes.agents import ACCOUNT, NAMESPACE

AGENT: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"


def events_of(log: Path, *, since: int = 0, user: str = AGENT) -> Iterator[dict[str, Any]]:
    """Yield what *user* asked, from the lines from *since* on."""
    for line in log.read_text().splitlines()[since:]:
        event: dict[str, Any] = json.loads(line)
        if event["user"]["username"] == user:
            yield event


def requests_of(log: Path, *, since: int = 0, user: str = AGENT) -> Counter[str]:
    """Return how often *user* asked what, as `VERB resource`, in the lines from *since* on."""
    found: Counter[str] = Counter()
    for event in events_of(log, since=since, user=user):
        reference = event.get("objectRef", {})
        found[f"{event['verb']} {reference.get('resource') or event['requestURI']}"] += 1
    return found


def lines_of(log: Path) -> int:
    """Return how many lines the log has now."""
    return len(log.read_text().splitlines())
