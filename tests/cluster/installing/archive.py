"""A container image of given files, written by hand as `docker save` would write it."""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_FOLDERS: Final = ("bin", "tmp")
_APPLETS: Final = ("sh", "cp", "ls", "cat")


def write_files_archive(
    path: Path, tag: str, files: Mapping[str, bytes], *, busybox: bool = False
) -> None:
    """Write an image *tag* with *files* by their paths, all executable, to *path*."""
    layer = _layer(files, busybox=busybox)
    digest = hashlib.sha256(layer).hexdigest()
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    )
    names = f"{hashlib.sha256(config).hexdigest()}.json", f"{digest}/layer.tar"
    manifest = [{"Config": names[0], "RepoTags": [tag], "Layers": [names[1]]}]
    with tarfile.open(path, "w") as archive:
        _add(archive, names[1], layer)
        _add(archive, names[0], config)
        _add(archive, "manifest.json", _json(manifest))


def _layer(files: Mapping[str, bytes], *, busybox: bool) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            folder.mode = 0o1777 if name == "tmp" else 0o755
            layer.addfile(folder)
        for name, text in files.items():
            _add(layer, name.lstrip("/"), text)
        if busybox:
            _add(layer, "bin/busybox", Path(shutil.which("busybox") or "busybox").read_bytes())
            for applet in _APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                layer.addfile(link)
    return content.getvalue()


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))
