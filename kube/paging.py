"""The pages of a list, each asked for while the one before it is being taken.

A server needs a while for each page, which whoever takes them would otherwise only wait.
"""

import threading
from collections.abc import Callable, Iterator, Mapping

from kube.objects import JsonObject


class _Ahead:
    """A request under way; its thread is left behind when nobody wants the answer any more."""

    def __init__(self, get: Callable[[], bytes]) -> None:
        self._get = get
        self._answer = b""
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="next page", daemon=True)
        self._thread.start()

    def answer(self) -> bytes:
        """Wait for the answer; raises what the request has raised."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._get()
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            self._failure = error


def pages(
    get: Callable[[Mapping[str, str]], bytes],
    parse: Callable[[bytes], JsonObject],
    params: Mapping[str, str],
) -> Iterator[JsonObject]:
    """Yield each page that *get* returns for *params* and the token of the one before."""
    body = get(params)
    while True:
        page = parse(body)
        token = page["metadata"].get("continue")
        if not token:
            yield page
            return
        asked = {**params, "continue": str(token)}
        ahead = _Ahead(lambda: get(asked))  # noqa: B023 - waited for before the next round
        yield page
        body = ahead.answer()
