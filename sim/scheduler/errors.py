"""Why an attempt to allocate ends early.

SchedulerError
├── CelError
│   ├── CelCompileError   the expression is no CEL, or no boolean one
│   └── CelRuntimeError   the expression has no value for this device
├── MalformedError        an object that an API server would not have accepted
├── NodeError             this node cannot be judged, others can
└── FatalError            the pod cannot be placed on any node until something changes
"""


class SchedulerError(Exception):
    """Root of what this package raises."""


class CelError(SchedulerError):
    """A selector that gives no answer; *expression* is the user's text."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(f"{message} in `{expression}`")
        self.expression = expression
        self.message = message


class CelCompileError(CelError):
    """The expression is no CEL, or no boolean one."""


class CelRuntimeError(CelError):
    """The expression has no value for this device, such as after a missing key."""


class MalformedError(SchedulerError):
    """An object that an API server would not have accepted."""


class NodeError(SchedulerError):
    """This node cannot be judged; others can."""


class FatalError(SchedulerError):
    """The pod cannot be placed on any node until something changes; *code* is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
