"""Densities of two dimensions by quadrature: the truth that draws are held against."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hhvaem.sampling.hmc import LogDensity

# Draws are counted in squares of this side, and each is made of FINE x FINE small ones.
SIDE, FINE = 0.5, 5

Mass = Float[np.ndarray, "across up"]
Draws = Float[Array | np.ndarray, "draws 2"]


class Window(NamedTuple):
    """The part of the plane that is looked at, whole numbers of squares wide and high."""

    left: float
    right: float
    bottom: float
    top: float


def edges(window: Window, side: float) -> tuple[np.ndarray, np.ndarray]:
    """Give where squares of this side end, across and up."""
    across, up = window.right - window.left, window.top - window.bottom
    return (
        np.linspace(window.left, window.right, round(across / side) + 1),
        np.linspace(window.bottom, window.top, round(up / side) + 1),
    )


def centres(window: Window, side: float = SIDE / FINE) -> tuple[np.ndarray, np.ndarray]:
    """Give where the middles of squares are, of the small ones if not said otherwise."""
    across, up = edges(window, side)
    return (across[1:] + across[:-1]) / 2, (up[1:] + up[:-1]) / 2


def points(window: Window) -> Float[np.ndarray, "across up 2"]:
    """Give the middle of each small square."""
    return np.stack(np.meshgrid(*centres(window), indexing="ij"), axis=-1).astype(np.float32)


def masses(log_density: LogDensity, window: Window) -> Mass:
    """Give the probability of each small square, taking the window for the whole plane."""
    values = jax.jit(jax.vmap(jax.vmap(log_density)))(jnp.asarray(points(window)))
    return normalised(values)


def normalised(log_density: Float[Array | np.ndarray, "across up"]) -> Mass:
    """Turn log densities in the middle of squares into the probabilities of the squares."""
    log_mass = np.asarray(log_density, np.float64)
    mass = np.exp(log_mass - log_mass.max())
    return mass / mass.sum()


def total_variation(mass: Mass, window: Window, draws: Draws) -> float:
    """Give how far draws are from a density: half the sum over squares of differences in share.

    It is 1 for draws where there is no mass, and small for exact draws (`noise_floor`). A draw
    outside of the window is in the wrong place.
    """
    x, y = np.asarray(draws).T
    counts, *_ = np.histogram2d(x, y, bins=edges(window, SIDE))
    share = counts / len(draws)
    return 0.5 * float(np.abs(share - _squares(mass)).sum() + 1 - share.sum())


def noise_floor(mass: Mass, draws: int) -> float:
    """Give the total variation that so many exact draws have on average."""
    squares = _squares(mass).ravel()
    counts = np.random.default_rng(0).multinomial(draws, squares, size=100)
    return 0.5 * float(np.abs(counts / draws - squares).sum(1).mean())


def levels(mass: Mass, shares: tuple[float, ...]) -> list[float]:
    """Give the heights whose contours enclose these shares of the mass, in rising order."""
    falling = np.sort(mass.ravel())[::-1]
    within = np.cumsum(falling)
    return [float(falling[np.searchsorted(within, share)]) for share in sorted(shares)[::-1]]


def _squares(mass: Mass) -> Float[np.ndarray, "columns rows"]:
    across, up = mass.shape
    return mass.reshape(across // FINE, FINE, up // FINE, FINE).sum((1, 3))
