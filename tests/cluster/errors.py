"""What can go wrong with a real cluster, each said so that a person can act on it.

ClusterError
├── MissingError              programs, packages or rights that this machine lacks
├── BuildError                a module that does not build
└── ComponentError            a component that ended or did not become ready; carries its last lines
"""


class ClusterError(Exception):
    """A real cluster cannot be had, or has failed."""


class MissingError(ClusterError):
    """Something that has to be installed or built first; the message says how."""


class BuildError(ClusterError):
    """A module of Go programs does not build."""


class ComponentError(ClusterError):
    """A component ended or did not become ready in time."""
