"""Training of members that is to end in time."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np

from hhvaem import train
from hhvaem.compiling import apart, cores, together
from hhvaem.held_out import Held

T = TypeVar("T")


def train_in_time(
    states: train.State,
    data: train.Data,
    settings: train.Settings,
    *,
    held: Held | None,
    feed: train.Feed | None,
    max_seconds: float | None,
    fewer: bool,
    snapshots: Path | None,
    progress: Callable[[train.Progress], None] | None,
) -> tuple[train.State, train.History]:
    """Train members, all of them or `fewer` if time is short.

    A processor trains as many at a time as it has cores. With a limit of time, those come first,
    and others follow as long as there is time: a few models that were trained to their end are
    better than all of them half-trained.
    """
    if max_seconds is None or not fewer or len(apart(data)) == 1:
        return train.train(
            states,
            data,
            settings,
            held=held,
            feed=feed,
            max_seconds=max_seconds,
            snapshots=snapshots,
            progress=progress,
        )
    started, count = time.monotonic(), len(states.step)
    found: list[tuple[train.State, train.History]] = []
    longest, whole = 0.0, True
    for first in range(0, count, cores()):
        own, begun = slice(first, min(first + cores(), count)), time.monotonic()
        left = max_seconds - (begun - started)
        if found and (left < longest or not whole):
            break
        trained = train.train(
            *some_models((states, data), own),
            settings,
            held=some_models(held, own),
            feed=None if feed is None else feed._replace(load=partial(_loaded, feed, own)),
            max_seconds=left,
            snapshots=None if snapshots is None else snapshots / f"member-{first}",
            progress=None if progress is None else partial(_shared, progress, own, count, settings),
        )
        longest = max(longest, time.monotonic() - begun)
        whole = int(trained[0].step[0]) == settings.steps
        if whole or not found:
            found.append(trained)
    histories = [history for _, history in found]
    told = train.History(*(np.concatenate(part) for part in zip(*histories, strict=True)))
    return together([states for states, _ in found]), told


def some_models(models: T, own: slice) -> T:
    """Take some of several models."""
    arrays, rest = eqx.partition(models, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[own], arrays), rest)


def _loaded(feed: train.Feed, own: slice, turn: int) -> train.Data:
    return some_models(feed.load(turn), own)


def _shared(
    report: Callable[[train.Progress], None],
    own: slice,
    count: int,
    settings: train.Settings,
    progress: train.Progress,
) -> None:
    """Report progress of some members, where all together have as many steps as one."""
    before, size = own.start / count, (own.stop - own.start) / count
    report(progress._replace(step=int(before * settings.steps + size * progress.step)))
