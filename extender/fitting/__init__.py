"""Whether a pod fits on a node, and on which of its devices: pure, one node at a time."""

from extender.fitting.nodefit import fit_node
from extender.fitting.refit import refit
from extender.fitting.room import ENDLESS, QuotaRoom
from extender.fitting.scoring import node_score

__all__ = ["ENDLESS", "QuotaRoom", "fit_node", "node_score", "refit"]
