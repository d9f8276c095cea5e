"""Why a container could not be made.

ContainerError                  the container is not created; kubelet tries again later
├── UnresolvableDevicesError    CDI names that no usable spec file defines
└── InjectionError              an edit that cannot be applied on this host
SpecError                       one CDI file that cannot be used; the others keep working
"""

from collections.abc import Sequence


class ContainerError(Exception):
    """A container that could not be created."""


class UnresolvableDevicesError(ContainerError):
    """CDI names that no usable spec file defines; nothing was applied."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(names)}")
        self.names = tuple(names)


class InjectionError(ContainerError):
    """An edit that this host cannot satisfy, such as a device node that does not exist."""


class SpecError(Exception):
    """A CDI spec file that is refused as a whole."""
