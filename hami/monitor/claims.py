"""What the monitor needs to know of claims that are prepared on its node.

The driver's own records have these fields, and the monitor is given them: it knows no other part of
the driver, as claims work where nobody has asked for a monitor.
"""

from typing import Protocol


class PreparedDevice(Protocol):
    """A device, or a share of one, that belongs to a claim."""

    @property
    def request(self) -> str:
        """Name of the request, without that of an alternative."""

    @property
    def pool(self) -> str:
        """Name of the pool, which is that of the node."""

    @property
    def device(self) -> str:
        """Name of the device in the pool."""

    @property
    def share_id(self) -> str | None:
        """What tells shares of one device apart."""

    @property
    def uuid(self) -> str:
        """NVML's name of the device: a GPU or a MIG device."""

    @property
    def parent_uuid(self) -> str:
        """NVML's name of the physical GPU."""

    @property
    def dedicated(self) -> bool:
        """Whether nobody else may hold the device."""

    @property
    def admin(self) -> bool:
        """Whether it is for administrative access."""

    @property
    def memory_mib(self) -> int:
        """Memory granted."""

    @property
    def cores_percent(self) -> int:
        """Compute granted."""


class Limit(Protocol):
    """What a container may use of one GPU."""

    @property
    def uuid(self) -> str:
        """NVML's name of the GPU."""

    @property
    def memory_mib(self) -> int:
        """Memory that the library allows."""


class Options(Protocol):
    """How the library limits."""

    @property
    def priority(self) -> int | None:
        """0 is high, 1 low."""

    @property
    def core_policy(self) -> str:
        """One of `default`, `force`, `disable`."""


class PreparedClaim(Protocol):
    """A claim that is prepared on this node."""

    @property
    def uid(self) -> str:
        """UID of the claim."""

    @property
    def namespace(self) -> str:
        """Namespace of the claim."""

    @property
    def name(self) -> str:
        """Name of the claim."""

    @property
    def pod_uids(self) -> tuple[str, ...]:
        """Pods that it was reserved for when it was last prepared."""

    @property
    def devices(self) -> tuple[PreparedDevice, ...]:
        """Its devices."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Empty where nothing is limited, and then there is no region either."""

    @property
    def options(self) -> Options | None:
        """Set exactly when there are limits."""
