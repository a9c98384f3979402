"""How a training runs: device and memory. Nothing here changes what is drawn or what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from privacy.learning.errors import CannotTrain

_DEVICES: Final = ("auto", "cpu", "cuda")
_EXACT: Final = ("none", "ieee")
"""How torch calls products of float32 in all their bits."""


@dataclass(frozen=True)
class Execution:
    """Speed and memory.

    Args:
        device: "cpu", "cuda", or "auto": CUDA where there is one.
        rows_at_once: rows whose gradients are computed together.
    """

    device: Literal["auto", "cpu", "cuda"] = "cpu"
    rows_at_once: int = 1024

    def __post_init__(self) -> None:
        if self.device not in _DEVICES:
            raise CannotTrain("device", self.device, ", ".join(_DEVICES))
        if type(self.rows_at_once) is not int or self.rows_at_once < 1:
            raise CannotTrain("rows_at_once", self.rows_at_once, "a whole number, at least 1")

    def chosen_device(self) -> str:
        """Return the device's name in torch.

        Raises:
            CannotTrain: CUDA is asked for and there is none, torch is not installed, or it is told to multiply in
                fewer bits than float32 has, which the room for rounding does not cover (`TrainingPlan.clipped_to`).
                No layer convolves, so nothing is asked of convolutions, which have fewer bits on CUDA by default.
        """
        try:
            import torch
        except ImportError as error:
            raise CannotTrain("torch", "not installed", "torch 2.13", "make neural") from error
        # The room that a plan leaves for rounding is that of float32 sums; TF32 products would round far more.
        for backend in (torch.backends.cuda, torch.backends.mkldnn):
            precision = cast(Any, backend).matmul.fp32_precision
            if precision not in _EXACT:
                remedy = "leave torch.set_float32_matmul_precision and TORCH_ALLOW_TF32_CUBLAS_OVERRIDE alone"
                raise CannotTrain("torch's precision of float32 products", precision, "ieee", remedy)
        if self.device == "cpu":
            return "cpu"
        if torch.cuda.is_available():
            return "cuda"
        if self.device == "cuda":
            raise CannotTrain("device", "cuda, and there is none", "cpu or auto")
        return "cpu"
