"""A release spec as a Python object: the keys of the YAML file, and its refusals with the place in the object.

A spec that runs is written into the workspace's folder `specs`, under a name with its own digest. So what ran from
Python can be read, and the same code reads it as reads a file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import yaml

from contracts.errors import Finding, SpecRefused
from contracts.reading.findings import dotted
from contracts.reading.scalars import FieldPath, nearest, word_list
from contracts.release.spec import SpecFile
from sudare.contract import Contract
from sudare.words import call
from tasks.storage.workspace.keys import refusal

KEYS: Final = tuple(SpecFile.model_fields)
STORE: Final = "releases/"
FOLDER: Final = "specs"
_DIGITS: Final = 12
_WIDTH: Final = 118


class Spec(Mapping[str, Any]):
    """What is released, at which cost, from which columns: the keys of a release spec's file.

    Args:
        keys: `release`, `contract`, `charge` and `product` as in the file; `source` for what stands beside its path
            there (`select`, `types`, `by`), or with a path; `publish`, `{"to": "releases/"}` where it is left out;
            `about`, `period` and `redraw`. Paths count from the current folder. A contract may be a `Contract`.
    Raises:
        SpecRefused: a key that no spec has, or a value that no file could hold; with its place and the allowed ones.
    """

    def __init__(self, **keys: Any) -> None:
        call(lambda: self._take(keys))

    def _take(self, keys: dict[str, Any]) -> None:
        named = keys.get("release")
        self._place = f"Spec({named!r})" if isinstance(named, str) else "Spec"
        findings = [
            Finding(self._place, key, f"the unknown key {key!r}", word_list(KEYS), nearest(key, KEYS) or "remove it")
            for key in keys
            if key not in KEYS
        ]
        findings += _unwritable(keys, (), self._place)
        if findings:
            raise SpecRefused(findings)
        self._keys = cast(dict[str, Any], _plain(keys))
        if isinstance(self._keys.get("contract"), str):
            self._keys["contract"] = str(Path(self._keys["contract"]).absolute())

    @classmethod
    def load(cls, path: str | Path) -> Spec:
        """Read a spec's file, with the paths in it as they count from its folder.

        Raises:
            SpecRefused: there is no such file, or it is no YAML.
        """
        return call(lambda: cls(**_from_file(Path(path))))

    @property
    def release(self) -> str:
        """Name of the release; empty where none is given."""
        return str(self._keys.get("release", ""))

    @property
    def contract(self) -> Path | None:
        """The contract's file; None where none is named."""
        written = self._keys.get("contract")
        return Path(written) if isinstance(written, str) else None

    def to_yaml(self) -> str:
        """Return the spec as a file holds it, with absolute paths."""
        return _yaml(self._keys | {"publish": self._keys.get("publish", {"to": STORE})})

    def __getitem__(self, key: str) -> Any:
        return self._keys[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        """Show it as a file holds it."""
        return self.to_yaml().rstrip()


def place_of(spec: Spec) -> str:
    """Return what stands for a spec in findings."""
    return spec._place


def names_rows(spec: Spec) -> bool:
    """Say whether a spec says itself where the rows are."""
    source = spec.get("source")
    return isinstance(source, dict) and "path" in source


def spec_of(given: Spec | Mapping[str, Any] | str | Path) -> Spec:
    """Return a spec from whatever was given: itself, its keys, or the path of its file.

    Raises:
        SpecRefused: it is none of them, or cannot be read.
    """
    if isinstance(given, Spec):
        return given
    if isinstance(given, str | Path):
        return Spec.load(given)
    if isinstance(given, Mapping):
        return Spec(**{str(key): value for key, value in given.items()})
    found = f"an object of type {type(given).__name__}"
    raise SpecRefused([Finding("the call", "spec", found, "a Spec, a dict of its keys, or the path of a YAML file")])


@contextmanager
def planned_file(spec: Spec, rows: Path | None) -> Iterator[Path]:
    """Write a spec into a file that is gone after the block, for what only looks at it."""
    with TemporaryDirectory(prefix="sudare-spec-") as folder:
        file = Path(folder) / f"{spec.release or 'spec'}.yaml"
        file.write_text(_yaml(_completed(spec, rows, None)), encoding="utf-8")
        yield file


def run_file(spec: Spec, rows: Path | None, root: Path) -> Path:
    """Write a spec into its workspace; a spec that was written before stays as it is.

    Args:
        spec: a spec that was found to be readable.
        rows: the file in which its rows lie while it runs; None for the source that it names.
        root: the workspace's root.
    Raises:
        WorkspaceRefused: the folder cannot be written.
    """
    folder = root / FOLDER
    text = _yaml(_completed(spec, rows, folder))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    file = folder / f"{spec.release}-{digest}.yaml"
    try:
        folder.mkdir(exist_ok=True)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            partial = folder / f".{file.name}.{os.getpid()}"
            partial.write_text(text, encoding="utf-8")
            partial.replace(file)
    except OSError as error:
        found, remedy = error.strerror or type(error).__name__, "give write access; nothing was charged"
        raise refusal(str(folder), "specs", found, "a folder that can be written", remedy) from None
    return file


def as_written(file: Path, root: Path) -> Path:
    """Return a file as a spec in a workspace names it, from the folder of specs."""
    folder = root / FOLDER
    return folder / os.path.relpath(file, folder)


def _completed(spec: Spec, rows: Path | None, folder: Path | None) -> dict[str, Any]:
    """Return the keys with the source and the store; paths as they are written in a file of a folder."""
    keys = {**spec, "publish": spec.get("publish", {"to": STORE})}
    source = keys.get("source")
    if rows is not None:
        keys["source"] = {"path": str(rows), **(source if isinstance(source, dict) else {})}
    elif isinstance(source, dict) and isinstance(source.get("path"), str) and "://" not in source["path"]:
        keys["source"] = {**source, "path": str(Path(source["path"]).absolute())}
    if folder is not None:
        keys["contract"] = os.path.relpath(keys["contract"], folder)
        path = keys["source"]["path"]
        keys["source"] = {**keys["source"], "path": path if "://" in path else os.path.relpath(path, folder)}
    return {key: keys[key] for key in KEYS if key in keys}


def _from_file(path: Path) -> dict[str, Any]:
    """Read the keys of a file, as text, with its paths made absolute."""
    from contracts.reading.yaml_lines import located

    keys = located(path, refusal=SpecRefused).text()
    folder = path.absolute().parent
    if isinstance(keys.get("contract"), str):
        keys["contract"] = str(folder / keys["contract"])
    source = keys.get("source")
    if isinstance(source, dict) and isinstance(source.get("path"), str) and "://" not in source["path"]:
        keys["source"] = {**source, "path": str(folder / source["path"])}
    return keys


def _yaml(keys: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(keys), sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None)


def _unwritable(value: Any, at: FieldPath, place: str) -> Iterable[Finding]:
    """Find what no file could hold; only the type of such a value is told, since it could be rows."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _unwritable(part, (*at, str(key)), place)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _unwritable(part, (*at, number), place)
    elif not isinstance(value, str | bool | int | float | Decimal | date | Path | Contract | None):
        found, remedy = f"an object of type {type(value).__name__}", "give rows to run(spec, source=...)"
        yield Finding(place, dotted(at), found, "a text, a number, a list or a mapping", remedy)
    elif isinstance(value, Contract) and value.path is None:
        yield Finding(place, dotted(at), "a draft that was not saved", "a contract of a file", "save it: .save(path)")


def _plain(value: Any) -> Any:
    """Return a value as YAML holds it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Contract):
        return str(value.path)
    if isinstance(value, Decimal | Path | date):
        return str(value)
    return value
