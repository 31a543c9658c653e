"""How often 95 % intervals hold the truth after multiple imputation.

    python benchmarks/rubin.py --repetitions 1000

Makes many tables of which means, correlations and regression coefficients are known, takes 30 % of
the cells away, completely at random or depending on a column that is always seen, fits the default
preset to each, and to those of the first block one model too, and pools what their draws say. All
tables of a block are fitted at once; use a GPU. Writes results/rubin.json, block by block, and goes
on from there, and the tables of docs/multiple-imputation.md; `--write` does only that.
"""

import argparse
import itertools
import json
import multiprocessing
import time
from dataclasses import asdict, replace
from functools import cache, partial
from inspect import unwrap
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from documents import write_block
from scipy import stats

from hhvaem import fitting, pool, posterior
from hhvaem.fitting import Fitted
from hhvaem.preparing import Part, Prepared, encoded_rows, prepare
from hhvaem.presets import PRESETS
from hhvaem.schema import Column

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "rubin.json", ROOT / "docs" / "multiple-imputation.md"
ROWS, HIDDEN, MEMBERS, DRAWS = 500, 0.3, 5, 20
# Tables that are drawn for at once: their chains fill a GPU, and more would not fit.
AT_ONCE = 100
NAMES = ("a", "b", "c", "y")
# y = 1 + 0.5 a - 0.7 b + 0.4 c + noise in both populations.
COEFFICIENTS, NOISE = np.array([1.0, 0.5, -0.7, 0.4]), 1.0
STATISTICS = (
    *(f"mean of {name}" for name in NAMES),
    "correlation of a and b",
    "correlation of b and c",
    "correlation of b and y",
    "intercept",
    *(f"coefficient of {name}" for name in NAMES[:3]),
)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw rows in which everything is normal."""
    a, b, c = rng.normal(size=(3, *shape))
    b = 0.6 * a + 0.8 * b
    c = 0.4 * a + 0.3 * b + 0.8 * c
    return with_target(a, b, c, rng)


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw rows with a skewed column `b` and a binary column `c`."""
    a, b = rng.normal(size=(2, *shape))
    b = np.exp(0.4 * (0.6 * a + 0.8 * b))
    c = rng.random(shape) < 1 / (1 + np.exp(-(a + 0.8 * (b - 1))))
    return with_target(a, b, c.astype(float), rng)


def with_target(a: np.ndarray, b: np.ndarray, c: np.ndarray, rng: Any) -> np.ndarray:
    """Add a column that depends on the others by a linear regression."""
    first, *slopes = COEFFICIENTS
    y = first + slopes[0] * a + slopes[1] * b + slopes[2] * c + NOISE * rng.normal(size=a.shape)
    return np.stack([a, b, c, y], axis=-1)


POPULATIONS = {"normal": normal, "mixed": mixed}
MECHANISMS = ("MCAR", "MAR")


