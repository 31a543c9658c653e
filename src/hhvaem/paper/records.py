"""Results as files: small JSON that tables and figures are drawn from."""

import importlib.metadata
import json
import re
from typing import Any

import numpy as np

from hhvaem import __version__

PACKAGES = ("jax", "equinox", "optax", "numpy")


def rounded(values: Any, digits: int) -> Any:
    """Give numbers as JSON has them, with so many digits after the point."""
    return np.round(np.asarray(values, np.float64), digits).tolist()


def versions() -> dict[str, str]:
    """Give the versions of what results depend on."""
    others = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"hhvaem": __version__, **others}


def to_json(results: dict[str, Any]) -> str:
    """Write results as text, with each innermost list on one line."""
    text = json.dumps(results, indent=1)
    return re.sub(r"\[\s*([^][{}]*?)\s*\]", lambda x: f"[{' '.join(x[1].split())}]", text) + "\n"
