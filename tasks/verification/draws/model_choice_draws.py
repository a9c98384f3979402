"""Private choices among models: each is the one that was entered when it was made.

Which models there were, and so that the chosen one is the published one, `--deep` finds by fitting again. The cost of
a choice is its stated epsilon, whatever the scores are: the grant scales them by the sensitivity that it derives.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import ExponentialMechanism
from privacy.grant.queries.model_choice import ModelChoiceQuery
from tasks.records.draws.model_choice import ModelChoiceDraw
from tasks.verification.draws.draw_checks import FittedMeaning, OtherDraw, PublishedValues, SeparateDrawChecks
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256

_WITHOUT_PRIOR: Final = "none, of a product without a prior"


class ModelChoiceChecks(SeparateDrawChecks[ModelChoiceDraw, ModelChoiceQuery]):
    """The checks of choices among models."""

    events = (ExponentialMechanism,)

    def check_draw(self, draw: ModelChoiceDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the choice against the product, and against what was entered."""
        if getattr(getattr(meaning, "product", None), "prior", None) is None:
            return [Finding(where, at, "a choice among models", _WITHOUT_PRIOR, OTHER)]
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.clique", str(list(draw.clique)), "[]"),
            (f"{at}.shape", str(list(draw.shape)), "[]"),
            (f"{at}.coarsening", draw.coarsening, None),
            (f"{at}.listed", draw.listed, None),
            (f"{at}.measurements", draw.measurements, None),
            (f"{at}.index, its SHA-256", values_sha256(np.array([draw.index], dtype=np.int64)), draw.sha256),
        ]
        return list(differences(pairs, where=where, allowed="as it was entered when the choice was made"))

    def drawn(self, draw: ModelChoiceDraw, values: PublishedValues) -> NDArray[np.int64]:
        """Return the place of the chosen model."""
        return np.array([draw.index])

    def matching(self, query: ModelChoiceQuery, draw: ModelChoiceDraw, values: PublishedValues) -> ModelChoiceQuery:
        """Refuse a model that there is not."""
        if not draw.index < len(query.models):
            asked = f"a choice among {len(query.models)} models was asked for, not what is there"
            raise OtherDraw(f"draw {draw.key!r}: {asked}")
        return query
