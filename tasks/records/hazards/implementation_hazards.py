"""Checklist of the implementation: mechanisms that are not what their proof is about, and what leaks beside them."""

from __future__ import annotations

from typing import Final

from contracts.message import SEMICOLON, joined, message
from tasks.records.groups.field import Run
from tasks.records.groups.noise import ENTROPY, SAMPLERS
from tasks.records.hazards.hazard import (
    CHOICES,
    NOISE_ON_COUNTS,
    ROWS,
    SUMS,
    TABLES,
    TRAININGS,
    Hazard,
    kinds,
    made_by,
)


def _samplers(run: Run) -> str:
    names = [SAMPLERS[kind] for kind in sorted(kinds(run)) if kind in SAMPLERS]
    return message(
        "noise on counts and lattice sums is a whole number: {samplers}", samplers=joined(names, SEMICOLON)
    )


def _entropy(run: Run) -> str:
    drawn = run.facts.charge.security
    return message("unknown") if drawn is None else ENTROPY[drawn]


def _one_by_one(run: Run) -> str:
    cells = sum(draw.cells for draw in run.facts.tables_plan.draws) if run.facts.of_tables else None
    return message(
        "{cells} of the declared domains get a value of noise of their own, empty ones too; the digest covers each",
        cells=message("all cells") if cells is None else message("all {number} cells", number=cells),
    )


def _suppressed(run: Run) -> str:
    rule = run.facts.spec.tables_product.minimum_frequency
    if rule is None:
        return message("no count is left out for being small; a sparse table lists by noisy counts alone")
    return message(
        "noisy counts below {k} + {t} are suppressed, by the noisy count, before anything is written down",
        k=rule.k,
        t=rule.t,
    )


def _rows_from(run: Run) -> str:
    return message(
        "the number of rows is {origin}: never the exact one, unless it is declared public",
        origin=message(run.facts.synthetic[1].rows_from),
    )


HAZARDS: Final = (
    Hazard("noise in floating point, whose last bits tell the value under it", _samplers, concerns=NOISE_ON_COUNTS),
    Hazard(
        "noise whose numbers are each right and together impossible for other rows",
        "noise of trainings is exactly normal for all numbers together, and rounded to the lattice that sums lie on",
        concerns=TRAININGS,
    ),
    Hazard(
        "gradients of trainings are float32",
        "clipping leaves 1/1024 of the norm as room for their rounding, which is argued and not proven (limit 18)",
        concerns=TRAININGS,
        limit=True,
    ),
    Hazard("an output lattice that depends on the data", "whole numbers, or a lattice fixed by public parameters"),
    Hazard(
        "sums that overflow, are rounded or depend on the order of rows",
        "rows become vectors of whole numbers, clipped each by itself, and are added up in 64 bits, modulo 2^64",
        concerns=SUMS,
    ),
    Hazard(
        "samplers with bugs",
        "goodness of fit and independence over cells are tested for every sampler, with broken twins that must fail",
    ),
    Hazard(
        "bounds that are lost when a column is defined anew",
        lambda run: message(
            "domains of {number} columns are applied last, after any select, by the encoding that the counts are "
            "taken of",
            number=len(run.facts.contract.columns),
        ),
    ),
    Hazard("noise from a generator that is seeded, guessable or replayed", _entropy),
    Hazard("one value of noise for many cells, or none for empty ones", _one_by_one, concerns=NOISE_ON_COUNTS),
    Hazard("cells left out, or rounded, by their true count", _suppressed, concerns=TABLES),
    Hazard("the exact number of rows published", _rows_from, concerns=ROWS),
    Hazard(
        "the Wishart mechanism, which is not differentially private",
        "symmetric discrete Gaussian noise on the clipped, uncentred second moments",
        concerns=made_by("ae", "p3gm"),
    ),
    Hazard(
        "exact means, scales, categories or losses of the training kept or logged",
        "columns come from the contract, centres are public or charged; no loss on the rows is computed",
        concerns=made_by("ae", "dp_gm", "p3gm", "vae"),
    ),
    Hazard(
        "microbatches, batch normalisation, operations across rows",
        "gradients of single rows are clipped; layers that mix rows are not among the learners",
        concerns=TRAININGS,
    ),
    Hazard(
        "scores of a selection on observed cells only, with too little noise, or exact thresholds",
        "scores are over whole domains, their sensitivity follows from the relation, and the choice is sampled "
        "exactly",
        concerns=CHOICES,
    ),
    Hazard(
        "how long draws take, and how large files are compressed, tell of the counts",
        "not hidden: do not let an adversary measure single runs (limit 1); files list all cells of dense domains",
        limit=True,
    ),
    Hazard(
        "the code that ran is another than the one that was reviewed",
        lambda run: message(
            "its digest is {digest}; whoever reviews, compares. The operator is trusted (limit 7)",
            digest=run.facts.software.code,
        ),
        limit=True,
    ),
)
