"""The node agent runs on every node, so what it loads is paid for everywhere."""

import subprocess
import sys

_HEAVY = [
    "elftools",
    "kubernetes",
    "aiohttp",
    "fastapi",
    "uvicorn",
    "rich",
    "yaml",
    "sim",
    "cli",
    "hami",
]


def test_the_agent_loads_nothing_heavy() -> None:
    """None of these is imported, not even by something that is."""
    program = f"import sys, dra.__main__; print([n for n in {_HEAVY} if sys.modules.get(n)])"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
