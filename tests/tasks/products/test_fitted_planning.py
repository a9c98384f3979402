"""Where the messages of generators and trainers are found in a spec."""

import pytest

from tasks.products.fit import read_message


@pytest.mark.parametrize(
    ("message", "place", "found"),
    [
        ("product.bins: private, which 'p3gm' cannot take", ("product", "bins"), "private, which 'p3gm' cannot take"),
        ("product.generator: no generator 'aimm'", ("product", "generator"), "no generator 'aimm'"),
        ("options.rounds: 9, each with noise", ("product", "options", "rounds"), "9, each with noise"),
        ("options.numbers: bins, and no column", ("product",), "options.numbers: bins, and no column"),
    ],
)
def test_a_message_is_found_at_the_key_that_it_begins_with(message: str, place: tuple[str, ...], found: str):
    """An option is so only where it is written; `bins` was found at the product as a whole."""
    at, problem = read_message(f"{message}; allowed: another; do: write it", {"rounds": 9})
    assert (at, problem.found, problem.allowed, problem.remedy) == (place, found, "another", "write it")
