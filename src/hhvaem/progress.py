"""A progress bar of training."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hhvaem import train


@contextlib.contextmanager
def training_bar(
    steps: int, console: Console | None = None
) -> Iterator[Callable[[train.Progress], None]]:
    """Show a bar with the stage, the loss, the acceptance of chains and the time left."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
    ) as bar:
        task = bar.add_task("Training", total=steps, told="compiling")

        def report(progress: train.Progress) -> None:
            told = f"{progress.step}/{steps} steps, loss {progress.loss:.3f}"
            if progress.stage == 3:
                told += f", acceptance {progress.acceptance:.2f}"
            bar.update(task, completed=progress.step, told=told)

        yield report
        if not bar.tasks[task].completed:
            bar.update(task, told="nothing was left to do")
        bar.update(task, completed=steps)
