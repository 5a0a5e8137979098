"""Branches, replays and promotions between runs, corrections and upkeep, in random order, beside a naive model.

After each step, state, outputs, what plain readers find, quarantine and differences are those of the model, and
`verify` finds nothing. `TIDEMILL_SEED` and `TIDEMILL_STEPS` choose a game.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.model.branch_checks import check, compare
from tests.model.branch_game import Game


def play(folder: Path, seed: int, steps: int, is_local: bool = False) -> Counter[str]:
    game, done = Game(folder, seed, is_local), list[str]()
    try:
        for _ in range(steps):
            done.append(game.step())
            check(game)
            if game.chance.random() < 0.1:
                done.append(f"compare: {compare(game)}")
    except Exception as error:
        raise AssertionError(f"seed {seed}, after {len(done)} steps:\n" + "\n".join(done)) from error
    return game.counts


def test_a_random_game_agrees_with_a_naive_model(tmp_path: Path) -> None:
    play(tmp_path, 3, 15)


@pytest.mark.slow("long random runs")
@pytest.mark.parametrize("seed", [int(os.environ.get("TIDEMILL_SEED", "0"))])
@pytest.mark.parametrize("is_local", [False, True])
def test_a_long_random_game_agrees_with_a_naive_model(tmp_path: Path, seed: int, is_local: bool) -> None:
    counts = play(tmp_path, seed, int(os.environ.get("TIDEMILL_STEPS", "30")), is_local)
    print(f"TIDEMILL_SEED={seed}: {dict(counts)}")
