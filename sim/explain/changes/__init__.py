"""Look for the smallest change with which a pod fits.

Each module proposes changes of one kind, with the nodes where they could help. A proposal is tried
on those nodes alone, which is quick; the best ones are tried once more on the whole cluster, and
only what fits there is told.
"""

from sim.explain.changes.choosing import smallest_changes

__all__ = ["smallest_changes"]
