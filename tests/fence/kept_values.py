"""What a release holds, as the fence keeps it: columns of files, events, costs, figures of the plan; what differs.

A world is a JSON object: file → column → its values. A column of more than 200 values keeps a digest of each block of
rows or, of doubles, its first values and sum and sum of squares of each block. JSON has a column a list and a scalar.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import zip_longest
from math import ceil, fsum, isclose, isfinite, sqrt
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.amounts import PICO, atto_to_text, pico_to_text
from privacy.accounting.claim import release_claim
from privacy.classifiers.safetensors import from_safetensors
from privacy.ledger.terms import Charge

WHOLE: Final = 200
"""Values of a column that is kept whole; of doubles of a longer one so many are kept."""
BLOCKS: Final = 20
"""Of a longer column at most so many blocks of rows are kept as a digest, or as sums."""
CLOSE: Final = {"loss": 1e-8, "float": 1e-4}
"""How far numbers of two machines may differ, relative to them, and near 0 absolutely, where it is not 10⁻⁹: ε that
follows by Fourier transforms, and weights of 32 bits, whose training adds up last bits of another order."""
TERMS: Final = ("adjacency", "unit", "scope", "rows_per_unit", "public_total", "noise_epsilon")
"""What else a charge ties to its events; digests, names and places may change."""
Columns = dict[str, tuple[str, Sequence[Any]]]
World = dict[str, dict[str, dict[str, Any]]]
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Made(NamedTuple):
    """A finished release.

    Args:
        folder: where data/, measurements/ and model/ are.
        charges: what was charged for it, at one place or several.
        plan: what `sudare plan --json` shows of it.
    """

    folder: Path
    charges: Sequence[Charge]
    plan: dict[str, Any]


def world_of(made: Made) -> World:
    files = {"plan": _leaves(made.plan)} | {f"charge {i}": _charged(each) for i, each in enumerate(made.charges)}
    for name in ("data", "measurements", "model"):
        for path in sorted((made.folder / name).rglob("*")):
            if path.suffix in _READ and not (name == "model" and path.suffix == ".json"):
                files[path.relative_to(made.folder).as_posix()] = _READ[path.suffix](path)
    return {
        file: {name: _kept(kind, values) for name, (kind, values) in columns.items()}
        for file, columns in files.items()
    }


def differences(before: World, now: World) -> Iterator[str]:
    """Name each file and column that differs, with the first row that does."""
    for file in sorted({*before, *now}):
        old, new = before.get(file, {}), now.get(file, {})
        if not (old and new) and old != new:
            yield f"{file}: {'no longer there' if old else 'new'}"
            continue
        for name in sorted({*old, *new}):
            was, found = old.get(name, {}), new.get(name, {})
            for part in ("type", "rows", "values", "blocks"):
                close = CLOSE.get(was.get("type", ""), 1e-9)
                told = next(_unlike(was.get(part), found.get(part), close), None)
                if told is not None:
                    row, one, other = told
                    size = _block(found.get("rows", 0))
                    where = {"values": f"row {row}", "blocks": f"rows {row * size} to {(row + 1) * size - 1}"}
                    yield f"{file}, {name}, {where.get(part, part)}: {one}, now {other}"
                    break


def written(world: World) -> str:
    """Write a world, a line a column; a column that repeats another, or one value, says so."""
    seen = dict[str, list[str]]()

    def short(file: str, name: str, kept: dict[str, Any]) -> Any:
        kind, values = kept["type"], kept.get("values", [])
        if values and len(values) > 3 and kept == (same := _kept(kind, values[:1] * kept.get("rows", len(values)))):
            return {"type": kind, "all": values[0], "times": same.get("rows", len(values))}
        first = seen.setdefault(_json({**kept, "type": ""}), [file, name])
        if first != [file, name] and len(values) not in range(1, 4):
            return {"type": kind, "as": first}
        labels = [*dict.fromkeys(values)]
        if (
            "rows" not in kept
            and 2 * len(labels) < len(values)
            and not any(isinstance(each, float) for each in labels)
        ):
            return {"type": kind, "labels": labels, "at": [labels.index(each) for each in values]}
        return values if kind == "json" and "rows" not in kept else kept

    files = []
    for file, columns in world.items():
        lines = (f" {json.dumps(name)}:{_json(short(file, name, kept))}" for name, kept in columns.items())
        files.append(f"{json.dumps(file)}:{{\n" + ",\n".join(lines) + "}")
    return "{\n" + ",\n".join(files) + "}\n"


def read(text: str) -> World:
    world: World = json.loads(text)
    for columns in world.values():
        for name, kept in columns.items():
            if isinstance(kept, list):
                columns[name] = {"type": "json", "values": kept}
            elif "as" in kept:
                file, other = kept["as"]
                columns[name] = {**world[file][other], "type": kept["type"]}
            elif "all" in kept:
                columns[name] = _kept(kept["type"], [kept["all"]] * kept["times"])
            elif "labels" in kept:
                columns[name] = {"type": kept["type"], "values": [kept["labels"][place] for place in kept["at"]]}
    return world


def _charged(charge: Charge) -> Columns:
    """Say what was drawn under a charge, and what it cost; amounts as exact texts but for ε that machines derive."""
    asked = charge.request
    claim = release_claim(asked.events, asked.delta)
    exact = {
        "events": [event.to_json() for event in asked.events],
        "delta": atto_to_text(asked.delta),
        "claimed by": claim.by,
        "costs": {part.account: pico_to_text(part.amount) for part in charge.parts},
        "terms": [getattr(asked, name) for name in TERMS],
    }
    return {**_leaves(exact), "epsilon and claim": ("loss", [asked.epsilon / PICO, claim.epsilon / PICO])}


def _kept(kind: str, values: Sequence[Any]) -> dict[str, Any]:
    """Keep a column: whole, or of each block what tells it."""
    plain = [_plain(value) for value in values]
    if len(plain) <= WHOLE:
        return {"type": kind, "values": plain}
    size = _block(len(plain))
    blocks = [plain[start : start + size] for start in range(0, len(plain), size)]
    if not any(isinstance(value, float) for value in plain):
        digests = [sha256(json.dumps(block).encode()).hexdigest()[:10] for block in blocks]
        return {"type": kind, "rows": len(plain), "blocks": digests}
    sums = [[fsum(_numbers(block)), fsum(number**2 for number in _numbers(block))] for block in blocks]
    return {"type": kind, "rows": len(plain), "values": plain[:WHOLE], "blocks": sums}


def _block(rows: int) -> int:
    return 100 * ceil(rows / BLOCKS / 100)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, doubles in twelve digits, and whole ones without a point."""
    if isinstance(value, float):
        near = float(f"{value:.12g}") if isfinite(value) else str(value)
        return int(near) if isinstance(near, float) and near == int(near) and abs(near) < 1e12 else near
    return value if value is None or isinstance(value, int) else str(value)


