"""Whether what is tainted may be used: the same rule for devices and for nodes (KEP-5055).

Only `NoSchedule` and `NoExecute` keep something from being used; `None` and
`PreferNoSchedule` are advice.
"""

from collections.abc import Iterable

from kube.objects import JsonObject

_BLOCKING = ("NoSchedule", "NoExecute")


def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Tell whether *toleration* covers *taint*."""
    effect = toleration.get("effect") or ""
    if effect and effect != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    exists = toleration.get("operator") == "Exists"
    if not key:
        return exists
    if key != taint.get("key"):
        return False
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(
    taints: Iterable[JsonObject], tolerations: Iterable[JsonObject]
) -> JsonObject | None:
    """Return the first blocking taint that no toleration covers."""
    known = tuple(tolerations)
    for taint in taints:
        if taint.get("effect") not in _BLOCKING:
            continue
        if not any(tolerates(toleration, taint) for toleration in known):
            return taint
    return None


def taint_text(taint: JsonObject) -> str:
    """Write *taint* as kubectl does: `key=value:effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
