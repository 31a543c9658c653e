"""The joint model of a table: figure 1 of the paper in code.

    position [eps_1 .. eps_L] ~ N(0, I)          the latents of a row
    h_1 = hierarchy(position)
    parameters = decoder(h_1)                    p(cell_d | h_1), by the column models
    y ~ predictor(x-hat, h_1)                    x-hat: cells, or what is expected of hidden ones
    q(position | row) = encoder(row)             a diagonal normal

Everything is on one row. `log_joint` is the only place in which the density of a row and its
latents is written; training, sampling and scoring all use it.
"""

import math
from numbers import Integral
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hhvaem.encoding import Cells
from hhvaem.errors import InputError
from hhvaem.hierarchy import Hierarchy
from hhvaem.marginals import Direct, Marginals, cell_inputs, input_widths
from hhvaem.networks import Dense, Painter, Perceptron, Pictures, Reader

LOG_NOISE = 0.5 * math.log(0.1)


class Row(NamedTuple):
    """One row: the cells of its columns and of its targets, and which of them are observed."""

    cells: Cells
    mask: Bool[Array, " columns"]
    target: Cells
    target_mask: Bool[Array, " targets"]


class Seen(NamedTuple):
    """What a model makes of a row before any latent: features that are drawn once and kept."""

    row: Row
    features: Float[Array, " features"]


class Gaussian(NamedTuple):
    """A normal distribution of a position, with a diagonal covariance."""

    mean: Float[Array, " size"]
    log_scale: Float[Array, " size"]

    def at(self, noise: Float[Array, " size"]) -> Float[Array, " size"]:
        """Give the draw that standard normal noise makes."""
        return self.mean + jnp.exp(self.log_scale) * noise


class Encoder(eqx.Module):
    """Bottom-up: r_1 = f(x), r_{l+1} = relu(W r_l); each r_l gives the normal law of eps_l."""

    first: Perceptron | Reader
    upward: tuple[Dense, ...]
    heads: tuple[Dense, ...]
    shortcuts: tuple[Dense, ...] = ()

    @classmethod
    def init(
        cls,
        inputs: int,
        layers: tuple[int, ...],
        hidden: int,
        *,
        depth: int = 1,
        shortcut: bool = False,
        pictures: Pictures | None = None,
        key: PRNGKeyArray,
    ) -> "Encoder":
        """Make the networks; where there is more than one layer, the first is deeper by one."""
        first_key, *keys = jax.random.split(key, 2 * len(layers))
        sizes = [hidden] * (depth + (len(layers) > 1))
        first: Perceptron | Reader
        if pictures is None:
            first = Perceptron.init((inputs, *sizes), key=first_key)
        else:
            first = Reader.init(pictures, inputs, sizes, key=first_key)
        upward = tuple(Dense.init(hidden, hidden, key=k) for k in keys[: len(layers) - 1])
        heads = tuple(
            Dense.init(hidden, 2 * size, key=k)
            for size, k in zip(layers, keys[len(layers) - 1 :], strict=True)
        )
        if not shortcut:
            return cls(first, upward, heads)
        linear_keys = jax.random.split(jax.random.fold_in(key, 1), len(layers))
        shortcuts = tuple(
            Dense.init(inputs, 2 * size, key=k) for size, k in zip(layers, linear_keys, strict=True)
        )
        return cls(first, upward, heads, shortcuts)

    def __call__(self, inputs: Float[Array, " inputs"]) -> Gaussian:
        r = self.first(inputs)
        # In the published ladder the first summary goes on as it is; a single layer is rectified.
        r = r if self.upward else jax.nn.relu(r)
        laws = [self.heads[0](r)]
        for step, head in zip(self.upward, self.heads[1:], strict=True):
            r = jax.nn.relu(step(r))
            laws.append(head(r))
        if self.shortcuts:
            laws = [law + add(inputs) for law, add in zip(laws, self.shortcuts, strict=True)]
        means, log_variances = zip(*(jnp.split(law, 2) for law in laws), strict=True)
        return Gaussian(jnp.concatenate(means), 0.5 * jnp.concatenate(log_variances))


