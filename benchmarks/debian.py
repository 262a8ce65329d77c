"""Packages of Debian, unpacked without being installed."""

import subprocess
from pathlib import Path


def unpack(package: str, folder: Path) -> Path:
    """Download a Debian package and unpack it, unless that is done."""
    root = folder / package
    if not root.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
        (archive,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    return root