def _numbers(block: Sequence[Any]) -> list[float]:
    return [value for value in block if isinstance(value, int | float)]


def _unlike(one: Any, other: Any, close: float) -> Iterator[tuple[int, Any, Any]]:
    """Find what differs between two lists, or two values, with its place."""
    pairs = zip_longest(*(each if isinstance(each, list) else [each] for each in (one, other)), fillvalue="nothing")
    return ((place, a, b) for place, (a, b) in enumerate(pairs) if not _alike(a, b, close))


def _alike(one: Any, other: Any, close: float) -> bool:
    """Compare exactly, doubles as far as machines agree; a sum may be small beside what it adds up."""
    if isinstance(one, list) and isinstance(other, list):
        added = isclose(one[0], other[0], rel_tol=close, abs_tol=close * sqrt(one[1]))
        return added and isclose(one[1], other[1], rel_tol=close)
    if float in (type(one), type(other)) and {type(one), type(other)} <= {float, int}:
        return isclose(one, other, rel_tol=close, abs_tol=close)
    return bool(type(one) is type(other) and one == other)


def _of_parquet(path: Path) -> Columns:
    """Lists are read through: the type says how long they are."""
    found: Columns = {}
    table = pq.read_table(path)
    for name in table.column_names:
        column = table[name].combine_chunks()
        while pa.types.is_nested(column.type):
            column = column.flatten()
        found[name] = str(table.schema.field(name).type), column.to_pylist()
    return found


def _of_csv(path: Path) -> Columns:
    """Numbers are told by how they are written."""
    with path.open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    return {name: ("csv", [_cell(row[place]) for row in rows]) for place, name in enumerate(names)}


def _cell(text: str) -> str | float:
    try:
        return float(text) if "." in text else int(text) if str(int(text)) == text else text
    except ValueError:
        return text


def _of_json(path: Path) -> Columns:
    return _leaves(json.loads(path.read_bytes()))


def _of_weights(path: Path) -> Columns:
    weights = from_safetensors(path.read_bytes())[0]
    return {f"{name} {array.shape}": ("float", array.ravel().tolist()) for name, array in weights.items()}


_READ: Final = {".parquet": _of_parquet, ".csv": _of_csv, ".json": _of_json, ".safetensors": _of_weights}


def _leaves(value: Any, path: str = "") -> Columns:
    """Return each scalar, each list of scalars, and each field of a list of objects under its path."""
    if isinstance(value, dict) and value:
        return {
            name: leaf for key in value for name, leaf in _leaves(value[key], f"{path}.{key}".lstrip(".")).items()
        }
    if not isinstance(value, list | tuple):
        return {path: ("json", [value] if value != {} else [])}
    if value and all(isinstance(each, dict) for each in value):
        found: Columns = {}
        for name in dict.fromkeys(name for each in value for name in each):
            cells = [_cell_text(each.get(name, "absent")) for each in value]
            if any(map(_is_nested, cells)):
                found |= {
                    n: leaf for i, c in enumerate(cells) for n, leaf in _leaves(c, f"{path}[{i}].{name}").items()
                }
            else:
                found[f"{path}[].{name}"] = "json", cells
        return found
    if any(map(_is_nested, value)):
        return {n: leaf for i, each in enumerate(value) for n, leaf in _leaves(each, f"{path}[{i}]").items()}
    return {path: ("json", list(value))}


def _cell_text(value: Any) -> Any:
    """Write a list of texts and whole numbers as one text."""
    texts = isinstance(value, list | tuple) and all(isinstance(each, str | int) for each in value)
    return json.dumps(value) if texts else value


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list | tuple)
