"""The safetensors format, as far as a model needs it: named arrays of float32 and text about them, one byte layout.

    8 bytes      length of the header, little-endian
    header       JSON: name -> {dtype, shape, data_offsets}, and __metadata__; spaces fill it up to a multiple of 8
    data         the arrays one after the other, little-endian, row-major, without gaps

Source: the format's description in huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[np.float32]]
_ABOUT: Final = "__metadata__"
_LARGEST_HEADER: Final = 10**7
_ALIGNED: Final = 8


def to_safetensors(tensors: Tensors, about: Mapping[str, str]) -> bytes:
    """Write arrays; the same arrays and texts give the same bytes.

    Args:
        tensors: float32 arrays by name, in the order in which they are written.
        about: texts by name.
    """
    header: dict[str, Any] = {_ABOUT: dict(sorted(about.items()))}
    start = 0
    for name, array in tensors.items():
        stop = start + 4 * array.size
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    # Spaces bring the arrays to a multiple of 8 bytes.
    text += b" " * (-len(text) % _ALIGNED)
    data = b"".join(np.ascontiguousarray(array, dtype="<f4").tobytes() for array in tensors.values())
    return len(text).to_bytes(8, "little") + text + data


def from_safetensors(data: bytes) -> tuple[dict[str, NDArray[np.float32]], dict[str, str]]:
    """Read arrays of float32 strictly: no gaps, no overlaps, nothing left over, nothing that is no finite number.

    Returns:
        tuple: the arrays and the texts.
    Raises:
        ValueError: bytes that are not of this form; the message names the array, never a value.
    """
    header, start = _header(data)
    about = header.pop(_ABOUT, {})
    if not isinstance(about, dict) or not all(isinstance(text, str) for text in about.values()):
        raise ValueError("safetensors: __metadata__ must be an object of texts")
    found: dict[str, NDArray[np.float32]] = {}
    reached = 0
    # In the order of their places, so that a gap or an overlap shows at once.
    for name, told in sorted(header.items(), key=lambda item: _offsets(*item)):
        first, last = _offsets(name, told)
        shape = _shape(name, told)
        if first != reached or last - first != 4 * prod(shape) or start + last > len(data):
            raise ValueError(f"safetensors: {name[:60]!r} does not lie where its shape says")
        array = np.frombuffer(data, "<f4", count=prod(shape), offset=start + first).reshape(shape)
        if not np.isfinite(array).all():
            raise ValueError(f"safetensors: {name[:60]!r} holds what is no finite number")
        found[name], reached = array.astype(np.float32), last
    # Bytes that no array claims could carry anything.
    if start + reached != len(data):
        raise ValueError(f"safetensors: {len(data) - start - reached} bytes beyond the arrays")
    return found, about


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(data[:8], "little") if len(data) >= 8 else _LARGEST_HEADER + 1
    # A stated length is believed only as far as there are bytes.
    if size > min(_LARGEST_HEADER, len(data) - 8):
        raise ValueError("safetensors: no header of the stated length")
    try:
        header = json.loads(data[8 : 8 + size])
    except ValueError as error:
        raise ValueError("safetensors: the header is no JSON") from error
    if not isinstance(header, dict):
        raise ValueError("safetensors: the header is no object")
    return header, 8 + size


def _offsets(name: str, header: Any) -> tuple[int, int]:
    offsets: Any = header.get("data_offsets") if isinstance(header, dict) else None
    if not _whole_numbers(offsets) or len(offsets) != 2 or header.get("dtype") != "F32":
        raise ValueError(f"safetensors: {name[:60]!r} is no array of F32 with data_offsets")
    return offsets[0], offsets[1]


def _shape(name: str, header: Any) -> tuple[int, ...]:
    shape = header.get("shape")
    if not _whole_numbers(shape) or len(shape) > 4:
        raise ValueError(f"safetensors: {name[:60]!r} has no shape")
    return tuple(shape)


def _whole_numbers(values: Any) -> bool:
    # type and not isinstance: True is an int in Python, and no size.
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**40 for value in values)
