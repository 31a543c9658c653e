"""Tables that many processes fill, on one machine or on several, by Ray.

A worker is one process of one core: it loads the model once and compiles once. Where it is lost,
another takes its place, and what it had not finished is done again.
"""

import contextlib
import logging
import os
import socket
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hhvaem.containers import shown
from hhvaem.errors import InputError
from hhvaem.files import as_path, told
from hhvaem.many import TRIES, Job, Outcome
from hhvaem.parts import alike, by_name, check_columns, replaced, rows_of_a_part

if TYPE_CHECKING:
    from ray.data import Dataset

_REACHED = 5.0  # seconds in which an address must answer
_CALLED = 10.0  # seconds in which it must answer to a call of Ray's own
# Ray speaks HTTP/2, where both sides begin with a frame of settings (RFC 9113, section 3.4).
_SETTINGS = b"\4"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
# Ray starts workers again without end, and would do so with rows that kill each of them.
_TRIES = 4


def impute(
    dataset: "Dataset",
    model: Any,
    *,
    posterior: str | None = None,
    draws: int | None = None,
    workers: int | None = None,
) -> "Dataset":
    """Fill the holes of a dataset of Ray: numbers with their mean, levels with the likeliest.

    Each row is what `Imputer.transform` makes of it, on machines of the same kind to the bit, in
    whatever blocks the dataset is. As all of a dataset's transformations, this one runs when its
    rows are asked for. Columns that the model does not know are passed through.

    Parameters
    ----------
    dataset
        With the columns that `fit` saw, in any order.
    model
        A fitted `Imputer`, or the path of a file that its `save` wrote. It travels as that file.
    posterior, draws
        As for `Imputer.transform`.
    workers
        How many processes, of one core each; None for as many as Ray has cores less one, which
        reads.

    Returns
    -------
    ray.data.Dataset
        With the same columns and types.

    Raises
    ------
    InputError
        Where the dataset is none or lacks columns, the model fills no holes, or Ray has fewer
        cores.

    Examples
    --------
    >>> import ray.data
    >>> from hhvaem import Imputer
    >>> from hhvaem.distributed import connected, impute
    >>> table = pa.table({"unit": ["kg", None, "kg"]})  # of which there is little to learn
    >>> imputer = Imputer().fit(table)
    >>> with connected(cores=1):
    ...     impute(ray.data.from_arrow(table), imputer).take_all()
    [{'unit': 'kg'}, {'unit': 'kg'}, {'unit': 'kg'}]
    """
    columns = _columns_of(dataset)
    content, imputer = _read(model)
    names = imputer.schema_.names
    check_columns("The dataset", columns, names, names)
    # Of no rows, which tells what is wrong with the rest.
    imputer.transform(pa.table(dict.fromkeys(names, pa.nulls(0))), posterior=posterior, draws=draws)
    count, cores = _count_workers(workers, spare=1)
    return dataset.map_batches(
        _Rows,
        fn_constructor_args=(content, posterior, draws),
        batch_size=rows_of_a_part(None, len(imputer.schema_)),
        batch_format="pyarrow",
        # With a share of a core for each, the one that reads need not wait for them.
        num_cpus=min(1.0, (cores - 1) / count),
        compute=_pool(count),
    )


@contextlib.contextmanager
def connected(address: str | None = None, *, cores: int | None = None) -> Iterator[None]:
    """Start Ray on this machine, or reach it at an address, until all is done.

    Ray sends no statistics and shows no page of its own where it is started here, and neither
    logs nor bars. Where this process has it already, it stays as it is.

    Parameters
    ----------
    address
        Where Ray runs, as in `10.0.0.5:6379`; None to start it on this machine.
    cores
        How many of this machine; None for all.

    Raises
    ------
    InputError
        Where nothing answers at the address, or something that is not Ray.
    """
    # Read where processes of Ray are started.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # It warns of how it starts the workers of its own datasets.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    if address is not None:
        _check_answers(address)
    local = {"num_cpus": cores, "include_dashboard": False}
    try:
        with _silenced(), warnings.catch_warnings():
            # JAX warns of forks, but what Ray forks runs another program at once.
            warnings.filterwarnings("ignore", r"os\.fork", RuntimeWarning)
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({} if address else local),
            )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = f"at {address} cannot be reached" if address else "cannot be started"
        raise InputError(f"Ray {where}: {_line(error)}") from error
    try:
        import ray.data  # which says how it logs

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield
    finally:
        ray.shutdown()


