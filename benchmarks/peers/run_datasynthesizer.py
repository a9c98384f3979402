"""DataSynthesizer's PrivBayes, with two parents a column as in the paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import running
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator

PARENTS = 2


def privbayes(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    """Describe and generate; codes travel as texts, so that they are taken for categories."""
    with TemporaryDirectory() as folder:
        source, described = Path(folder) / "rows.csv", Path(folder) / "described.json"
        ("v" + rows.astype(str)).to_csv(source, index=False)
        describer = DataDescriber(category_threshold=max(domain.values()) + 1)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=str(source),
            k=PARENTS,
            epsilon=asked.epsilon,
            attribute_to_datatype=dict.fromkeys(domain, "String"),
            attribute_to_is_categorical=dict.fromkeys(domain, True),
            attribute_to_is_candidate_key=dict.fromkeys(domain, False),
            seed=asked.seed,
        )
        describer.save_dataset_description_to_file(str(described))
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(len(rows), str(described), seed=asked.seed)
        made = generator.synthetic_dataset
    return made.apply(lambda column: column.str.slice(1).astype("int64"))


running.main({"privbayes": privbayes}, "DataSynthesizer", "pandas", "numpy")
