"""All checks of a node, in the order in which one would look."""

from typing import Final

from cli.doctor.model import Check
from cli.doctor.node import cdi, driver, kubelet, library, runtimechecks
from cli.doctor.node.view import Node

CHECKS: Final[tuple[Check[Node], ...]] = (
    *driver.CHECKS,
    *runtimechecks.CHECKS,
    *cdi.CHECKS,
    *kubelet.CHECKS,
    *library.CHECKS,
)
