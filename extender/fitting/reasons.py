"""Why a device or a node is not taken, in HAMi's words.

Users and dashboards look for these tokens (HAMi v2.10: `pkg/device/common/common.go`); the text
counts devices by the first check that each of them failed.
"""

from enum import StrEnum


class Reason(StrEnum):
    """HAMi's tokens."""

    TYPE_MISMATCH = "CardTypeMismatch"
    UUID_MISMATCH = "CardUuidMismatch"
    SLOTS_EXHAUSTED = "CardTimeSlicingExhausted"
    CORES_EXHAUSTED = "CardComputeUnitsExhausted"
    TOO_LITTLE_MEMORY = "CardInsufficientMemory"
    TOO_FEW_CORES = "CardInsufficientCore"
    NOT_HEALTHY = "CardNotHealth"
    CORDONED = "CardCordoned"
    NUMA = "NumaNotFit"
    EXCLUSIVE = "ExclusiveDeviceAllocateConflict"
    VENDOR_RULE = "CardNotFoundCustomFilterRule"
    MIG_PLACEMENT = "CardMigTopologyInfeasible"
    TOO_FEW_DEVICES = "NodeInsufficientDevice"
    TOO_FEW_FITTING = "AllocatedCardsInsufficientRequest"
    QUOTA = "ResourceQuotaNotFit"
    MODE = "ModeNotFit"
    METAX_NOT_HEALTHY = "CardUnhealthy"
    METAX_QOS = "CardQosPolicyMismatch"
    METAX_CLASS = "CardAppClassMismatch"
    NOT_REGISTERED = "node unregistered"
    UNKNOWN_VENDOR = "Device type not found"


class Tally(dict[str, int]):
    """How many devices failed for which reason."""

    def count(self, reason: Reason, number: int = 1) -> None:
        """Count *number* devices more."""
        self[reason] = self.get(reason, 0) + number