def hidden(mechanism: str, tables: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose the cells that are taken away."""
    if mechanism == "MCAR":
        return rng.random(tables.shape) < HIDDEN
    # The larger `a`, which is always seen, the more of the others is missing: 30 % of them.
    share = 1 / (1 + np.exp(-1.5 * (tables[..., :1] - 0.8)))
    away = rng.random(tables.shape) < share
    away[..., 0] = False
    return away


class Said(NamedTuple):
    """What tables say: estimates and squared standard errors of all statistics."""

    estimate: np.ndarray
    variance: np.ndarray


def analysed(tables: np.ndarray, seen: np.ndarray | None = None) -> Said:
    """Estimate all statistics of tables [..., rows, columns], or of their rows in `seen`.

    Correlations are Fisher's z.
    """
    weights = np.ones(tables.shape[:-1]) if seen is None else seen.astype(float)
    count = weights.sum(-1)
    known = np.where(weights[..., None] > 0, tables, 0.0)
    mean = known.sum(-2) / count[..., None]
    centred = np.where(weights[..., None] > 0, known - mean[..., None, :], 0.0)
    covariance = np.einsum("...ni,...nj->...ij", centred, centred) / (count - 1)[..., None, None]
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    pairs = [(0, 1), (1, 2), (1, 3)]
    z = [
        np.arctanh(covariance[..., i, j] / np.sqrt(variance[..., i] * variance[..., j]))
        for i, j in pairs
    ]
    design = np.concatenate([np.ones_like(known[..., :1]), known[..., :3]], -1) * weights[..., None]
    gram = np.linalg.inv(np.einsum("...ni,...nj->...ij", design, design))
    slopes = np.einsum("...ij,...nj,...n->...i", gram, design, known[..., 3])
    residual = (known[..., 3] - np.einsum("...ni,...i->...n", design, slopes)) * weights
    noise = (residual**2).sum(-1) / (count - 4)
    return Said(
        np.concatenate([mean, np.stack(z, -1), slopes], -1),
        np.concatenate(
            [
                variance / count[..., None],
                np.broadcast_to((1 / (count - 3))[..., None], (*count.shape, len(pairs))),
                np.diagonal(gram, axis1=-2, axis2=-1) * noise[..., None],
            ],
            -1,
        ),
    )


DOF = np.array([ROWS - 1] * 4 + [np.inf] * 3 + [ROWS - 4] * 4)


@cache
def truth(population: str) -> np.ndarray:
    """Give the statistics of a table so long that they are as good as known."""
    rng = np.random.default_rng(12345)
    parts = [analysed(POPULATIONS[population](rng, (4_000_000,))).estimate for _ in range(5)]
    found = np.mean(parts, 0)
    found[-4:] = COEFFICIENTS
    return found


@eqx.filter_jit
def _cases(models: Any, samplers: Any, rows: Any, keys: Any, how: posterior.How) -> Any:
    """Draw cells of the rows of many tables, by the members of each."""

    def one(models: Any, samplers: Any, row: Any, keys: Any) -> Any:
        numbers = jnp.arange(len(models.log_noise))
        drawn = unwrap(posterior.draws_at_once)(models, samplers, numbers, row, keys, how)
        return unwrap(posterior.cases)(models, row, drawn.positions, keys).cells

    return eqx.filter_vmap(one)(models, samplers, rows, keys)


def completed(fits: list[Fitted], tables: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Complete each table by draws of each member: [members, draws, tables, rows, columns]."""
    parts = [slice(i, i + AT_ONCE) for i in range(0, len(fits), AT_ONCE)]
    return np.concatenate([_completed(fits[p], tables[p], away[p]) for p in parts], axis=2)


def _completed(fits: list[Fitted], tables: np.ndarray, away: np.ndarray) -> np.ndarray:
    members = fits[0].members
    how = replace(fits[0].plan.how, chains=DRAWS // members, kept=1)
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        *(eqx.filter((fit.models, fit.tuned), eqx.is_array) for fit in fits),
    )
    static = eqx.filter((fits[0].models, fits[0].tuned), eqx.is_array, inverse=True)
    models, samplers = eqx.combine(stacked, static)
    width = fits[0].models.log_noise.shape[1]
    rows = [
        encoded_rows(f.encoding, x, ~m, width) for f, x, m in zip(fits, tables, away, strict=True)
    ]
    rows = jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)
    keys = jax.random.split(jax.random.key(7), (len(fits), ROWS))
    cells = np.asarray(_cases(models, samplers, rows, keys, how))
    cells = np.moveaxis(cells[..., : tables.shape[-1]], 3, 1)  # tables, draws, members, rows
    filled = [
        np.where(m, f.encoding.decode(drawn), x)
        for f, drawn, x, m in zip(fits, cells, tables, away, strict=True)
    ]
    return np.moveaxis(np.stack(filled), (2, 1), (0, 1))


def prepared(parts: list[Part]) -> list[Prepared]:
    """Make the models of columns of all tables, on all processors."""
    make = partial(prepare, targets=None, plan=PRESETS["default"])
    # Not by forks, which a process that holds an accelerator must not make.
    with multiprocessing.get_context("spawn").Pool(initializer=_on_cpu) as workers:
        return workers.map(make, parts, chunksize=8)


def _on_cpu() -> None:
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]


def block(population: str, mechanism: str, number: int, size: int) -> list[dict[str, Any]]:
    """Fit and analyse some tables, and say of each way how often its intervals hold the truth."""
    rng = np.random.default_rng(
        [list(POPULATIONS).index(population), MECHANISMS.index(mechanism), number]
    )
    tables = POPULATIONS[population](rng, (size, ROWS))
    away = hidden(mechanism, tables, rng)
    binary = Column("c", "binary", levels=("0", "1"))
    columns = tuple(
        binary if population == "mixed" and name == "c" else Column(name, "real") for name in NAMES
    )
    parts = [Part(columns, np.where(m, np.nan, x), ~m) for x, m in zip(tables, away, strict=True)]
    ready = prepared(parts)
    ways = {
        "nothing hidden": (intervals(analysed(tables)), 0.0),
        "whole rows only": (intervals(analysed(tables, np.all(~away, axis=-1))), 0.0),
    }
    compared = [(f"{MEMBERS} members", MEMBERS)]
    if number == 0:
        compared.insert(0, ("one model", 1))
    for name, members in compared:
        started = time.perf_counter()
        plan = replace(PRESETS["default"], members=members)
        fits = fitting.fit_many(ready, plan, seed=number)
        found = pooled(analysed(completed(fits, tables, away)))
        ways[name] = found, time.perf_counter() - started
        print(population, mechanism, number, name, f"{ways[name][1]:.0f} s", flush=True)
    known = truth(population)
    return [
        {
            "population": population,
            "mechanism": mechanism,
            "way": way,
            "block": number,
            "tables": size,
            "hidden": float(away.mean()),
            "seconds": seconds,
            "held": ((low <= known) & (known <= high)).sum(0).tolist(),
            "error": (estimate - known).sum(0).tolist(),
            "squared_error": ((estimate - known) ** 2).sum(0).tolist(),
            "width": (high - low).sum(0).tolist(),
        }
        for way, ((estimate, low, high), seconds) in ways.items()
    ]


