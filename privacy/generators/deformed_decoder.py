"""A decoder whose pictures are deformed a little after they were decoded, in whole numbers.

What a decoder of few numbers cannot say of pictures, that they may lie a little higher or lean a little more, is
general knowledge: random deformations put it into the rows, and cost nothing (`privacy.learning.deformations`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from privacy.generators.decoder_model import DecoderModel, read_decoder
from privacy.learning.deformations import Deformation
from privacy.marginals.seeds import PostProcessingSeed

_PURPOSE: Final = "deformations"
_KEY: Final = "deformations"


@dataclass(frozen=True, eq=False)
class DeformedDecoder(DecoderModel):
    """A decoder, and how its pictures are deformed.

    Args:
        deformations: of columns of pictures.
    Raises:
        ValueError: as of a decoder; a deformation of no picture of that size.
    """

    kind: ClassVar[str] = "deformed_decoder"
    deformations: Mapping[str, Deformation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = {column.name: column.length for column in self.columns if column.kind == "array"}
        for name, each in self.deformations.items():
            if lengths.get(name) != each.height * each.width:
                raise ValueError(f"deformations: no column {name} of pictures of {each.height} x {each.width} places")

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        values, arrays = super().to_arrays()
        return {**values, _KEY: {name: each.to_json() for name, each in self.deformations.items()}}, arrays

    def _finished(self, codes: NDArray[np.int32], seed: PostProcessingSeed, piece: int) -> NDArray[np.int32]:
        """Deform the pictures of a piece; each column reads a stream of its own."""
        own = seed.derived(_PURPOSE)
        finished = codes.copy()
        # In the order of the columns: that of a mapping is lost in the published JSON, whose keys are sorted.
        names = [column.name for column in self.columns if column.name in self.deformations]
        for number, name in enumerate(names):
            places = slice(self._starts[name], self._starts[name] + self._lengths[name])
            finished[:, places] = self.deformations[name](codes[:, places], own, piece * len(names) + number)
        return finished


def deformed_decoder(decoder: DecoderModel, deformations: Mapping[str, Deformation]) -> DeformedDecoder:
    """Return a decoder with deformations of its pictures."""
    parts = {each.name: getattr(decoder, each.name) for each in fields(DecoderModel)}
    return DeformedDecoder(**parts, deformations=deformations)


def read_deformed(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> DeformedDecoder:
    """Read a published one back; written by a stranger, and checked.

    Raises:
        ValueError, KeyError, TypeError: not such a model.
    """
    written = values[_KEY]
    if not isinstance(written, Mapping):
        raise ValueError("deformations must be named by their columns")
    plain = {name: value for name, value in values.items() if name != _KEY}
    deformations = {name: Deformation.from_json(each) for name, each in written.items()}
    return deformed_decoder(read_decoder(plain, arrays), deformations)