def filled_blocks(
    job: Job, numbers: Sequence[int], model: Path, *, workers: int | None
) -> Iterator[Outcome]:
    """Fill blocks of a job by workers that all see its files, and tell of each when it is done.

    Nothing is done before the first is asked for.

    Parameters
    ----------
    job, numbers
        Whose blocks, and which.
    model
        The file of the model.
    workers
        How many processes; None for as many as Ray has cores.

    Raises
    ------
    InputError
        Where Ray has fewer cores, or breaks down.
    """
    import ray.data

    count, _ = _count_workers(workers, spare=0)
    # One row for each block, so that each is a task of its own.
    items = [{"block": number} for number in numbers]
    done = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        _Blocks,
        fn_constructor_args=(_content(model), job),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=1,
        compute=_pool(min(count, len(items))),
    )
    return _outcomes(done)


def _outcomes(done: "Dataset") -> Iterator[Outcome]:
    from ray.exceptions import RayError

    try:
        for row in done.iter_rows():
            yield Outcome.from_json(row["outcome"])
    except RayError as error:
        raise InputError(
            f"Ray has stopped: {_line(error)} The same command goes on with what is absent."
        ) from error


class _Rows:
    """A worker that fills batches of a dataset."""

    def __init__(self, content: bytes, posterior: str | None, draws: int | None) -> None:
        _stay_on_one_core()
        self._imputer = _loaded(content)
        self._how = {"posterior": posterior, "draws": draws}

    def __call__(self, batch: pa.Table) -> pa.Table:
        full = self._imputer.transform(batch.select(self._imputer.schema_.names), **self._how)
        filled = replaced(batch, full)
        # A batch may have no known cell where others have some, and all are to be of one type.
        kinds = [
            new.type if pa.types.is_null(old.type) else old.type
            for old, new in zip(batch.schema, filled.schema, strict=True)
        ]
        return alike(filled, pa.schema(zip(batch.column_names, kinds, strict=True)))


class _Blocks:
    """A worker that fills blocks of files, and writes them."""

    def __init__(self, content: bytes, job: Job) -> None:
        _stay_on_one_core()
        self._imputer = _loaded(content)
        self._job = job

    def __call__(self, batch: pa.Table) -> pa.Table:
        done = map(self._filled, batch.column("block").to_pylist())
        return pa.table({"outcome": [outcome.to_json() for outcome in done]})

    def _filled(self, number: int) -> Outcome:
        tries = _tries_of(self._job, number)
        with told(tries, "written"), tries.open("ab") as file:
            file.write(b".")
        if tries.stat().st_size > _TRIES:
            outcome = _deadly(self._job, number)
        else:
            outcome = self._job.fill(self._imputer, number)
        tries.unlink(missing_ok=True)
        return outcome


def _tries_of(job: Job, number: int) -> Path:
    """Give the file in which workers count how often they have begun a block."""
    out = job.blocks[number].out
    return out.with_name(TRIES.replace("*", out.name))


def _deadly(job: Job, number: int) -> Outcome:
    block = job.blocks[number]
    return Outcome(
        number,
        error=f"{block.input.path} has ended {_TRIES} workers at its rows from {block.start}, as "
        "where memory is short; try fewer --rows-at-once.",
    )


def _stay_on_one_core() -> None:
    """Keep to the core that Ray has counted; before JAX is there, which looks once."""
    os.environ.update({"NPROC": "1", "JAX_PLATFORMS": "cpu"})


def _pool(workers: int) -> Any:
    from ray.data import ActorPoolStrategy

    # None waits behind another while a worker is free.
    return ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1)


