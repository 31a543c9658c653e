"""Run the paper's experiments with images on one GPU, in pieces that can be stopped and go on.

    HHVAEM_DATA=folder python benchmarks/images.py --minutes 8   # the next piece of the work
    HHVAEM_DATA=folder python benchmarks/images.py --only speed  # steps a second, and the GPU
    python benchmarks/images.py --list                           # what there is to do

Each piece of work is a `hhvaem paper` command in a process of its own, in the order of what is most
wanted. Pieces end by themselves when the minutes are over; the same call then goes on from their
snapshots (`--work`). What is in results/paper already is not run again. `--at-once` lets several
share the GPU: batches of a hundred small images leave most of it idle. `--quick` tries everything
out with few images and steps, also on a processor, in a folder of its own.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
MAIN = "from hhvaem.cli import main; main()"
# Seconds that a process has after its minutes, to end the chunk of steps or the test it is in.
GRACE = 60.0
SETS = ("mnist", "fashion_mnist")
# Dense float32 products of an H200 outside of its matrix units, which full precision does not use,
# and by its matrix units with factors of ten bits (TF32): operations a second, from its data sheet.
RATES = {"float32": 67e12, "tf32": 494e12}
# What a command that is to go on has for a status here, and what a log has where one begins.
UNFINISHED, BEGINS = -1, "--- begins"
# Chains of the measurement of sampling: images times chains of each.
CHAINS = (16, 1000)


def jobs(given: argparse.Namespace, *, later: bool) -> dict[str, list[str]]:
    """Give the commands by name, in the order in which they are begun.

    Those that are for `later` take up trainings that the others leave.
    """
    paper, work = str(given.out), str(given.work)
    common = ["--out", paper, "--work", work, *(["--quick"] if given.quick else [])]

    def images(name: str, model: str, splits: int) -> list[str]:
        asked = ["--data", name, "--models", model, "--splits", str(splits)]
        return ["images", *asked, "--draws", str(given.draws), *common]

    if later:
        found = {f"{s}-{m}-folds": images(s, m, 3) for s in SETS for m in ("HH-VAE", "VAE")}
        return found | {f"{s}-inpainting": ["inpainting", "--data", s, *common] for s in SETS}
    # Those with chains first: their tests take the longest.
    first = ("HH-VAE", "HMC-VAE", "VAE", "H-VAE", "MIWAE")
    found = {f"{s}-{m}": images(s, m, 1) for m in first for s in SETS}
    decayed = ("VAE", "H-VAE", "HMC-VAE", "HH-VAE")
    found |= {
        f"{s}-{m}-decay": images(s, f"{m} with weight decay", 1) for m in decayed for s in SETS
    }
    # Faces are not to be passed on: their figure stays out of the folder of results.
    faces = ["--out", str(given.faces), *common[2:]]
    return found | {"celeba-inpainting": ["inpainting", "--data", "celeba", *faces]}


def run(given: argparse.Namespace, ends: float, name: str, command: list[str]) -> int:
    """Run one of the commands until the minutes are over; give its exit status, or `UNFINISHED`."""
    left = ends - time.monotonic()
    if left < GRACE:
        print(f"{name} waits for the next call", flush=True)
        return UNFINISHED
    env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    print(f"{name} begins, {left:.0f} s left", flush=True)
    log = given.logs / f"{name}.log"
    with log.open("a") as file:
        file.write(f"{BEGINS}\n")
        file.flush()
        try:
            told = subprocess.run(
                [sys.executable, "-c", MAIN, "paper", *command, "--minutes", f"{left / 60:.2f}"],
                env=env, stdout=file, stderr=subprocess.STDOUT, check=False, timeout=left + GRACE,
            )  # fmt: skip
            status = told.returncode
        except subprocess.TimeoutExpired:
            status = UNFINISHED  # killed: it goes on from its snapshot
    if status == 0 and "Time is up" in log.read_text().rsplit(BEGINS, 1)[-1]:
        status = UNFINISHED
    words = {0: "ends", UNFINISHED: "goes on in the next call"}
    print(f"{name} {words.get(status, f'failed with status {status}: {log}')}", flush=True)
    return status


def speed(given: argparse.Namespace) -> dict[str, Any]:
    """Measure steps of training and gradients of chains, with and without lower precision."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from hhvaem import posterior, train
    from hhvaem.paper.image_sets import PUBLISHED_IMAGES, Pile, target_law
    from hhvaem.paper.image_testing import first_model
    from hhvaem.paper.images import configured
    from hhvaem.paper.records import versions
    from hhvaem.pixels import Pixels
    from hhvaem.posterior import How

    published = PUBLISHED_IMAGES["mnist"]
    rng = np.random.default_rng(0)
    count = 500 if given.quick else 54_000
    pixels = (rng.random((count, published.pictures.pixels)) < 0.2).astype(np.float32)
    labels = rng.integers(10, size=(count, 1)).astype(np.float32)
    pile = Pile(pixels, labels, np.ones(pixels.shape, bool), np.ones(labels.shape, bool))
    found: dict[str, Any] = {"device": jax.devices()[0].device_kind, "versions": versions()}
    for model in ("VAE", "HH-VAE"):
        layers, settings = configured(published, model)
        steps, hmc_steps = (4, 2) if given.quick else (800, 300)
        settings = dataclasses.replace(settings, steps=steps, hmc_steps=hmc_steps)
        columns = jax.tree.map(lambda x: x[None], (Pixels.fit(pixels, pile.mask), target_law(pile)))
        states = train.untrained(
            columns, layers, settings, hidden=published.hidden, pictures=published.pictures,
            keys=jax.random.split(jax.random.key(0), 1),
        )  # fmt: skip
        data = train.gather([pile.rows()])
        seconds: list[tuple[int, float]] = []

        def tell(told: train.Progress, kept: list[tuple[int, float]] = seconds) -> None:
            kept.append((told.stage, time.monotonic()))

        states, _ = train.train(states, data, settings, progress=tell)
        for stage in (2, 3):
            ends = [when for which, when in seconds if which == stage]
            if len(ends) > 1:
                # The first chunk of steps compiles.
                rate = train.CHUNK * (len(ends) - 1) / (ends[-1] - ends[0])
                found[f"{model}_stage_{stage}_steps_per_second"] = round(rate, 1)
    one = first_model(states.model)
    sampler = jax.tree.map(lambda x: x[0], states.sampler)
    images, chains = (2, 10) if given.quick else CHAINS
    rows = pile.rows(np.arange(images))
    rows = rows._replace(mask=jnp.asarray(rng.random((images, published.pictures.pixels)) < 0.5))
    how = How("hmc", chains=chains, kept=1)
    operations = 2 * _products(published)
    gradients = images * chains * (len(sampler.log_steps) * how.leapfrog + 1)
    for name, precision in (("float32", "highest"), ("tf32", "tensorfloat32")):

        def drawn(key: Any, precision: str = precision) -> Any:
            with jax.default_matmul_precision(precision):
                keys = jax.random.split(key, images)
                return jax.vmap(
                    lambda row, key: posterior.draw(one, sampler, one.see(row), how, key=key)
                )(rows, keys)

        took = _seconds(jax.jit(drawn), 1 if given.quick else 5)
        # A gradient is a pass forwards and one backwards.
        rate = gradients / took
        found[f"sampling_{name}"] = {
            "gradients_per_second": round(rate),
            "operations_per_second": round(2 * operations * rate),
            "share_of_rate": round(2 * operations * rate / RATES[name], 4),
            "seconds_for_10000_images_of_1000_chains": round(
                1e7 * (len(sampler.log_steps) * how.leapfrog + 1) / rate, 1
            ),
        }
    return found


