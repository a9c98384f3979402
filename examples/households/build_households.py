"""Make up the households of the example: the same rows for the same seed, and no person behind them.

Some rows are as real deliveries are: people whose household is not in the other table, a household twice, and a
household with more people than the contract counts. The contract says what becomes of them.

    python examples/households/build_households.py [FOLDER]
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

SEED = 20
HOUSEHOLDS = 1000
REGIONS = ("north", "east", "south", "west")
SIZES = {"alone": (1, 1), "couple": (2, 2), "family": (3, 7), "shared": (2, 9)}
SHARES = (0.4, 0.28, 0.28, 0.04)


def build(folder: Path) -> None:
    """Write household.csv and person.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    chance, pay = random.Random(SEED), random.Random(SEED + 1)
    households, people = [], []
    for number in range(1, HOUSEHOLDS + 1):
        kind = chance.choices(list(SIZES), SHARES)[0]
        households.append((number, chance.choice(REGIONS), kind))
        for place in range(chance.randint(*SIZES[kind])):
            child = kind == "family" and place >= 2
            age = chance.randint(0, 17) if child else chance.randint(18, 90)
            works = 18 <= age < 65 and chance.random() < 0.8
            work = chance.choice(("employed", "self-employed")) if works else "none"
            people.append((number, age, work, _income(pay, age, works=works)))
    households.append(households[0])
    people += [(HOUSEHOLDS + 7, 30, "employed", 2100), ("", 41, "none", 0)]
    chance.shuffle(people)
    _write(folder / "household.csv", ("household_id", "region", "type"), households)
    _write(folder / "person.csv", ("household_id", "age", "work", "income"), people)


def _income(pay: random.Random, age: int, *, works: bool) -> object:
    """Make up what a person has in a month; some do not say."""
    if age < 18:
        return 0
    if pay.random() < 0.05:
        return ""
    return round(pay.lognormvariate(7.7, 0.5)) if works else round(pay.uniform(0, 1800))


def _write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data")
