"""Containers with CDI devices whose outcome in the CDI library is on record.

Each case is a pair of CDI directories, the devices that a container asks for, and what the
container has before. `cdi_specs` holds specs as our plugin writes them; they stay as they are
when the plugin changes, for the record is about them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

JsonObject = dict[str, Any]

_SPECS: Final = Path(__file__).parent / "cdi_specs"
_VERDICTS: Final = Path(__file__).parents[2] / "cdi" / "verdicts"
_KIND: Final = "vendor.com/class"
_START: Final[JsonObject] = {
    "env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"],
    "mounts": [
        {"destination": "/proc", "source": "proc", "type": "proc"},
        {"destination": "/dev/shm", "source": "shm", "type": "tmpfs", "options": ["nosuid"]},  # noqa: S108
        {"destination": "/usr/lib/data", "source": "/data", "type": "bind", "options": ["rbind"]},
    ],
    "devices": [{"path": "/dev/old", "type": "c", "major": 5, "minor": 1}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One container; *files* are texts by their place below the two directories' parent."""

    files: Mapping[str, str]
    devices: tuple[str, ...]
    start: JsonObject = field(default_factory=lambda: _START)

    def lay_out(self, root: Path) -> tuple[Path, Path]:
        """Write the files below *root* and return the directories, the first being the lower."""
        for place, text in self.files.items():
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return root / "etc", root / "run"


def cases() -> dict[str, Case]:
    """Return all cases by name."""
    return {**dict(_verdicts()), **dict(_claims()), **dict(_places()), **dict(_edits())}


def spec(*devices: tuple[str, JsonObject], kind: str = _KIND, **changes: Any) -> str:
    """Return the text of a spec with *devices*, given as name and edits."""
    made = [{"name": name, "containerEdits": edits} for name, edits in devices]
    return json.dumps({"cdiVersion": "1.1.0", "kind": kind, "devices": made, **changes})


def named(*names: str) -> tuple[str, ...]:
    """Return the qualified names of devices."""
    return tuple(f"{_KIND}={name}" for name in names)


def qualified(text: str) -> tuple[str, ...]:
    """Return the qualified names of all devices that a spec's text seems to hold."""
    document = json.loads(text)
    devices = document.get("devices") or []
    return tuple(f"{document.get('kind')}={one.get('name')}" for one in devices)


