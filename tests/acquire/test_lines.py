"""Stretches of columns that show as one value, and parts of lines that never divide them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hhvaem.acquire.lines import MOST, NARROWEST, Lines, Parts, cut, lines, masses
from hhvaem.encoding import Encoding, gaussianised_encoding, standardised_encoding
from hhvaem.likelihoods import Ordered
from hhvaem.schema import Column
from hhvaem.warps import EDGE

RNG = np.random.default_rng(0)
ROWS = 2000
TABLE = {
    Column("few", "count", lower=0.0): RNG.poisson(2.0, ROWS),
    Column("many", "count", lower=0.0): RNG.poisson(200.0, ROWS),
    Column("real", "real"): RNG.normal(size=ROWS),
    Column("at zero", "real"): np.maximum(RNG.normal(0.3, 1.0, ROWS), 0.0),
    Column("positive", "positive", lower=0.0): np.maximum(RNG.normal(size=ROWS), 0.0),
    Column("four numbers", "real"): RNG.choice([0.0, 1.0, 2.5, 10.0], ROWS),
    Column("grade", "ordinal", levels=("a", "b", "c", "d")): RNG.integers(0, 4, ROWS),
    Column("pair", "binary", levels=("a", "b")): RNG.integers(0, 2, ROWS),
    Column("colour", "categorical", levels=("a", "b", "c")): RNG.integers(0, 3, ROWS),
}
COLUMNS = tuple(TABLE)
NAMES = [column.name for column in COLUMNS]
VALUES = np.stack(list(TABLE.values()), axis=1).astype(float)
SEEN = np.ones(VALUES.shape, bool)
WIDTH, PARTS = len(COLUMNS) + 3, 32
ENCODINGS = {"gaussianised": gaussianised_encoding, "standardised": standardised_encoding}


@cache
def encoded(name: str) -> tuple[Encoding, Lines]:
    encoding = ENCODINGS[name](COLUMNS, VALUES, SEEN)
    return encoding, lines(encoding, WIDTH)


def stretches(found: Lines, column: int) -> tuple[np.ndarray, ...]:
    low, high, point = (np.asarray(part[column]) for part in found)
    return low[low < EDGE], high[low < EDGE], point[low < EDGE]


@pytest.mark.parametrize("name", ENCODINGS)
def test_stretches_and_their_points_are_those_of_cells(name: str) -> None:
    encoding, found = encoded(name)
    cells = [np.asarray(part) for part in encoding.encode(VALUES, SEEN)]
    with_some = []
    for j, law in enumerate(encoding.laws):
        low, high, point = stretches(found, j)
        assert (low[1:] >= high[:-1]).all()
        if not isinstance(law, Ordered):
            assert not low.size
            continue
        own_low, own_high, own_point = (part[:, j] for part in cells)
        wide = own_high - own_low > NARROWEST
        if low.size == MOST:  # some are left out
            continue
        if wide.any():
            with_some.append(NAMES[j])
            at = np.searchsorted(low, own_point[wide], side="right") - 1
            # Between two of a few numbers there is nothing: a stretch goes on to the next.
            tolerance = 0.01 if law.warp.atoms is not None else 1e-5
            inside = (np.abs(own_low) < 3) & (np.abs(own_high) < 3)
            for end, own in ((low, own_low), (high, own_high)):
                np.testing.assert_allclose(
                    end[at][inside[wide]], own[wide & inside], atol=tolerance
                )
            np.testing.assert_allclose(point[at], own_point[wide], rtol=1e-5, atol=1e-5)
    expected = {
        "gaussianised": ["few", "at zero", "positive", "four numbers", "grade"],
        "standardised": ["few", "positive"],
    }
    assert with_some == expected[name]


def test_of_very_many_stretches_the_widest_are_kept() -> None:
    encoding, found = encoded("gaussianised")
    j = NAMES.index("many")
    low, high, _ = stretches(found, j)
    assert low.size == MOST
    law = encoding.laws[j]
    assert isinstance(law, Ordered)
    all_low, all_high = law.ends(np.arange(120.0, 280.0))
    left_out = (all_high - all_low)[~np.isin(np.float32(all_low), low)]
    assert (high - low).min() > 0.98 * left_out[np.abs(left_out) < 1].max()


def some_laws(seed: int, count: int = 50) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(seed)
    centre, spread = rng.normal(size=(2, WIDTH))
    locations = centre + np.exp(spread) * rng.normal(size=(count, WIDTH))
    scales = np.exp(rng.uniform(-3.0, 0.0, size=(count, WIDTH)))
    return jnp.asarray(locations, jnp.float32), jnp.asarray(scales, jnp.float32)


@cache
def some_parts(name: str, seed: int) -> Parts:
    return jax.jit(lambda *laws: cut(*laws, encoded(name)[1], PARTS))(*some_laws(seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENCODINGS)
def test_edges_ascend_and_divide_no_stretch(name: str, seed: int) -> None:
    parts = some_parts(name, seed)
    edges = np.asarray(parts.edges)
    assert edges.shape == (WIDTH, PARTS + 1)
    assert (np.diff(edges, axis=1) >= 0).all()
    assert (edges[:, 0] == -EDGE).all()
    assert (edges[:, -1] == EDGE).all()
    for j in range(WIDTH):
        low, high, _ = stretches(encoded(name)[1], j)
        assert not ((low[:, None] < edges[j]) & (edges[j] < high[:, None])).any()
        if not low.size:  # parts of one width where all laws are
            locations, scales = (np.asarray(part)[:, j] for part in some_laws(seed))
            np.testing.assert_allclose(np.diff(edges[j, 1:-1], 2), 0.0, atol=1e-4)
            assert edges[j, 1] <= (locations - 3 * scales).min()
            assert edges[j, -2] >= (locations + 3 * scales).max()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENCODINGS)
def test_parts_that_are_one_stretch_have_its_point(name: str, seed: int) -> None:
    parts = some_parts(name, seed)
    found = 0
    for j in range(WIDTH):
        edges, points = np.asarray(parts.edges[j]), np.asarray(parts.points[j])
        low, high, point = stretches(encoded(name)[1], j)
        for i in range(PARTS):
            same = (low == edges[i]) & (high == edges[i + 1])
            if same.any():
                found += 1
                assert points[i] == point[same], NAMES[j]
            elif 0 < i < PARTS - 1 and edges[i] < edges[i + 1]:
                assert edges[i] <= points[i] <= edges[i + 1]
    assert found >= {"gaussianised": 10, "standardised": 5}[name]


def test_levels_of_a_narrow_law_are_told_apart() -> None:
    """The outermost parts hold nearly everything where a law is near the end of its line."""
    j = NAMES.index("grade")
    found = encoded("gaussianised")[1]
    low, high, point = stretches(found, j)
    line = Lines(*(part[j : j + 1] for part in found))
    for end in (high[0], low[-1]):
        laws = jnp.full((4, 1), end), jnp.full((4, 1), 0.05)
        parts = cut(*laws, line, PARTS)
        mass = masses((1,), laws[0][0], laws[1][0], parts.edges)[0]
        there = np.asarray(mass) > 0.1
        np.testing.assert_allclose(np.asarray(mass)[there], [0.5, 0.5], atol=1e-5)
        assert set(np.asarray(parts.points[0])[there]) == set(
            point[:2] if end == high[0] else point[-2:]
        )


@pytest.mark.parametrize("name", ENCODINGS)
def test_masses_of_any_law_add_up_to_one(name: str) -> None:
    encoding, _ = encoded(name)
    levels = (*encoding.levels, 1, 1, 1)
    rng = np.random.default_rng(0)
    shares = {3: [0.2, 0.5, 0.3], 4: [0.1, 0.2, 0.3, 0.4], 2: [0.7]}
    component = np.concatenate([shares.get(count, rng.normal(size=1) * 3) for count in levels])
    scales = jnp.asarray(np.exp(rng.normal(size=WIDTH)), jnp.float32)
    edges = some_parts(name, 0).edges
    found = np.asarray(masses(levels, jnp.asarray(component, jnp.float32), scales, edges))
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-5)
    pair, colour = NAMES.index("pair"), NAMES.index("colour")
    np.testing.assert_allclose(found[pair, :3], [0.3, 0.7, 0.0], atol=1e-6)
    np.testing.assert_allclose(found[colour, :4], [0.2, 0.5, 0.3, 0.0], atol=1e-6)
