"""All checks of the cluster, in the order in which one would look."""

from typing import Final

from cli.doctor.cluster import (
    agents,
    api,
    certificates,
    classes,
    leftovers,
    older,
    owners,
    releases,
    webhook,
)
from cli.doctor.cluster.view import Cluster
from cli.doctor.model import Check

CHECKS: Final[tuple[Check[Cluster], ...]] = (
    *api.CHECKS,
    *releases.CHECKS,
    *classes.CHECKS,
    *webhook.CHECKS,
    *certificates.CHECKS,
    *owners.CHECKS,
    *agents.CHECKS,
    *older.CHECKS,
    *leftovers.CHECKS,
)
