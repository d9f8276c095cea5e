"""What can go wrong between this package and a cluster.

::

    KubeError
    |-- ConfigError               credentials or addresses cannot be found or read
    |-- ConnectionFailedError     no answer: refused, timed out, TLS, cut off
    |-- NotServedError            the server has no version of an API that can be spoken here
    |-- UntranslatableError       a request that the version served has no words for
    `-- ApiError                  the server answered with a failure
        |-- UnauthorizedError     401
        |-- ForbiddenError        403
        |-- NotFoundError         404
        |-- ConflictError         409, reason `Conflict` or `AlreadyExists`
        |-- GoneError             410, a resource version that is too old
        |-- InvalidError          400 and 422
        |-- TooManyRequestsError  429
        `-- ServerError           5xx

Failed answers carry a `Status` object; a proxy on the way may answer with anything, which is cut
short because it ends up in logs. Malformed texts (`kube.quantity.QuantityError`,
`kube.shareconfig.ShareConfigError`) are `ValueError`s: no cluster is involved in them.
"""

import json

_BODY_MAX = 256
_DIGITS_MAX = 9
_NO_HANDLER = "the server could not find the requested resource"
_RETRY_MAX_S = 3600
"""A longer wish is a mistake: nobody waits for hours, and clocks cannot count for ever."""


class KubeError(Exception):
    """Something between this package and a cluster failed."""


class ConfigError(KubeError):
    """The way to the cluster or the credentials for it cannot be found or read."""


class ConnectionFailedError(KubeError):
    """The server gave no answer, so whether it acted is unknown."""


class NotServedError(KubeError):
    """The server serves no such kind, so nothing is said about any object; this is no 404."""


class UntranslatableError(KubeError):
    """The request cannot be said in the version that the server has."""


class ApiError(KubeError):
    """The server refused; *reason* is its CamelCase word, *retry_after_s* its wish, if any."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}"


class UnauthorizedError(ApiError):
    """The server does not know who asks."""


class ForbiddenError(ApiError):
    """The one who asks may not do this."""


class NotFoundError(ApiError):
    """There is no such object or no such kind of object."""

    @property
    def is_about_path(self) -> bool:
        """Tell whether it is the kind that the server does not have.

        That is a plain text where the whole group is not served, and else a `Status` that names no
        object (apimachinery: pkg/api/errors, NewGenericServerResponse).
        """
        return self.reason != "NotFound" or self.message.startswith(_NO_HANDLER)


class ConflictError(ApiError):
    """The object changed meanwhile, or exists already (see *reason*)."""


class GoneError(ApiError):
    """The resource version or continue token is too old: list again."""


class InvalidError(ApiError):
    """The object or the request breaks a rule: repeating it does not help."""


class TooManyRequestsError(ApiError):
    """The server is busy; *retry_after_s* says when to come back."""


class ServerError(ApiError):
    """The server failed by itself."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def api_error(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Make the error for an answer of HTTP *status* from its *body* and `Retry-After` header."""
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    seconds = None
    if retry_after and retry_after.isdecimal():
        seconds = min(int(retry_after[:_DIGITS_MAX]), _RETRY_MAX_S)
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and said.get("kind") == "Status":
        details = said.get("details")
        wished = details.get("retryAfterSeconds") if isinstance(details, dict) else None
        if isinstance(wished, int) and wished > 0:
            seconds = min(wished, _RETRY_MAX_S)
        reason, message = said.get("reason"), said.get("message")
        return kind(status, str(reason or "Unknown"), str(message or ""), retry_after_s=seconds)
    text = body[: _BODY_MAX * 4].decode(errors="replace")[:_BODY_MAX]
    return kind(status, "Unknown", text, retry_after_s=seconds)
