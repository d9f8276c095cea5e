"""With which flags the node agent runs in whose container this was begun.

`kubectl exec` starts the command without them, and where the chart has moved a directory nobody
should have to say it twice. The agent is known by the place where it sees the host's files, which
is ours too.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_PROGRAM: Final = "node-agent"
_HOST_ROOT: Final = "host-root"


def agent_flags(host_root: Path, *, proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the flags, without their dashes, of an agent with this *host_root*, if one runs."""
    for words in _commands(proc):
        if _PROGRAM in words:
            found = dict(_flags(words))
            if found.get(_HOST_ROOT) == str(host_root):
                return found
    return {}


def _commands(proc: Path) -> Iterator[list[str]]:
    try:
        processes = [each for each in proc.iterdir() if each.name.isdecimal()]
    except OSError:
        return
    for process in processes:
        try:
            text = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        yield text.removesuffix("\0").split("\0")


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the flags that have values; of several the last counts."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, sign, value = word.partition("=")
        if name.startswith("--"):
            yield name.removeprefix("--"), value if sign else following
