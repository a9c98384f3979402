"""Attack every mechanism and generator, and a broken twin of each: does what is shipped stay below its claim, and is
each twin found out?

    python -m benchmarks.privacy_games [--quick] [--only NAME ...] [--kept DIR] [--anonymeter-python PATH]

A distinguishing game gives a lower bound on epsilon at 99.9 % confidence; a mechanism that just keeps its claim fails
with a chance of at most 0.1 %. So one failure is played again with fresh randomness (each run draws afresh), and one
that fails again is a fault. The whole run writes results/privacy_games.json and the results that records quote
(`privacy/games/results.json`); with `--only` the named games are replaced in both, as long as the code is the
same; `--quick` plays a tenth of the trials and writes nothing. A run that goes on after an interruption takes what
`--kept` has of the same code and the same games, failures too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.games.game import Game, play, summary_line
from benchmarks.results import Row, machine, write
from privacy.games.results import FILE, code_digest, stored

CONFIDENCE: Final = 0.999
PROCESSES: Final = 2
QUICK: Final = 0.1
GAMES_FOLDER: Final = Path(__file__).parent / "games"
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "generators": (*("aim", "mst", "privbayes", "p3gm", "ae", "vae", "dp_gm"), *("fixed", "independent")),
    "likelihoods": (
        *("likelihood_privbayes", "likelihood_privbayes_replace_one"),
        *("likelihood_aim", "likelihood_aim_replace_one", "likelihood_mst", "likelihood_mst_replace_one"),
    ),
    "one_training": ("one_training",),
    "training": ("dp_sgd_rarely_sampled", "dp_sgd_sampled", "dp_sgd", "lattice_noise"),
    "checkpoints": ("checkpoints_three", "checkpoints_two", "checkpoints_one"),
    "federated": ("federated_training", "federated_counts", "federated_sums"),
    "perturbed": ("perturbed_batches", "perturbed_parameters", "perturbed_changes"),
    "tables": ("refined_table",),
    "ledger": ("whole_grant",),
    "sums": ("axes", "axes_clipped", "class_moments", "class_moments_replace_one"),
    "cell_sums": (
        *("cell_sums", "cell_sums_rows", "cell_sums_replace_one", "cell_sums_gaussian", "cell_sums_middle"),
        *("cell_sums_alone", "cell_sums_alone_replace_one", "cell_sums_alone_gaussian"),
        *("cell_moments", "cell_moments_middle"),
    ),
    "residuals": ("residuals", "residuals_replace_one"),
    "votes": ("votes", "votes_replace_one"),
    "weighted_sums": ("weighted_sums", "weighted_sums_replace_one", "weighted_counts"),
    "distinct_counts": (
        *("distinct_values", "distinct_values_truncation"),
        *("distinct_units", "distinct_units_replace_one"),
    ),
    "quotas": ("quota", "quota_replace_one"),
    "private_clips": ("clip_histogram", "private_clip"),
    "keys": ("keys", "keys_one", "keys_counted"),
    "quantiles": ("quantile_median", "quantile_replace_one", "quantile_tree"),
    "noise": (
        *("choice", "sparse", "several_tables", "laplace", "laplace_replace_one", "laplace_three_rows"),
        *("gaussian", "gaussian_replace_one", "minimum_frequency"),
    ),
}
"""Games by the module of `benchmarks.games` that has them; those that take long come first, so that two processes end
at about the same time."""
GAMES: Final = {name: family for family, names in FAMILIES.items() for name in names}
ATTACKS: Final = ("membership_shadow", "membership_distance", "attribute")
Found = dict[str, Any]


def main() -> None:
    """Play, print, write; exit with 1 if something does not hold."""
    asked = _asked()
    names = asked.only or [*GAMES, *ATTACKS]
    began, digest = perf_counter(), code_digest()
    kept = None if asked.kept is None else Kept(asked.kept, played_code())
    games, attacks = _played(names, share=QUICK if asked.quick else 1.0, kept=kept)
    if asked.anonymeter_python is not None:
        attacks += _module("anonymeter").attacked(asked.anonymeter_python)
    for each in attacks:
        print(f"{each['attack']:24} {_said(each)}", flush=True)
    seconds = perf_counter() - began
    everything = [*games, *attacks]
    failed = [_name(each) for each in everything if not (each["holds"] and each["negative_control"]["caught"])]
    print(f"{len(everything)} in {seconds:.0f} s; {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    if not asked.quick:
        _write(games, attacks, digest, whole=not asked.only)
    sys.exit(1 if failed else 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*GAMES, *ATTACKS]
    parser.add_argument("--quick", action="store_true", help="a tenth of the trials; nothing is written")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--kept", type=Path, metavar="DIR", help="where played games are kept for the next run")
    parser.add_argument("--anonymeter-python", type=Path, metavar="PATH", help="an interpreter that has anonymeter")
    asked = parser.parse_args()
    if asked.quick and asked.kept:
        parser.error("--kept keeps whole games, and --quick plays none")
    return asked


@dataclass(frozen=True)
class Kept:
    """Games that were played to their end, of one code: of what is attacked, and of the games themselves.

    A game that failed is kept too: whoever plays it again takes its file away.

    Args:
        folder: where they lie; made where there is none.
        digest: of the code, as `played_code` tells it before a game begins.
    """

    folder: Path
    digest: str

    def file(self, name: str) -> Path:
        """Where a game lies, or is to lie."""
        return self.folder / f"{name}-{self.digest[:16]}.json"

    def put(self, name: str, line: str, found: Found) -> None:
        """Keep a game, whole or not at all; nothing where the code is another now."""
        if played_code() != self.digest:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.file(name).with_suffix(".part")
        part.write_text(json.dumps({"line": line, "found": found}), encoding="utf-8")
        part.replace(self.file(name))

    def get(self, name: str) -> tuple[str, Found] | None:
        """Return a game that is kept."""
        if not self.file(name).exists():
            return None
        kept = json.loads(self.file(name).read_text(encoding="utf-8"))
        return kept["line"], kept["found"]


def played_code() -> str:
    """Return the SHA-256 (hex) of the code that is attacked and of the code of the games."""
    digest = hashlib.sha256(code_digest().encode())
    for path in sorted(GAMES_FOLDER.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _played(names: Sequence[str], *, share: float, kept: Kept | None) -> tuple[list[Found], list[Found]]:
    """Play games in two processes, and attack; return games and attacks in the order of the names."""
    found: dict[str, Found] = {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        games = {pool.submit(_one, name, share, kept): name for name in names if name in GAMES}
        attacks = {pool.submit(_attacked, name): name for name in names if name in ATTACKS}
        for done in as_completed(games):
            line, found[games[done]] = done.result()
            print(f"{games[done]:24} {line}", flush=True)
        found |= {name: done.result() for done, name in attacks.items()}
    return [found[name] for name in names if name in GAMES], [found[name] for name in names if name not in GAMES]


def _one(name: str, share: float, kept: Kept | None) -> tuple[str, Found]:
    """Play one game, in a process of its own."""
    if kept is not None and (before := kept.get(name)) is not None:
        return before
    game: Game = _module(GAMES[name]).GAMES[name]()
    played = play(game.quick(share), confidence=CONFIDENCE)
    line, found = summary_line(played), {"game": name, **played.to_json()}
    if kept is not None:
        kept.put(name, line, found)
    return line, found


def _attacked(name: str) -> Found:
    """Make one attack, in a process of its own."""
    found: Found = _module("surrogate").attacked(name)
    return found


def _module(family: str) -> Any:
    """Import what is played alone: some of it takes seconds to import."""
    return import_module(f"benchmarks.games.{family}")


def _write(games: Sequence[Found], attacks: Sequence[Found], digest: str, *, whole: bool) -> None:
    """Write the results beside the code, and as a benchmark's rows."""
    before = None if whole else stored()
    if digest != code_digest():
        print("the code changed while it was played: nothing is written; play again")
        return
    if before is not None and before["code_digest"] != digest:
        print("the stored results are of other code: play all games, without --only, to replace them")
        return
    stayed = before or {"games": [], "attacks": []}
    kept = {_name(each): each for each in (*stayed["games"], *stayed["attacks"], *games, *attacks)}
    results = {
        "code_version": version("sudare"),
        "code_digest": digest,
        "confidence": CONFIDENCE,
        "note": "a pass is not a proof",
        "seconds": round(sum(kept[name]["seconds"] for name in GAMES if name in kept)),
        "games": [kept[name] for name in GAMES if name in kept],
        "attacks": [each for name, each in kept.items() if name not in GAMES],
    }
    Path(FILE).write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = [row for each in results["games"] for row in _rows(each)]
    write("privacy_games", rows + [row for each in results["attacks"] for row in _attack_rows(each)])


