"""Options that every built-in generator has."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from privacy.table_plans.split import NoiseKind


class Options(BaseModel):
    """What may be asked of any built-in generator; unknown options are refused.

    Args:
        noise: kind of noise; gaussian unless delta is 0, when not given.
        max_model_megabytes: most memory that the model's tables may take [MB of 2²⁰ bytes].
        time_limit: stop drawing after so many seconds; what has been measured by then makes the model [s].
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    noise: NoiseKind | None = None
    max_model_megabytes: float = Field(default=80, gt=0, allow_inf_nan=False)
    time_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
