"""Small git checkouts, for tests of what an image is made of."""

import subprocess
from pathlib import Path


def checkout(root: Path) -> Path:
    """Return a git checkout of a project with one file that a build sees, and one it does not."""
    for name, text in {
        ".dockerignore": "# of a build\n*\n!pyproject.toml\n!gpu\n**/*.pyc\n",
        ".gitignore": "*.pyc\n",
        "pyproject.toml": '[project]\nversion = "1.2.3"\n',
        "gpu/model.py": "ONE = 1\n",
        "tests/test_model.py": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--quiet")
    commit(root)
    return root


def git(root: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    command = ["git", *who, *arguments]
    subprocess.run(command, cwd=root, check=True)  # noqa: S603 - git with arguments of ours


def commit(root: Path) -> None:
    """Commit all that is there."""
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "all")