def _name(found: Mapping[str, Any]) -> str:
    return str(found["game"] if "game" in found else found["attack"])


def _said(attack: Mapping[str, Any]) -> str:
    """Say in one line what came of an attack."""
    control, key = attack["negative_control"], "area" if "area" in attack else "risk"
    verdict = "holds" if attack["holds"] else "DOES NOT HOLD"
    caught = "caught" if control["caught"] else "NOT CAUGHT"
    return (
        f"{attack['what']}: {key} {attack[key]:.3f}, {verdict}; twin ({control['what']}) {control[key]:.3f}, {caught}"
    )


def _attack_rows(attack: Mapping[str, Any]) -> list[Row]:
    """Write an attack as rows: the shipped generator, and the one that copies."""
    control, key = attack["negative_control"], "area" if "area" in attack else "risk"
    limit = attack.get("allowed_area", attack.get("least"))
    unit = "area under the ROC curve" if key == "area" else "risk; its 95 % interval is held against the target"
    settings = {name: value for name, value in attack.items() if name not in ("negative_control", key)}
    what = f"{attack['mechanism']}: {attack['what']}"
    return [
        Row(what, attack[key], unit, f"<= {limit:g}", attack["holds"], settings=settings),
        Row(f"twin: {control['what']}", control[key], unit, f"> {limit:g}", control["caught"]),
    ]


def _rows(game: Mapping[str, Any]) -> list[Row]:
    """Write a game as rows: the shipped mechanism, and the twin, whose target is to be above the claim."""
    claim, control = game["claimed_epsilon"], game["negative_control"]
    settings = {
        **{key: value for key, value in game.items() if key not in ("negative_control", "mechanism", "lower_bound")},
        "machine": machine("numpy", "scipy"),
    }
    unit = f"epsilon at delta {game['delta']:g}"
    return [
        Row(game["mechanism"], game["lower_bound"], unit, f"<= {claim:g}", game["holds"], settings=settings),
        Row(f"twin: {control['what']}", control["lower_bound"], unit, f"> {claim:g}", control["caught"]),
    ]


if __name__ == "__main__":
    main()
