"""The demo's result for a person: tables and bars, plain where the output is no terminal."""

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdi.enforcement import PRELOAD_PATH, REGION_PATH
from cdi.library import CONTAINER_LIBRARY_PATH
from cli.demo.older import OlderRow
from cli.demo.report import Amount, ContainerDetail, DeviceRow, LegacyRow, PodRow, Report

_BAR_WIDTH = 6
_MANY = 3
_NOTE = (
    "\nGPUs, driver and libvgpu.so are stand-ins here. The limits above are what HAMi-core is "
    "told; only HAMi-core on a GPU makes them hold."
)
_OF_HAMI_CORE = (CONTAINER_LIBRARY_PATH, PRELOAD_PATH, REGION_PATH)


def show(report: Report, console: Console) -> None:
    """Print *report* to *console*."""
    for node in dict.fromkeys(row.node for row in report.devices):
        console.print(_devices(node, [row for row in report.devices if row.node == node]))
    console.print(_pods(report.pods))
    if report.legacy:
        console.print(_legacy(report.legacy))
    if report.detail is not None:
        console.print(_container(report.detail))
    for pod in report.pods:
        if pod.why_pending:
            console.print(Text(f"\n{pod.name} is pending:", style="bold"))
            console.print(Text(pod.why_pending))
        for difference in pod.differences:
            console.print(Text(f"{pod.name}: {difference}", style="red"))
    if report.older:
        _show_older(report.older, console)
    for leftover in report.leftovers:
        console.print(Text(leftover, style="red"))
    console.print(Text(_NOTE, style="dim"))


def _devices(node: str, rows: list[DeviceRow]) -> Table:
    table = Table(title=f"\n{node}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("GPU and pods")
    for heading in ("memory MiB", "cores %", "shares"):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(
            _holders(row), _bar(row.memory_mib), _bar(row.cores_percent), _bar(row.shares)
        )
    return table


def _holders(row: DeviceRow) -> Text:
    text = Text(row.product.removeprefix("NVIDIA "))
    if row.pods:
        more = f" and {len(row.pods) - _MANY} more" if len(row.pods) > _MANY else ""
        text.append(f"\n{', '.join(row.pods[:_MANY])}{more}", style="dim")
    return text


def _bar(amount: Amount | None) -> Text:
    """Return used and total, with the used part as a bar."""
    if amount is None:
        return Text("-")
    filled = round(_BAR_WIDTH * amount.used / amount.total) if amount.total else 0
    if amount.used and not filled:
        filled = 1
    text = Text("█" * filled, style="green" if amount.used < amount.total else "yellow")
    text.append("░" * (_BAR_WIDTH - filled), style="dim")
    return text.append(f" {amount.used}/{amount.total}", style="default")


def _pods(pods: tuple[PodRow, ...]) -> Table:
    table = Table(title="\npods", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("pod", "phase", "node", "as the manifest asks"):
        table.add_column(heading)
    for pod in pods:
        verdict = Text("no", style="red") if pod.differences else Text("yes", style="green")
        table.add_row(pod.name, pod.phase, pod.node or "-", verdict)
    return table


def _legacy(rows: tuple[LegacyRow, ...]) -> Table:
    table = Table(
        title="\npods in HAMi's words, and their claims",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("pod", "limits in the manifest", "claim asks for"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        limits = "\n".join(f"{name}: {value}" for name, value in row.limits.items())
        table.add_row(row.pod, limits, "\nor ".join(row.asks))
    return table


def _show_older(rows: tuple[OlderRow, ...], console: Console) -> None:
    table = Table(
        title="\npods on an older cluster, placed by the extender",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("pod", "limits", "node and devices", "what the container got"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        limits = "\n".join(f"{name}: {value}" for name, value in row.limits.items())
        where = "\n".join((row.node, *row.devices)) if row.node else row.why_pending
        table.add_row(row.pod, limits, where, "\n".join(row.got) or "-")
    console.print(table)
    for row in rows:
        for difference in row.differences:
            console.print(Text(f"{row.pod}: {difference}", style="red"))


def _container(detail: ContainerDetail) -> Table:
    table = Table(
        title=f"\ncontainer of pod {detail.pod} on {detail.node}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_header=False,
    )
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    for what, value in _lines(detail):
        table.add_row(what, value)
    return table


def _lines(detail: ContainerDetail) -> Iterator[tuple[str, str]]:
    for name, value in detail.env.items():
        yield "env", f"{name}={value}"
    for device in detail.devices:
        yield "device", device
    of_driver: Counter[str] = Counter()
    for container_path, host_path, options in detail.mounts:
        if container_path in _OF_HAMI_CORE:
            library = container_path == CONTAINER_LIBRARY_PATH
            note = "a placeholder, " if library and detail.placeholder else ""
            yield "mount", f"{container_path} from {host_path} ({note}{options})"
        else:
            of_driver[str(PurePosixPath(container_path).parent)] += 1
    for directory, count in of_driver.items():
        yield "mount", f"{count} files of the NVIDIA driver in {directory} (read-only)"