class Model(eqx.Module):
    """All networks of the joint model, and the column models below it.

    Parameters
    ----------
    marginals
        Models of the columns; their weights are not trained here.
    targets
        The laws of the targets; None where the table has no target.
    """

    marginals: Marginals
    targets: Direct | None
    hierarchy: Hierarchy
    encoder: Encoder
    decoder: Perceptron | Painter
    predictor: Perceptron | None
    log_noise: Float[Array, " columns"]
    target_log_noise: Float[Array, " targets"]

    @classmethod
    def init(
        cls,
        marginals: Marginals,
        targets: Direct | None,
        layers: tuple[int, ...],
        *,
        hidden: int = 256,
        depth: int = 1,
        shortcut: bool = False,
        reparameterised: bool = True,
        pictures: Pictures | None = None,
        key: PRNGKeyArray,
    ) -> "Model":
        """Make an untrained model with latent layers of the given sizes, data upwards.

        Encoder and decoder have `depth` hidden layers, and with a `shortcut` a linear map beside
        them: what is left where weights of the others vanish is a linear model. Where columns are
        the pixels of `pictures`, the encoder begins and the decoder ends with convolutions, and
        there is no shortcut.

        Raises
        ------
        InputError
            Where a layer, or the networks' hidden layers, would have no units, or images have
            other pixels than the table has columns, or shortcuts.
        """
        layers, hidden = _sizes(layers, hidden)
        _check_pictures(pictures, marginals, shortcut=shortcut)
        keys = jax.random.split(key, 4)
        columns, widths = len(marginals.levels), sum(marginals.widths)
        target_columns = 0 if targets is None else len(targets.levels)
        target_widths = 0 if targets is None else sum(targets.widths)
        encoder_inputs = widths + columns + target_widths + target_columns
        predictor = None
        if targets is not None:
            known = sum(input_widths(marginals.levels))
            sizes = (layers[0] + known + columns, hidden, target_widths)
            predictor = Perceptron.init(sizes, key=keys[3])
        return cls(
            marginals,
            targets,
            Hierarchy.init(layers, hidden, reparameterised=reparameterised, key=keys[0]),
            Encoder.init(
                encoder_inputs,
                layers,
                hidden,
                depth=depth,
                shortcut=shortcut,
                pictures=pictures,
                key=keys[1],
            ),
            Perceptron.init((layers[0], *[hidden] * depth, widths), shortcut=shortcut, key=keys[2])
            if pictures is None
            else Painter.init(pictures, (layers[0], *[hidden] * depth), key=keys[2]),
            predictor,
            jnp.full(columns, LOG_NOISE, jnp.float32),
            jnp.full(target_columns, LOG_NOISE, jnp.float32),
        )

    def see(self, row: Row, noise: Float[Array, " columns"] | None = None) -> Seen:
        """Give the features of a row, drawn by standard normal `noise`, or else their means."""
        return Seen(row, self.marginals.features(row.cells, noise))

    def encode(self, seen: Seen) -> Gaussian:
        """Give q(position | observed cells and targets); hidden cells do not matter."""
        row = seen.row
        mask = row.mask.astype(seen.features.dtype)
        shown = mask[_columns(self.marginals.widths)]
        parts = [jnp.where(shown > 0, seen.features, 0.0), mask]
        if self.targets is not None:
            target_mask = row.target_mask.astype(mask.dtype)
            shown = target_mask[_columns(self.targets.widths)]
            parts += [jnp.where(shown > 0, self.targets.features(row.target), 0.0), target_mask]
        return self.encoder(jnp.concatenate(parts))

    def log_joint(
        self, position: Float[Array, " size"], seen: Seen, *, with_target: bool
    ) -> Float[Array, ""]:
        """Give log p(observed cells, observed targets, position).

        `with_target=False` leaves the predictor out, for rows whose targets are not observed: it
        is a switch of the compiled program, not of a row.
        """
        prior = self.hierarchy.log_prior(position).sum()
        return prior + self.log_likelihood(position, seen, with_target=with_target)

    def log_likelihood(
        self, position: Float[Array, " size"], seen: Seen, *, with_target: bool
    ) -> Float[Array, ""]:
        """Give log p(observed cells, observed targets | position)."""
        cells, target = self.cell_log_probs(position, seen, with_target=with_target)
        total = jnp.where(seen.row.mask, cells, 0.0).sum()
        return total + (jnp.where(seen.row.target_mask, target, 0.0).sum() if target.size else 0.0)

    def cell_log_probs(
        self, position: Float[Array, " size"], seen: Seen, *, with_target: bool
    ) -> tuple[Float[Array, " columns"], Float[Array, " targets"]]:
        """Give log p(cell | position) of each cell and target, be it observed or not.

        There is nothing of the targets where `with_target` is False.
        """
        h = self.hierarchy.bottom(position)
        parameters = self.decoder(h)
        cells = self.marginals.reconstruction(
            parameters, self.log_noise, seen.row.cells, seen.features
        )
        if not with_target or self.targets is None:
            return cells, jnp.zeros(0)
        law = self.predict(h, parameters, seen.row)
        return cells, self.targets.log_prob(law, self.target_log_noise, seen.row.target)

    def predict(
        self, h: Float[Array, " first"], parameters: Float[Array, " parameters"], row: Row
    ) -> Float[Array, " target_parameters"]:
        """Give the parameters of p(targets | x-hat, h_1)."""
        return self.answer(self.reading(h, parameters, row))

    def reading(
        self, h: Float[Array, " first"], parameters: Float[Array, " parameters"], row: Row
    ) -> Float[Array, " units"]:
        """Give what the predictor's hidden units are told, the sum of what each column tells."""
        by_h, by_x, by_missing, bias = self._first_layer()
        levels = self.marginals.levels
        shown = row.mask[_columns(input_widths(levels))]
        given = jnp.where(shown, cell_inputs(levels, row.cells), 0.0)
        missing = 1.0 - row.mask.astype(given.dtype)
        guessed = jnp.where(shown, 0.0, self.marginals.expected(parameters))
        # W [h, x-hat, missing] + b, with what is the same for all latents of a row apart: a chain
        # then computes it once.
        same = given @ by_x + missing @ by_missing + bias
        return same + h @ by_h + guessed @ by_x

    def answer(self, reading: Float[Array, " units"]) -> Float[Array, " target_parameters"]:
        """Give what the predictor's hidden units, told so, say of the targets."""
        assert self.predictor is not None
        return self.predictor.layers[-1](jax.nn.relu(reading))

    def told_by_known(self, point: Float[Array, " columns"]) -> Float[Array, "columns units"]:
        """Give what each column tells the predictor where its cell is known to be this."""
        return self._by_column(cell_inputs(self.marginals.levels, Cells(point, point, point)))

    def told_by_hidden(
        self, parameters: Float[Array, " parameters"]
    ) -> Float[Array, "columns units"]:
        """Give what each column tells the predictor where its cell is not known."""
        return self._by_column(self.marginals.expected(parameters)) + self._first_layer()[2]

    def _by_column(self, inputs: Float[Array, " inputs"]) -> Float[Array, "columns units"]:
        levels = self.marginals.levels
        column = _columns(input_widths(levels))
        own = jnp.asarray(column == np.arange(len(levels))[:, None], inputs.dtype)
        return own @ (inputs[:, None] * self._first_layer()[1])

    def _first_layer(
        self,
    ) -> tuple[
        Float[Array, "first units"],
        Float[Array, "inputs units"],
        Float[Array, "columns units"],
        Float[Array, " units"],
    ]:
        """Give the predictor's first layer by what it reads: latents, cells, and which are not."""
        if self.predictor is None:
            raise ValueError("This model has no target.")
        first = self.predictor.layers[0]
        inputs, columns = sum(input_widths(self.marginals.levels)), len(self.marginals.levels)
        latents = len(first.weight) - inputs - columns
        by_h, by_x, by_missing = jnp.split(first.weight, [latents, latents + inputs])
        return by_h, by_x, by_missing, first.bias


