"""Finished runs that trained a model, for the tests: the real contract, plan, ledger, grant, trainer and snapshot."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from contracts.contract.contract import Contract, checks
from contracts.release.spec import ReleaseSpec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.generators.calibration import FittedPlan
from privacy.grant.grant import open_grant
from privacy.ledger.ledger import Ledger
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import snapshot_mark
from tasks.products.charge_request import request_for
from tasks.products.classifier.making import train_classifier
from tasks.records.facts import CheckOutcome, Outputs, RunFacts
from tasks.records.ledger_facts import gather
from tasks.records.outputs import TrainedClassifier
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import KEYED_HASH, first

TERMS = "rows_about: 3000, epochs: 3, checkpoints: 3, reserve: 1, batch: 200"


@dataclass
class ModelScenario(SyntheticScenario):
    """What a finished run that trained a model is made from; the hospital's stays, whose ward is told."""

    privacy: str = "{unit: {kind: row, scope: block}, adjacency: add_remove, ZEROS}"
    product: str = f"{{kind: classifier, trainer: dp_sgd, label: ward, options: {{{TERMS}}}}}"
    epsilon: str = "3"
    delta: str = "1e-6"
    calculus: Calculus = field(default_factory=lambda: RenyiCalculus(Fraction(5)))
    cap: tuple[int, int] = (20 * PICO, ATTO // 10**6)
    formats: str = "[parquet]"
    release: str = "wards"

    def run(self, folder: Path) -> RunFacts:
        """Make the run for real: plan, reserve, open, train, number the version, gather."""
        spec, contract, plan, ledger = self.prepared_of(folder, FittedPlan)
        made = self.trained(folder, spec, contract, plan, ledger)
        version = ledger.allocate_version(self.run_key(spec))
        outcomes = tuple(CheckOutcome(check.name, True, check.gate) for check in checks(contract))
        facts = gather(ledger, spec, contract, plan, version, Outputs(classifier=made), outcomes, first().software)
        ledger.close()
        return facts

    def trained(
        self, folder: Path, spec: ReleaseSpec, contract: Contract, plan: FittedPlan[Any], ledger: Ledger
    ) -> TrainedClassifier:
        """Reserve, open, and train on a snapshot of made-up rows."""
        key = self.run_key(spec)
        mark = snapshot_mark(KEYED_HASH, spec.digest)
        ledger.reserve(request_for(spec, contract, plan, run_key=key, snapshot_hash=mark))
        grant = open_grant(ledger, key, seeded=SeededBytes(7) if self.seeded else None)
        private = folder / "private"
        private.mkdir(exist_ok=True)
        return train_classifier(grant, plan, self.snapshot(folder, contract), contract, private, key)


def dp_sgd() -> ModelScenario:
    return ModelScenario()


def learning_first() -> ModelScenario:
    """Noise on every clamped parameter; an epsilon of each, and a range for weights and one for biases."""
    options = "hidden: [4], epochs: 3, batch: 100, learning_rate: 0.5, parameter_epsilon: 0.3, publish_noise: true"
    options += ", lowest_bias: -0.25, highest_bias: 0.5"
    return with_product(
        f"{{kind: classifier, trainer: learning_first, label: ward, options: {{{options}}}}}",
        epsilon="22",
        cap=(60 * PICO, ATTO // 10**6),
    )


def anonymized_learning() -> ModelScenario:
    """Noise on every clamped change, as little as the charge allows, under replace_one with ids."""
    options = (
        "hidden: [4], epochs: 4, batch: 1000, checkpoints: 2, rows_about: 3000, bias_limit: 0.5, publish_noise: true"
    )
    return with_product(f"{{kind: classifier, trainer: anonymized_learning, label: ward, options: {{{options}}}}}")


def anonymizing_first() -> ModelScenario:
    """An ordinary training on rows that a generator made of noisy marginals; structural zeros, private choices."""
    options = "generator: mst, hidden: [4], epochs: 3, batch: 100, learning_rate: 0.5"
    return with_product(f"{{kind: classifier, trainer: anonymizing_first, label: ward, options: {{{options}}}}}")


def with_product(product: str, **changed: object) -> ModelScenario:
    """Another trainer, or other options."""
    return replace(ModelScenario(), product=product, **changed)  # type: ignore[arg-type]
