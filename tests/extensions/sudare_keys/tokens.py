"""A token in software (SoftHSM), with one user PIN, for tests of keys that lie in hardware."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PIN: Final = "739201"
_PLACES: Final = (
    Path("/usr/lib/softhsm/libsofthsm2.so"),
    Path("/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so"),
    Path("/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so"),
)


@dataclass(frozen=True)
class SoftToken:
    """Tokens of one process: SoftHSM reads where they lie once, when its library is loaded."""

    library: Path
    labels: tuple[str, ...]


def soft_tokens(folder: Path, *labels: str) -> SoftToken:
    """Make tokens in a folder, and have this process and its children find them there."""
    found = [place for place in _PLACES if place.is_file()]
    if not found:
        raise RuntimeError("SoftHSM is not installed: apt-get install softhsm2")
    (folder / "tokens").mkdir()
    settings = folder / "softhsm2.conf"
    settings.write_text(
        f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n"
    )
    os.environ["SOFTHSM2_CONF"] = str(settings)
    for label in labels:
        words = ("--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", f"so-{PIN}")
        subprocess.run(["softhsm2-util", *words], check=True, capture_output=True)
    return SoftToken(found[0], labels)
