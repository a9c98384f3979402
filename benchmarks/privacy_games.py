"""Attack every mechanism and generator, and a broken twin of each: does what is shipped stay below its claim, and is
each twin found out?

    python -m benchmarks.privacy_games [--quick] [--only NAME ...] [--anonymeter-python PATH]

A distinguishing game gives a lower bound on epsilon at 99.9 % confidence; a mechanism that just keeps its claim fails
with a chance of at most 0.1 %. So one failure is played again with fresh randomness (each run draws afresh), and one
that fails again is a fault. The whole run writes results/privacy_games.json and the results that records quote
(`privacy/audit/games/results.json`); with `--only` the named games are replaced in both, as long as the code is the
same; `--quick` plays a tenth of the trials and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.games import ledger, noise
from benchmarks.results import Row, machine, write
from privacy.audit.games.game import Game, play, told
from privacy.audit.games.results import FILE, code_digest, stored

CONFIDENCE: Final = 0.999
PROCESSES: Final = 2
QUICK: Final = 0.1
GAMES: Final[Mapping[str, Callable[[], Game]]] = {**ledger.GAMES, **noise.GAMES}
"""Those that take long come first, so that two processes end at about the same time."""


def main() -> None:
    """Play, print, write; exit with 1 if something does not hold."""
    asked = _asked()
    names = asked.only or list(GAMES)
    began = perf_counter()
    games = _played([name for name in names if name in GAMES], share=QUICK if asked.quick else 1.0)
    seconds = perf_counter() - began
    failed = [each["game"] for each in games if not (each["holds"] and each["negative_control"]["caught"])]
    print(f"{len(games)} games in {seconds:.0f} s; {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    if not asked.quick:
        _write(games, whole=not asked.only)
    sys.exit(1 if failed else 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the trials; nothing is written")
    parser.add_argument("--only", nargs="+", choices=[*GAMES], metavar="NAME", help=", ".join(GAMES))
    return parser.parse_args()


def _played(names: Sequence[str], *, share: float) -> list[dict[str, Any]]:
    """Play games in two processes; return them in the order of the names."""
    found: dict[str, dict[str, Any]] = {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_one, name, share): name for name in names}
        for done in as_completed(waiting):
            line, found[waiting[done]] = done.result()
            print(f"{waiting[done]:24} {line}", flush=True)
    return [found[name] for name in names]


def _one(name: str, share: float) -> tuple[str, dict[str, Any]]:
    """Play one game, in a process of its own."""
    played = play(GAMES[name]().quick(share), confidence=CONFIDENCE)
    return told(played), {"game": name, **played.to_json()}


def _write(games: Iterable[Mapping[str, Any]], *, whole: bool) -> None:
    """Write the results beside the code, and as a benchmark's rows."""
    digest, before = code_digest(), None if whole else stored()
    if before is not None and before["code_digest"] != digest:
        print("the stored results are of other code: play all games, without --only, to replace them")
        return
    kept = {each["game"]: each for each in (*(before or {}).get("games", ()), *games)}
    results = {
        "code_version": version("sudare"),
        "code_digest": digest,
        "confidence": CONFIDENCE,
        "note": "a pass is not a proof",
        "games": [kept[name] for name in GAMES if name in kept],
    }
    Path(FILE).write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write("privacy_games", [row for each in results["games"] for row in _rows(each)])


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
