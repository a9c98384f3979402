"""The table of all kinds of queries that a grant draws, and which sampler draws each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.samplers.marginal import MarginalSampler
from privacy.grant.samplers.sampler import Sampler

SAMPLERS: Final[Mapping[type, Sampler[Any, Any]]] = {MarginalQuery: MarginalSampler()}
