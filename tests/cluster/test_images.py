"""Tests of the images written by hand."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import IO

from tests.cluster.images import BUSYBOX, PAUSE, write_archive, write_files_archive


def content(archive: tarfile.TarFile, name: str) -> bytes:
    """Return one file of *archive*."""
    file: IO[bytes] | None = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_archive_describes_its_layer(tmp_path: Path) -> None:
    """Both images name the one layer by its digest, which containerd checks."""
    (tmp_path / "busybox").write_bytes(b"program")
    write_archive(tmp_path / "images.tar", tmp_path / "busybox", ["sh", "ls"])
    with tarfile.open(tmp_path / "images.tar") as archive:
        manifest = json.loads(content(archive, "manifest.json"))
        assert [image["RepoTags"] for image in manifest] == [[BUSYBOX], [PAUSE]]
        for image in manifest:
            (layer,) = image["Layers"]
            digest = hashlib.sha256(content(archive, layer)).hexdigest()
            config = json.loads(content(archive, image["Config"]))
            assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
        file = archive.extractfile(manifest[0]["Layers"][0])
        with tarfile.open(fileobj=file) as layer_archive:
            assert layer_archive.getmember("bin/busybox").mode == 0o755
            assert layer_archive.getmember("bin/ls").linkname == "busybox"
            assert content(layer_archive, "bin/busybox") == b"program"


def test_files_make_an_image_of_their_own(tmp_path: Path) -> None:
    """A program is found by its name alone, and busybox is there only where it is asked for."""
    files = {"/usr/local/bin/kube-scheduler": b"program"}
    for busybox in (False, True):
        path = tmp_path / "image.tar"
        write_files_archive(path, "kube-scheduler:1.2", files, busybox=busybox)
        with tarfile.open(path) as archive:
            (image,) = json.loads(content(archive, "manifest.json"))
            assert image["RepoTags"] == ["kube-scheduler:1.2"]
            about = json.loads(content(archive, image["Config"]))["config"]
            assert "/usr/local/bin" in about["Env"][0]
            with tarfile.open(fileobj=archive.extractfile(image["Layers"][0])) as layer:
                assert layer.getmember("usr/local/bin/kube-scheduler").mode == 0o755
                assert content(layer, "usr/local/bin/kube-scheduler") == b"program"
                assert ("bin/cp" in layer.getnames()) == busybox