def _count_workers(asked: int | None, *, spare: int) -> tuple[int, int]:
    """Give how many workers there are to be, and how many cores Ray has."""
    from hhvaem.checks import check_count  # here, since JAX comes with it

    cores = int(_ray().cluster_resources().get("CPU", 0))
    if asked is None:
        return max(cores - spare, 1), cores
    check_count("workers", asked, 1)
    if asked > cores:
        raise InputError(f"Ray has {cores} cores, which is too few for {asked} workers.")
    return asked, cores


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Show nothing of what is written beneath Python: there, Ray tells how it was told to log."""
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _check_answers(address: str) -> None:
    """Refuse an address at which nothing answers as Ray does; Ray itself would try for minutes."""
    no_address = f"{shown(address)} is no address of Ray; give one such as 10.0.0.5:6379."
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(no_address)
    if host.startswith("[") and host.endswith("]"):  # as IPv6 is written before a port
        host = host[1:-1]
    try:
        with socket.create_connection((host, int(port)), _REACHED) as connection:
            connection.sendall(_GREETING)
            answer = connection.recv(9, socket.MSG_WAITALL)
    except ValueError as error:  # of names that no host has, such as 10..0.5
        raise InputError(no_address) from error
    except (OSError, OverflowError) as error:
        raise InputError(f"Ray at {address} cannot be reached: {_line(error)}") from error
    if answer[3:4] != _SETTINGS or not _answers_a_call(address):
        raise InputError(f"What answers at {address} is not Ray; give the address of its head.")


def _answers_a_call(address: str) -> bool:
    """Say whether what speaks HTTP/2 answers as Ray does in time; other programs speak it, too.

    Raises
    ------
    InputError
        Where it answers that it cannot.
    """
    raylet = _ray()._raylet  # nothing public asks for an answer within a time
    failed: list[Exception] = []

    def call() -> None:
        try:
            raylet.GcsClient(address=address)
        except Exception as error:
            failed.append(error)

    # Ray gives up by itself, but after half a minute.
    calling = threading.Thread(target=call, daemon=True)
    with _silenced():
        calling.start()
        calling.join(_CALLED)
    if failed:
        raise InputError(f"Ray at {address} cannot be reached: {_line(failed[0])}") from failed[0]
    return not calling.is_alive()


def _columns_of(dataset: Any) -> list[str]:
    """Give the names of the columns of a dataset of Ray.

    Raises
    ------
    InputError
        Where it is none, or has none.
    """
    _ray()
    from ray.data import Dataset

    if not isinstance(dataset, Dataset):
        raise InputError(
            f"The dataset must be one of Ray, and not of type {type(dataset).__name__}; make it "
            "one, as with ray.data.from_arrow or ray.data.read_parquet."
        )
    schema = dataset.schema()
    if schema is None:
        raise InputError("The dataset is empty and has no columns; give one that has some.")
    return list(schema.names)


def _read(model: Any) -> tuple[bytes, Any]:
    """Give a model as it stands in a file, and ready for use.

    Raises
    ------
    InputError
        Where it is none that fills the holes of tables.
    """
    from hhvaem import Imputer, load  # here, since JAX comes with it

    if isinstance(model, str | os.PathLike):
        path = as_path(model)
        content = _content(path)
        imputer = load(path)  # which names it where it is no model
    elif isinstance(model, Imputer):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.hhvaem")
            model.save(path)
            content, imputer = _content(path), load(path)
    else:
        raise InputError(
            f"The model must be a fitted Imputer, or the path of a file that its `save` wrote, and "
            f"not {shown(model)}."
        )
    if not isinstance(imputer, Imputer):
        raise InputError(f"This is a {type(imputer).__name__}, which fills no holes of tables.")
    return content, by_name(imputer)


def _content(path: Path) -> bytes:
    with told(path, "read"):
        return path.read_bytes()


def _loaded(content: bytes) -> Any:
    from hhvaem import load  # here, where a worker has said how many cores JAX may use

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.hhvaem")
        path.write_bytes(content)
        return by_name(load(path))


def _line(error: Exception) -> str:
    """Give the first line of what an error says, as a sentence."""
    said = getattr(error, "strerror", None) or str(error)
    first = next(iter(said.strip().splitlines()), type(error).__name__)
    return f"{first.rstrip('.')}."


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("Ray is not installed; `pip install 'hhvaem[ray]'`.") from error
    return ray
