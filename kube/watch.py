"""One open watch: the raw lines of the answer, until either side ends it.

The API server sends one JSON object a line and nothing at all while nothing happens, so a
dead peer shows only as silence: the inactivity timeout must be longer than the server's own
`timeoutSeconds`, or bookmarks (about one a minute) must be asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from urllib3.exceptions import HTTPError
from urllib3.response import HTTPResponse

from kube.errors import ConnectionFailedError

_READ_MAX = 1 << 16
# Shutting a TLS socket down under its reader shows in one of these, depending on where it stood.
_BROKEN = (HTTPError, OSError, ValueError, AttributeError)


class Watch:
    """Iterate it in one thread, inside `with`; `close()` may be called from any."""

    def __init__(
        self,
        response: HTTPResponse,
        path: str,
        translate: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._response = response
        self._path = path
        self._translate = translate
        self._ended = False

    def translated(self, translate: Callable[[bytes], bytes]) -> "Watch":
        """Return this watch with each line passed through *translate*; use only the new one."""
        return Watch(self._response, self._path, translate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        with suppress(*_BROKEN):
            self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines; raises `ConnectionFailedError` on silence or a cut, not at a proper end."""
        lines = self._lines()
        return lines if self._translate is None else map(self._translate, lines)

    def _lines(self) -> Iterator[bytes]:
        begun: list[bytes] = []
        try:
            for piece in self._pieces():
                if b"\n" not in piece:
                    begun.append(piece)
                    continue
                *lines, rest = b"".join([*begun, piece]).split(b"\n")
                begun = [rest] if rest else []
                yield from filter(None, lines)
            if begun:
                yield b"".join(begun)
        except _BROKEN as error:
            if not self._ended:
                message = f"watch of {self._path}: {error}"
                raise ConnectionFailedError(message) from error

    def close(self) -> None:
        """End the iteration, also one that is blocked in a read."""
        self._ended = True
        # Closing would wait for the reader; it fails when the answer has ended already.
        with suppress(RuntimeError, *_BROKEN):
            self._response.shutdown()

    def _pieces(self) -> Iterator[bytes]:
        if self._response.chunked:
            yield from self._response.read_chunked()
            return
        while piece := self._response.read1(_READ_MAX):
            yield piece
