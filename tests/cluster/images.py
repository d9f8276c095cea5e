"""Container images written by hand, so that none is ever fetched.

One layer with a static busybox makes both images; the archive has the form of `docker save`, which
containerd imports. The sandbox image only sleeps, as the usual pause program does. Static programs
and other files make images of their own.
"""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

BUSYBOX: Final = "gpuslice.test/busybox:1"
PAUSE: Final = "gpuslice.test/pause:1"
_FOLDERS: Final = ("bin", "dev", "etc", "proc", "sys", "tmp", "var")
_FILES: Final = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "etc/group": b"root:x:0:\nnobody:x:65534:\n",
}
_APPLETS: Final = ("sh", "cp", "ls", "cat")


def write_archive(path: Path, busybox: Path, applets: Sequence[str]) -> None:
    """Write an archive with the busybox and the sandbox image to *path*."""
    layer = _layer({"bin/busybox": busybox.read_bytes()}, applets)
    env = ["PATH=/bin"]
    sleep = ["/bin/busybox", "sleep", "2147483647"]
    images = {BUSYBOX: {"Cmd": ["/bin/sh"], "Env": env}, PAUSE: {"Cmd": sleep, "Env": env}}
    _write(path, layer, images)


def write_files_archive(
    path: Path, tag: str, files: Mapping[str, bytes], *, busybox: bool = False
) -> None:
    """Write an archive with an image *tag* of *files*, all executable, by their paths.

    With *busybox* it has a shell and `cp` beside them.
    """
    programs = {name.lstrip("/"): content for name, content in files.items()}
    if busybox:
        programs["bin/busybox"] = Path(shutil.which("busybox") or "busybox").read_bytes()
    layer = _layer(programs, _APPLETS if busybox else ())
    _write(path, layer, {tag: {"Env": ["PATH=/usr/local/bin:/bin"]}})


def _write(path: Path, layer: bytes, images: Mapping[str, Mapping[str, object]]) -> None:
    layer_name = f"{hashlib.sha256(layer).hexdigest()}/layer.tar"
    manifest = []
    with tarfile.open(path, "w") as archive:
        _add(archive, layer_name, layer)
        for tag, about in images.items():
            config = _config(layer, about)
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, config_name, config)
            manifest.append({"Config": config_name, "RepoTags": [tag], "Layers": [layer_name]})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(programs: Mapping[str, bytes], applets: Sequence[str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            folder.mode = 0o1777 if name == "tmp" else 0o755
            layer.addfile(folder)
        for name, text in _FILES.items():
            _add(layer, name, text)
        for name, program in programs.items():
            _add(layer, name, program, mode=0o755)
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
    return content.getvalue()


def _config(layer: bytes, about: Mapping[str, object]) -> bytes:
    return json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": about,
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
            },
        }
    ).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