def _products(published: Any) -> int:
    """Give the multiplications of one pass through decoder and prior network of HH-VAE."""
    shapes = published.pictures.shapes
    first, second = published.two_layers
    hidden = published.hidden
    total = second * hidden + hidden * 2 * first + first * hidden
    size = shapes[-1][0] * shapes[-1][1] * shapes[-1][2]
    total += hidden * size
    for stage, below, above in zip(published.pictures.stages, shapes, shapes[1:], strict=False):
        total += above[0] * above[1] * above[2] * stage.kernel**2 * below[2]
    return int(total)


def _seconds(function: Callable[[Any], Any], times: int) -> float:
    """Give the seconds of a call, once it is compiled."""
    import jax

    function(jax.random.key(0)).positions.block_until_ready()
    began = time.monotonic()
    for i in range(times):
        function(jax.random.key(i)).positions.block_until_ready()
    return (time.monotonic() - began) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.0, help="of the whole call")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", default="", help="what the names of pieces have in them")
    parser.add_argument("--out", type=Path, default=RESULTS / "paper")
    parser.add_argument("--work", type=Path, default=Path("images-work"))
    parser.add_argument("--faces", type=Path, default=Path("faces"))
    parser.add_argument("--logs", type=Path, default=Path("logs"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    ends = time.monotonic() + 60 * given.minutes - GRACE
    if given.quick:
        folder = Path(tempfile.mkdtemp())
        given.out, given.work, given.faces = folder / "paper", folder / "work", folder / "faces"
        print(f"Everything goes into {folder}")
    phases = [
        {name: job for name, job in jobs(given, later=later).items() if given.only in name}
        for later in (False, True)
    ]
    if given.list:
        print("\n".join(["speed", *phases[0], *phases[1]]))
        return
    given.logs.mkdir(parents=True, exist_ok=True)
    if given.only == "speed":
        given.out.mkdir(parents=True, exist_ok=True)
        found = speed(given)
        (given.out / "image-speed.json").write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found, indent=1))
        return
    for wanted in phases:
        with ThreadPoolExecutor(given.at_once) as pool:
            codes = list(pool.map(partial(run, given, ends), wanted, wanted.values()))
        if any(codes):
            sys.exit(max(*codes, 0))


if __name__ == "__main__":
    main()
