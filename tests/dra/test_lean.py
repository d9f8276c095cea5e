"""What the node agent keeps out of its process, and that it is there when somebody wants it."""

import subprocess
import sys

FRESH = """
import sys
import dra.__main__
def loaded(name):
    return type(sys.modules.get(name)).__name__ == "module"
"""


def said(program: str) -> str:
    """Return what a fresh process prints that has imported the agent and then runs *program*."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", FRESH + program], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_asyncio_is_not_loaded() -> None:
    """Neither it nor gRPC's part for it, nor what may never be loaded at all."""
    names = ("asyncio", "grpc.aio", "rich", "kubernetes", "aiohttp", "fastapi", "uvicorn", "yaml")
    assert said(f"print([name for name in {names} if loaded(name)])") == "[]\n"


def test_whoever_uses_asyncio_gets_it() -> None:
    """By any way of importing it, and the real one."""
    program = """
import asyncio.events
from asyncio import sleep
import grpc.aio
async def main():
    await sleep(0)
    return asyncio.events.get_running_loop() is not None
print(asyncio.run(main()), grpc.aio.server.__module__, loaded("asyncio"))
"""
    assert said(program) == "True grpc.aio._server True\n"


def test_what_is_not_there_stays_an_attribute_error() -> None:
    """A stand-in has nothing that the module does not have."""
    program = """
import asyncio
try:
    asyncio.no_such_name
except AttributeError as error:
    print(error)
"""
    assert said(program) == "module 'asyncio' has no attribute 'no_such_name'\n"


def test_garbage_is_looked_for_again() -> None:
    """Only what imports made is left out."""
    assert said("import gc; print(gc.isenabled(), gc.get_freeze_count() > 10_000)") == "True True\n"