def _verdicts() -> Iterator[tuple[str, Case]]:
    for path in sorted(_VERDICTS.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        devices = qualified(text) * 2
        yield f"verdict {path.stem}", Case(files={"run/a.json": text}, devices=devices)


def _claims() -> Iterator[tuple[str, Case]]:
    for path in sorted(_SPECS.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        files, devices = {"run/claim.json": text}, qualified(text)
        yield f"claim {path.stem}", Case(files=files, devices=devices)
        yield f"claim {path.stem} asked for twice", Case(files=files, devices=devices * 2)
        yield f"claim {path.stem} and another", Case(files=files, devices=(*devices, "a.b/c=d"))


def _places() -> Iterator[tuple[str, Case]]:
    def one(tag: str) -> str:
        return spec(
            ("d", {"env": [f"D={tag}"]}),
            (tag, {"env": [f"T={tag}"]}),
            containerEdits={"env": [f"COMMON={tag}"], "hooks": [_hook(tag)]},
        )

    low, high = {"etc/a.json": one("low")}, {"run/a.json": one("high")}
    yield "the higher directory wins", Case(files=low | high, devices=named("d", "low", "high"))
    both = {"run/a.json": one("a"), "run/b.yaml": one("b")}
    yield "a conflict", Case(files=low | both, devices=named("d"))
    yield "beside a conflict", Case(files=low | both, devices=named("b", "a", "low", "b"))
    again = {"etc/b.json": one("b"), **low}
    yield "a conflict below", Case(files=again | high, devices=named("d"))
    names = {f"run/{name}": one(str(n)) for n, name in enumerate(("a.yml", "b.txt", "s/c.json"))}
    yield "other files", Case(files=names, devices=named("0"))
    yield (
        "files with hidden names",
        Case(
            files={"run/.json": one("x"), "run/.h.yaml": spec(("y", {"env": ["Y=1"]}))},
            devices=named("x", "y"),
        ),
    )
    yield (
        "a file in the place of the lower directory",
        Case(files={"etc": "text", **high}, devices=named("d")),
    )
    yield (
        "a file in the place of the higher directory",
        Case(files={**low, "run": "text"}, devices=named("d")),
    )
    texts = {
        "nothing": "",
        "null": "null",
        "a list": "[]",
        "half": one("x")[:40],
        "a key twice": one("x").replace("{", '{"kind": "a/b", ', 1),
        "a comma at the end": one("x")[:-1] + ",}",
        "a second document": one("x") + "\n---\nrubbish: [",
        "a byte order mark": "\ufeff" + one("x"),
        "a comment": "# c\n" + one("x"),
        "no quotes": f"{{cdiVersion: 0.5.0, kind: {_KIND}, devices: [{{name: yes, containerEdits: "
        "{env: [A=1], mounts: [{hostPath: 2024-01-01, containerPath: 0x1F}]}}]}",
    }
    for what, text in texts.items():
        yield (
            f"a file with {what}",
            Case(files={"run/a.json": text}, devices=named("yes" if what == "no quotes" else "x")),
        )


def _edits() -> Iterator[tuple[str, Case]]:
    parts: dict[str, tuple[JsonObject, ...]] = {
        "env in place": ({"env": ["NVIDIA_VISIBLE_DEVICES=void", "N=1"]}, {"env": ["N=a=b"]}),
        "a node replaced": (_node("/dev/old", major=195), _node("/dev/b", major=8, type="b")),
        "a node twice": (_node("/dev/a", major=195), _node("/dev/a", major=195, permissions="r")),
        "a node of the host": (_node("/dev/x", hostPath="/dev/null", type=""),),
        "a node of the host by its own name": ({"deviceNodes": [{"path": "/dev/zero"}]},),
        "a mode of its own": (_node("/dev/null", fileMode=0o600, uid=1, gid=2, type=""),),
        "a major and no type": (_node("/dev/null", type="", major=7, minor=9),),
        "a minor and no major": (_node("/dev/null", minor=9),),
        "a described node that is there": (_node("/dev/null", major=7, minor=9),),
        "no node": (_node("/dev/none"),),
        "no node and no type": (_node("/dev/none", major=195, type=""),),
        "a node of another type": (_node("/dev/null", type="b"),),
        "an unbuffered node": (_node("/dev/null", type="u"),),
        "a described unbuffered node": (_node("/dev/null", type="u", major=1),),
        "a directory": ({"deviceNodes": [{"path": "/dev"}]},),
        "a fifo": (_node("/dev/none", type="p"),),
        "no permissions": (_node("/dev/null", permissions="none"),),
        "a mount replaced": (
            {"mounts": [_mount("/dev/shm"), _mount("/x")]},  # noqa: S108
            {"mounts": [_mount("/x", type="tmpfs")]},
        ),
        "mounts by depth": (
            {"mounts": [_mount(path) for path in ("/a/b/c", "/z", "/", "//y", "/a/../b", "r/s")]},
        ),
        "hooks": (
            {"hooks": [_hook("a"), _hook("b", hookName="poststop", timeout=0)]},
            {"hooks": [_hook("a"), _hook("c", hookName="prestart", env=["A=1"], timeout=7)]},
        ),
        "groups": ({"additionalGids": [0, 44]}, {"additionalGids": [44, 45]}),
        "network": (_net("e0", "n0"), _net("e1", "n1")),
        "one network interface for two": (_net("e0", "n0"), _net("e0", "n1")),
        "cache": (
            {"intelRdt": {"closID": "/", "schemata": ["L3:0=f"]}},
            {"intelRdt": {"closID": "b", "enableMonitoring": True}},
        ),
        "nulls": ({"env": [None, "A=1"], "mounts": None, "additionalGids": [None, 5]},),
        "numbers for text": ({"env": ["A=1"], "hooks": [_hook("a", args=[1, 1.5, True, None])]},),
        "text for numbers": (_node("/dev/a", major="195"),),
        "broken numbers": (_node("/dev/a", major=195.5, minor=1.0),),
    }
    for what, edits in parts.items():
        devices = [(f"d{number}", one) for number, one in enumerate(edits)]
        names = named(*(name for name, _ in devices))
        files = {"run/a.json": spec(*devices)}
        yield f"edits: {what}", Case(files=files, devices=names)
        yield f"edits: {what}, asked for twice", Case(files=files, devices=names * 2)
    old: JsonObject = {"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/null"}]}
    for what, devices in {
        "last": [("a", {"env": ["A=1"]}), ("b", old)],
        "first": [("a", old), ("b", {"env": ["A=1"]})],
    }.items():
        text = spec(*devices, cdiVersion="0.3.0")
        yield (
            f"a host path too new for the version in the {what} device",
            Case(files={"run/a.json": text}, devices=named("a", "b")),
        )


def _node(path: str, **changes: Any) -> JsonObject:
    return {"deviceNodes": [{"path": path, "type": "c", **changes}]}


def _mount(path: str, **changes: Any) -> JsonObject:
    return {"hostPath": "/host", "containerPath": path, "options": ["ro", "bind"], **changes}


def _hook(tag: str, **changes: Any) -> JsonObject:
    hook = {"hookName": "createContainer", "path": "/bin/hook", "args": ["hook", tag]}
    return {**hook, **changes}


def _net(host: str, name: str) -> JsonObject:
    return {"netDevices": [{"hostInterfaceName": host, "name": name}]}
