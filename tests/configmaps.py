"""ConfigMaps as kubelet mounts them."""

from pathlib import Path


class Mount:
    """One file of a ConfigMap: it is behind a link that is replaced."""

    def __init__(self, folder: Path, name: str = "config.json") -> None:
        self._folder, self._name, self._count = folder, name, 0
        self.path = folder / "..data" / name

    def write(self, text: str | bytes | None) -> None:
        """Put *text* in the place of what is there, or no file for `None`."""
        self._count += 1
        new = self._folder / f"..{self._count}"
        new.mkdir(parents=True)
        content = text.encode() if isinstance(text, str) else text
        if content is not None:
            (new / self._name).write_bytes(content)
        (self._folder / "..new").symlink_to(new.name)
        (self._folder / "..new").replace(self._folder / "..data")
