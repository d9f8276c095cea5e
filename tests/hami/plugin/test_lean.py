"""What the device plugin's answers keep out of the node agent's process."""

import subprocess
import sys

_PROGRAM = """
import sys
import hami.plugin.containers, hami.plugin.responding
unwanted = ("aiohttp", "dra", "elftools", "fastapi", "kubernetes", "uvicorn", "yaml")
print([name for name in unwanted if name in sys.modules])
"""


def test_answers_load_nothing_heavy() -> None:
    """Libraries are read into where they are delivered, by a process that ends."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
