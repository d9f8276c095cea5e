"""The demo's result for a person: tables and bars, plain where the output is no terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.demo.report import Amount, ContainerDetail, DeviceRow, PodRow, Report

_BAR_WIDTH = 12
_MANY = 3


def show(report: Report, console: Console) -> None:
    """Print *report* to *console*."""
    for node in dict.fromkeys(row.node for row in report.devices):
        console.print(_devices(node, [row for row in report.devices if row.node == node]))
    console.print(_pods(report.pods))
    if report.detail is not None:
        console.print(_container(report.detail))
    for pod in report.pods:
        if pod.why_pending:
            console.print(Text(f"\n{pod.name} is pending:", style="bold"))
            console.print(Text(pod.why_pending))
        for difference in pod.differences:
            console.print(Text(f"{pod.name}: {difference}", style="red"))


def _devices(node: str, rows: list[DeviceRow]) -> Table:
    table = Table(title=f"\n{node}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("GPU", "memory MiB", "cores %", "shares", "pods"):
        table.add_column(heading, no_wrap=heading != "pods")
    for row in rows:
        table.add_row(
            row.product,
            _bar(row.memory_mib),
            _bar(row.cores_percent),
            _bar(row.shares),
            _few(row.pods),
        )
    return table


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


def _few(pods: tuple[str, ...]) -> str:
    shown = ", ".join(pods[:_MANY])
    return f"{shown} and {len(pods) - _MANY} more" if len(pods) > _MANY else shown or "-"


def _pods(pods: tuple[PodRow, ...]) -> Table:
    table = Table(title="\npods", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("pod", "phase", "node", "as the manifest asks"):
        table.add_column(heading)
    for pod in pods:
        verdict = Text("no", style="red") if pod.differences else Text("yes", style="green")
        table.add_row(pod.name, pod.phase, pod.node or "-", verdict)
    return table


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
    for container_path, host_path, options in detail.mounts:
        yield "mount", f"{container_path}  <- {host_path}  ({options})"
