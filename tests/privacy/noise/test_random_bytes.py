"""The two sources of random bytes: the secure one never repeats, the seeded one always does."""

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import chi2

from privacy.noise import random_bytes
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import BLOCK, RandomBytes, SecureBytes, SeededBytes
from tests.privacy.noise.noise_statistics import FALSE_ALARM


def blocks(array: np.ndarray) -> set[bytes]:
    """Cut into blocks of 16 bytes; two equal ones in 4 MiB of true randomness have probability 1e-28."""
    return {array[start : start + 16].tobytes() for start in range(0, array.size, 16)}


def test_the_secure_stream_never_repeats_a_block_within_or_across_requests():
    source = SecureBytes()
    sizes = [16, 4096, BLOCK, 3 * BLOCK + 16, 160, 16]
    taken = [source.take(size) for size in sizes]
    assert [part.size for part in taken] == sizes
    assert len(blocks(np.concatenate(taken))) == sum(sizes) // 16


def test_two_secure_sources_share_nothing():
    first, second = SecureBytes().take(BLOCK), SecureBytes().take(BLOCK)
    assert not blocks(first) & blocks(second)


@pytest.mark.stat
def test_secure_bytes_are_uniform():
    """Chi-square over the 256 values; n = 2^22, false-alarm rate 1e-9 (this source has no seed)."""
    counts = np.bincount(SecureBytes().take(1 << 22), minlength=256)
    assert chi2.sf(((counts - (1 << 14)) ** 2).sum() / (1 << 14), 255) > FALSE_ALARM


def test_a_secure_source_takes_a_new_key_before_its_share_is_used_up(monkeypatch: pytest.MonkeyPatch):
    """With room for two blocks of key stream per key, nine blocks need five keys."""
    made: list[object] = []
    original = random_bytes._new_stream

    def counted() -> object:
        made.append(stream := original())
        return stream

    monkeypatch.setattr(random_bytes, "_new_stream", counted)
    monkeypatch.setattr(random_bytes, "REKEY_AFTER", 2 * BLOCK)
    taken = SecureBytes().take(9 * BLOCK)
    assert len(made) == 5
    assert len(blocks(taken)) == taken.size // 16


@pytest.mark.services
def test_a_forked_child_does_not_repeat_its_parents_bytes():
    source = SecureBytes()
    source.take(16)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, source.take(4096).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), np.uint8)
    assert theirs.size == 4096
    assert not blocks(theirs) & blocks(source.take(4096))


def test_threads_that_share_a_secure_source_get_different_bytes():
    source = SecureBytes()
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(source.take, [64] * 20_000))
    assert len({part.tobytes() for part in taken}) == 20_000


def test_bytes_that_were_handed_out_stay_as_they_are_and_cannot_be_written():
    source = SecureBytes()
    first = source.take(1000)
    kept = first.copy()
    for _ in range(3):
        source.take(BLOCK)
    assert np.array_equal(first, kept)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_a_secure_source_cannot_be_copied_or_pickled():
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="repeat"):
            duplicate(SecureBytes())


def test_a_seed_repeats_its_bytes_and_another_seed_does_not():
    first, again, other = (SeededBytes(seed).take(1 << 12) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not blocks(first) & blocks(other)


def test_the_types_say_what_they_are():
    sources: list[RandomBytes] = [SecureBytes(), SeededBytes(1)]
    assert [source.security for source in sources] == ["csprng", "seeded"]
    assert not isinstance(sources[1], SecureBytes)


@pytest.mark.parametrize("source", [SecureBytes(), SeededBytes(1)])
def test_a_request_is_a_whole_number_of_bytes(source: RandomBytes):
    assert source.take(0).size == 0
    assert source.take(7).dtype == np.uint8
    for wrong in (-1, 1.5, True):
        with pytest.raises(NoiseRefused, match="whole number"):
            source.take(wrong)  # type: ignore[arg-type]
