"""Which namespaces may have shares without limits.

An administrator grants it with a label of the namespace, or names the namespace in the settings.
The node agents have a list of their own (`--unlimited-namespaces`), since they cannot rely on an
admission that may not be there.
"""

from collections.abc import Collection, Mapping
from typing import Final

LABEL: Final = "gpuslice.io/uncontrolled"
LABEL_VALUE: Final = "allowed"


def is_granted(
    namespace: str, labels: Mapping[str, str] | None, *, listed: Collection[str] = ()
) -> bool:
    """Tell whether *namespace*, with *labels* as far as they are known, was granted that."""
    return namespace in listed or (labels or {}).get(LABEL) == LABEL_VALUE
