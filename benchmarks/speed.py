"""Speed of training and of filling, with the paper's settings, on one of its tables.

    python benchmarks/speed.py --table boston --json FILE
    python benchmarks/speed.py --table boston --models 10 --whole --json FILE
    python benchmarks/speed.py --collect FILE...

The first takes less than a minute: it times some steps of each stage and extrapolates to a whole
training. The second trains `--models` folds at once from the first to the last step. The third
puts such files into results/speed.json and its figures into the docs. HHVAEM_DATA names the folder
of the tables.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from documents import write_block
from jaxtyping import Array, Float

from hhvaem import __version__, train
from hhvaem.compiling import program
from hhvaem.datasets import load
from hhvaem.datasets.work import plan
from hhvaem.marginal_vae import CHUNK, MarginalVAEs
from hhvaem.model import Model, Row
from hhvaem.objectives import ChainNoise, chain, chain_noise
from hhvaem.paper.folds import (
    PUBLISHED,
    Fold,
    Published,
    stage_one,
    take_fold,
    target_laws,
)

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "speed.json", ROOT / "docs" / "speed.md"
REPETITIONS = 5
# Rows filled at once with 20 and with 1000 chains: as many chains in all.
FILLED = {20: 500, 1000: 10}

Record = dict[str, Any]


def the_folds(table: str, models: int) -> list[Fold]:
    """Give training folds: all ten of as many divisions of the table as are needed."""
    dataset = load(table, as_published=True)
    plans = [plan(dataset, seed=seed) for seed in range(-(-models // 10))]
    return [take_fold(dataset, plans[i // 10], i % 10) for i in range(models)]


def columns(folds: list[Fold], published: Published) -> tuple[MarginalVAEs, list[float]]:
    """Train the column models; give the seconds of each chunk of steps, too."""
    started = time.perf_counter()
    moments: list[float] = []
    (marginals, _) = stage_one(
        folds,
        published,
        keys=jax.random.split(jax.random.key(0), len(folds)),
        progress=lambda *_: moments.append(time.perf_counter() - started),
    )
    return marginals, np.diff([0.0, *moments]).tolist()


def start(folds: list[Fold], published: Published) -> train.State:
    """Give models with nothing trained yet, columns neither."""
    keys = jax.random.split(jax.random.key(1), len(folds))
    levels = folds[0].inputs.encoding.levels
    blank = program(eqx.filter_vmap(lambda key: MarginalVAEs.init(levels, key=key)))(keys)
    settings = published.settings()
    return train.untrained((blank, target_laws(folds)), published.two_layers, settings, keys=keys)


def gathered(folds: list[Fold]) -> train.Data:
    return train.gather([fold.train for fold in folds])


def with_columns(states: train.State, marginals: MarginalVAEs) -> train.State:
    return states._replace(model=eqx.tree_at(lambda m: m.marginals, states.model, marginals))


def median_seconds(run: Callable[[], object]) -> float:
    """Give the median time of a compiled program."""
    wait: Any = jax.block_until_ready
    wait(run())
    seconds = []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        wait(run())
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def measure(table: str, models: int) -> Record:
    """Time some steps of everything."""
    published = PUBLISHED[table]
    settings = published.settings()
    record: Record = {"table": table, "models": models, "sgemm_gflops": sgemm_gflops()}
    folds = the_folds(table, models)
    states, data = start(folds, published), gathered(folds)
    marginals, chunks = columns(folds, published)
    states = with_columns(states, marginals)
    usual = statistics.median(chunks)
    record["stage1_s"] = usual * published.marginal_steps / CHUNK
    compile_s = chunks[0] - usual
    third = states._replace(step=jnp.full(models, settings.second_stage))
    for stage, at in ((train._second_stage, states), (train._third_stage, third)):
        lowering: Any = stage
        started = time.perf_counter()
        lowering.lower(at, data, settings, jnp.array(train.CHUNK)).compile()
        compile_s += time.perf_counter() - started
    record["compile_s"] = compile_s

    def seconds(stage: Callable[..., Any], at: train.State, length: int) -> float:
        return median_seconds(lambda: stage(at, data, settings, jnp.array(length))[1].loss)

    record["stage2_ms"] = 1e3 * seconds(train._second_stage, states, train.CHUNK) / train.CHUNK
    # The Stein discrepancy is measured at the end of every tenth step.
    without = settings.stein_every - 1
    nine, ten = (seconds(train._third_stage, third, n) for n in (without, without + 1))
    record["stage3_ms"] = 1e3 * nine / without
    record["stage3_sksd_ms"] = 1e3 * (ten - nine) - record["stage3_ms"]
    updates = settings.hmc_steps // settings.stein_every
    record["train_s"] = (
        record["compile_s"]
        + record["stage1_s"]
        + 1e-3
        * (
            settings.second_stage * record["stage2_ms"]
            + settings.hmc_steps * record["stage3_ms"]
            + updates * record["stage3_sksd_ms"]
        )
    )
    record["train_s_is_extrapolated"] = True
    return record | filling(states, data, settings)


def filling(states: train.State, data: train.Data, settings: train.Settings) -> Record:
    """Time filling: of rows of which half is hidden, with the target unknown."""
    model, sampler = train.unstack(states, 0)[:2]
    table = jax.tree.map(lambda leaf: leaf[0, : data.rows[0]], data.table)
    size = model.hierarchy.size
    evaluations = settings.transitions * settings.leapfrog + 1

    @program
    def fill(model: Model, rows: Row, noise: ChainNoise) -> Float[Array, "rows inputs"]:
        def one(row: Row, noise: ChainNoise) -> Float[Array, " inputs"]:
            seen = model.see(row)

            def draw(noise: ChainNoise) -> Float[Array, " inputs"]:
                end, _ = chain(model, sampler, seen, noise, settings.leapfrog, with_target=False)
                parameters = model.decoder(model.hierarchy.bottom(end.position))
                return model.marginals.expected(parameters)

            return jax.vmap(draw)(noise).mean(0)

        return jax.vmap(one)(rows, noise)

    def some(count: int) -> Row:
        rows = jax.tree.map(lambda leaf: leaf[jnp.arange(count) % len(table.mask)], table)
        shown = jax.random.bernoulli(jax.random.key(2), 0.5, rows.mask.shape)
        return rows._replace(mask=rows.mask & shown)

    record: Record = {}
    for chains, count in FILLED.items():
        noise = chain_noise(jax.random.key(3), (count, chains), settings.transitions, size)
        seconds = median_seconds(partial(fill, model, some(count), noise))
        record[f"rows_per_s_{chains}"] = count / seconds
    record["gradients_per_s"] = record["rows_per_s_1000"] * 1000 * evaluations

    @jax.jit  # for its costs only
    def gradients(positions: Float[Array, "rows size"]) -> Float[Array, "rows size"]:
        def one(position: Float[Array, " size"], row: Row) -> Float[Array, " size"]:
            seen = model.see(row)
            return jax.grad(lambda p: model.log_joint(p, seen, with_target=False))(position)

        return jax.vmap(one)(positions, some(len(positions)))

    costs: Any = gradients.lower(jnp.zeros((100, size))).compile().cost_analysis()
    record["flops_per_gradient"] = costs["flops"] / 100
    return record


def sgemm_gflops(size: int = 4096) -> float:
    """Give the rate at which this machine multiplies large matrices of float32."""
    matrix = jax.random.normal(jax.random.key(0), (size, size))
    # Of full float32, like the products that are compared with it.
    multiply = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    return 2e-9 * size**3 / median_seconds(lambda: multiply(matrix))


def whole(table: str, models: int) -> Record:
    """Train from the first step of stage 1 to the last of stage 3, compilation included."""
    folds = the_folds(table, models)
    published = PUBLISHED[table]
    started = time.perf_counter()
    states, data = start(folds, published), gathered(folds)
    ahead = train.compile_ahead(states, data, published.settings())
    marginals, _ = columns(folds, published)
    prepared = time.perf_counter() - started
    states = with_columns(states, marginals)
    _, history = train.train(states, data, published.settings(), ahead=ahead)
    seconds = time.perf_counter() - started
    return {
        "table": table,
        "models": models,
        "train_s": seconds,
        "train_s_is_extrapolated": False,
        "stage1_with_compilation_s": prepared,
        "final_loss": float(history.loss[:, -100:].mean()),
        "final_acceptance": float(history.acceptance[:, -100:].mean()),
    }


def about_the_machine(record: Record) -> Record:
    device = jax.devices()[0]
    record["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if (statistics_ := device.memory_stats()) is not None:
        record["peak_device_mb"] = statistics_["peak_bytes_in_use"] / 2**20
    record["device"] = device.device_kind
    record["cores"] = len(os.sched_getaffinity(0))
    record["versions"] = {
        "hhvaem": __version__,
        "jax": jax.__version__,
        "equinox": eqx.__version__,
        "python": platform.python_version(),
    }
    if "gradients_per_s" in record:
        rate = record["gradients_per_s"] * record["flops_per_gradient"] / 1e9
        record["share_of_sgemm"] = rate / record["sgemm_gflops"]
    return record


def collect(files: list[Path]) -> None:
    """Put records into the results, each in the place of an older one of its kind."""
    kept = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    records = {_kind(record): record for record in kept}
    for file in files:
        record = json.loads(file.read_text())
        records[_kind(record)] = record
    runs = [records[kind] for kind in sorted(records)]
    RESULTS.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    write_block(DOCS, "speed", tables(runs))


def _kind(record: Record) -> tuple[str, str, bool, int]:
    whole_run = not record["train_s_is_extrapolated"]
    return record["device"], record["table"], whole_run, record["models"]


def tables(runs: list[Record]) -> str:
    """Give the tables of the docs."""
    timed = [run for run in runs if run["train_s_is_extrapolated"]]
    rows = {
        "models at once": ("models", ".0f"),
        "compilation of all three stages, s": ("compile_s", ".1f"),
        "stage 1, s": ("stage1_s", ".1f"),
        "a step of stage 2, ms": ("stage2_ms", ".2f"),
        "a step of stage 3, ms": ("stage3_ms", ".1f"),
        "an update of the inflation, every tenth step, ms": ("stage3_sksd_ms", ".0f"),
        "whole training, extrapolated, s": ("train_s", ".0f"),
        "rows filled per second, 20 chains": ("rows_per_s_20", ",.0f"),
        "rows filled per second, 1000 chains": ("rows_per_s_1000", ",.0f"),
        "gradients per second": ("gradients_per_s", ",.0f"),
        "large products of float32 matrices, Gflop/s": ("sgemm_gflops", ",.0f"),
        "share of that rate in filling": ("share_of_sgemm", ".0%"),
        "peak memory, MB": ("peak_mb", ",.0f"),
    }
    lines = ["| | " + " | ".join(f"{_where(run)}, {run['table']}" for run in timed) + " |"]
    lines.append("|---" * (1 + len(timed)) + "|")
    for label, (key, form) in rows.items():
        lines.append(f"| {label} | " + " | ".join(format(run[key], form) for run in timed) + " |")
    whole_runs = [run for run in runs if not run["train_s_is_extrapolated"]]
    if whole_runs:
        lines += ["", "Whole trainings, measured, compilation included:", ""]
        lines += ["| machine | table | models at once | seconds |", "|---|---|---|---|"]
    for run in whole_runs:
        seconds = f"{run['train_s']:.0f}"
        lines.append(f"| {_where(run)} | {run['table']} | {run['models']} | {seconds} |")
    return "\n".join(lines)


def _where(run: Record) -> str:
    return f"{run['cores']} CPU cores" if run["device"] == "cpu" else run["device"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="boston", choices=sorted(PUBLISHED))
    parser.add_argument("--models", type=int, default=1, help="Folds trained at once.")
    parser.add_argument("--whole", action="store_true", help="Train to the end.")
    parser.add_argument("--json", type=Path, help="Where to write the figures.")
    parser.add_argument("--collect", type=Path, nargs="+", help="Files to put into the results.")
    options = parser.parse_args()
    if options.collect:
        collect(options.collect)
        return
    run = whole if options.whole else measure
    record = about_the_machine(run(options.table, options.models))
    text = json.dumps(record, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