def _sizes(layers: tuple[int, ...], hidden: int) -> tuple[tuple[int, ...], int]:
    def counts(size: object) -> bool:
        return isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 0

    if not isinstance(layers, tuple) or not layers or not all(map(counts, layers)):
        raise InputError(
            f"layers={layers!r} must be a tuple of whole numbers of at least 1, such as (10, 5)."
        )
    if not counts(hidden):
        raise InputError(f"hidden={hidden!r} must be a whole number of at least 1.")
    return tuple(map(int, layers)), int(hidden)


def _check_pictures(pictures: Pictures | None, marginals: Marginals, *, shortcut: bool) -> None:
    if pictures is None:
        return
    if shortcut or pictures.pixels != sum(marginals.widths):
        raise InputError(
            f"Images of {pictures.pixels} pixels cannot be those of {sum(marginals.widths)} "
            "columns, or have a shortcut; give Pixels of their shape, and shortcut=False."
        )
    if min(map(min, pictures.shapes)) < 1:
        raise InputError(
            f"Images of {pictures.shape[0]} x {pictures.shape[1]} pixels are too small for their "
            "convolutions; give fewer or smaller ones."
        )


def _columns(widths: tuple[int, ...]) -> np.ndarray:
    """Give the column of each of the numbers that columns of these widths have."""
    return np.repeat(np.arange(len(widths)), widths)
