"""Strictness that only tests pay for; shapes are checked by `--jaxtyping-packages` (pyproject)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest

# Most of the time of tests is compiling: files of tests and the commands that they start share all
# programs, and what is no `program` of ours is not optimised.
PROGRAMS = Path(__file__).parents[1] / ".pytest_cache" / "programs"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(PROGRAMS))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update(
    "jax_persistent_cache_min_compile_time_secs",
    float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]),
)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


# Of the 65,530 mappings that Linux allows a process; beyond them compilers crash.
MAPPINGS = 35_000


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Forget compiled programs after a file of tests, where a process has very many."""
    yield
    forget_programs()


@pytest.fixture(autouse=True)
def few_programs_of_long_tests(request: pytest.FixtureRequest) -> None:
    """Forget them also before a test that may compile as many by itself."""
    if request.node.get_closest_marker("slow"):
        forget_programs()


def forget_programs() -> None:
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MAPPINGS:
        jax.clear_caches()
        if "clinic_training" in sys.modules:  # whose tests count what is compiled
            sys.modules["clinic_training"].first_fit.cache_clear()


@pytest.fixture
def data_folder() -> Path:
    """The paper's data on this machine; tests that ask for it skip where there is none."""
    folder = os.environ.get("HHVAEM_DATA")
    if not folder:
        pytest.skip("HHVAEM_DATA is not set")
    return Path(folder)


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for derivatives by finite differences."""
    # JAX 0.7 has the context manager in `jax.experimental` only.
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable(True):
        yield


@pytest.fixture
def as_users_have_it() -> Iterator[None]:
    """Types are not checked, as outside of these tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