class Intervals(NamedTuple):
    """Estimates of the statistics of tables, and the ends of their 95 % intervals."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def intervals(said: Said) -> Intervals:
    """Give the intervals of tables that nothing was filled into."""
    reach = stats.norm.ppf(0.975) * np.sqrt(said.variance)
    return Intervals(said.estimate, said.estimate - reach, said.estimate + reach)


def pooled(said: Said) -> Intervals:
    """Pool draws [members, draws, tables, statistics] of each table by Rubin's rules."""
    members, draws, *shape = said.estimate.shape

    def flat(part: np.ndarray) -> np.ndarray:
        return part.reshape(*([members] if members > 1 else []), draws, -1)

    one = pool(
        flat(said.estimate),
        flat(said.variance),
        nested=members > 1,
        dof_complete=np.tile(DOF, shape[0]),
    )
    return Intervals(*(np.reshape(x, shape) for x in (one.estimate, *one.interval(0.95))))


def table(blocks: list[dict[str, Any]]) -> str:
    """Lay out the coverage of all statistics, and what it cost."""
    ways = list(dict.fromkeys(each["way"] for each in blocks))
    lines = []
    for population, mechanism in itertools.product(POPULATIONS, MECHANISMS):
        own = [
            [
                b
                for b in blocks
                if (b["population"], b["mechanism"], b["way"]) == (population, mechanism, way)
            ]
            for way in ways
        ]
        if not own[0]:
            continue
        counts = [sum(b["tables"] for b in part) for part in own]
        share = np.mean([b["hidden"] for b in own[0]])
        lines += [
            f"\n**{population}, {mechanism}**: {share:.0%} of the cells hidden.\n",
            "| | " + " | ".join(ways) + " |",
            "|---" * (len(ways) + 1) + "|",
            "| tables | " + " | ".join(map(str, counts)) + " |",
        ]
        held = [np.sum([b["held"] for b in p], 0) / n for p, n in zip(own, counts, strict=True)]
        lines += [
            f"| {name} | " + " | ".join(f"{each[i]:.3f}" for each in held) + " |"
            for i, name in enumerate(STATISTICS)
        ]
        # Of the mean over statistics, against tables in which nothing was hidden.
        width = [np.sum([b["width"] for b in p], 0) / n for p, n in zip(own, counts, strict=True)]
        squares = [np.sum([b["squared_error"] for b in part], 0) for part in own]
        spread = [np.sqrt(each / n) for each, n in zip(squares, counts, strict=True)]
        lines.append(
            "| width of intervals | "
            + " | ".join(f"{np.mean(w / width[0]):.2f}" for w in width)
            + " |"
        )
        lines.append(
            "| root mean squared error | "
            + " | ".join(f"{np.mean(e / spread[0]):.2f}" for e in spread)
            + " |"
        )
    return "\n".join(lines).strip()


def main() -> None:
    """Run what is not there yet, or write the table."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--repetitions", type=int, default=1000)
    arguments.add_argument("--block", type=int, default=250, help="tables that are fitted at once")
    arguments.add_argument("--populations", nargs="+", default=list(POPULATIONS))
    arguments.add_argument("--results", type=Path, default=RESULTS)
    arguments.add_argument("--write", action="store_true", help="only write the table of the docs")
    asked = arguments.parse_args()
    told: dict[str, Any] = {"blocks": []}
    if asked.results.exists():
        told = json.loads(asked.results.read_text())
    if not asked.write:
        plan = json.loads(json.dumps(asdict(PRESETS["default"])))
        if told.setdefault("plan", None if told["blocks"] else plan) != plan:
            raise SystemExit(f"{asked.results} is of another default preset; delete it first.")
        told["machine"] = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}"
        numbers = range(-(-asked.repetitions // asked.block))
        for number, population, mechanism in itertools.product(
            numbers, asked.populations, MECHANISMS
        ):
            key = (population, mechanism, number)
            if key in {(b["population"], b["mechanism"], b["block"]) for b in told["blocks"]}:
                continue
            told["blocks"] += block(
                *key, min(asked.block, asked.repetitions - number * asked.block)
            )
            asked.results.write_text(json.dumps(told, indent=1) + "\n")
    write_block(DOCS, "rubin", table(told["blocks"]))


if __name__ == "__main__":
    main()
