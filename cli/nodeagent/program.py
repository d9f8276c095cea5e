"""Runs the node agent as its node is to be served: `gpuslice node-agent`."""

import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

# Before anything else, and before anything else that logs: see there.
from dra import lean  # isort: skip
from kube import logs  # isort: skip

from cdi.durable import make_directory
from cdi.faults import FaultPoint
from cdi.nvidia import character_device
from cli.nodeagent.choice import ModeChoice
from cli.nodeagent.claimagent import ClaimAgent
from cli.nodeagent.mode import Mode, ModeError
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from dra import __main__ as dra_main
from dra import wiring
from dra.deviceedits import DeviceNumbers
from gpu.refusal import RefusedError
from kube.config import ClientConfig

lean.imports_done()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    return run(read_settings(sys.argv[1:] if arguments is None else arguments))


def read_settings(arguments: Sequence[str]) -> NodeAgentSettings:
    """Return the settings in *arguments* and the environment, and begin to log as they say."""
    settings = NodeAgentSettings.from_arguments(arguments, program="gpuslice-node-agent")
    logs.configure(settings.log_level, json=True)
    return settings


def run(
    settings: NodeAgentSettings,
    *,
    device_numbers: DeviceNumbers = character_device,
    identity: ClientConfig | None = None,
) -> NoReturn:
    """Run as *settings* say, and end the process; *identity* replaces the one they point to."""

    def make(ended: threading.Event) -> dra_main.Program:
        mode, file = _mode(settings, identity, ended)
        if mode is Mode.DRA:
            return ClaimAgent(settings, file=file, device_numbers=device_numbers, identity=identity)
        # A node that serves claims need not load the device plugin.
        from cli.nodeagent.cardagent import CardAgent  # noqa: PLC0415
        from hami.deviceconfig import DeviceConfigError  # noqa: PLC0415

        try:
            return CardAgent(settings, file=file, device_numbers=device_numbers, identity=identity)
        except DeviceConfigError as error:
            raise ModeError(str(error)) from error

    dra_main.run(make, errors=(ModeError, RefusedError))


def _mode(
    settings: NodeAgentSettings, identity: ClientConfig | None, ended: threading.Event
) -> tuple[Mode, ModeFile]:
    directory = settings.plugin_directory
    make_directory(directory, FaultPoint.PLUGIN_DIRECTORY_MADE, mode=0o750)
    file = ModeFile(directory / "node-mode")
    client = wiring.client(settings, identity)
    boot_id = (settings.proc_root / "sys/kernel/random/boot_id").read_text().strip()
    try:
        choice = ModeChoice(settings, client=client, file=file, boot_id=boot_id)
        return choice.wait(ended), file
    finally:
        client.close()
