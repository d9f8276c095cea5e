"""What cannot be explained.

ExplainError
├── SubjectNotFoundError   there is no such pod or claim
├── OtherProtocolError     something else than device allocation decides about the pod
└── RulesUnknownError      no such release or feature gate is known
"""


class ExplainError(Exception):
    """Root of what this package raises; the text is a sentence for the user."""


class SubjectNotFoundError(ExplainError):
    """There is no such pod or claim."""


class OtherProtocolError(ExplainError):
    """Something else than device allocation decides about the pod."""


class RulesUnknownError(ExplainError):
    """No such release or feature gate is known."""
