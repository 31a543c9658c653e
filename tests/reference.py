"""docs/reference.md, made of the docstrings: `python tests/reference.py` writes it anew."""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hhvaem

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
# What users call or are given that is not in `hhvaem` itself, by module.
DEEPER = {
    "hhvaem.acquire.session": ["Told", "Explanation"],
    "hhvaem.acquire.policy": [
        "Question", "Prediction", "Standing",
        "budget", "worth", "confident", "decided", "at_most", "at_least",
    ],
    "hhvaem.acquire.rollout": ["roll_out", "Rollout"],
    "hhvaem.acquire.afabench": ["Acquirer"],
    "hhvaem.distributed": ["impute", "connected"],
}  # fmt: skip


def reference() -> str:
    """Write the page."""
    parts = [
        "# Reference",
        "The public names of `hhvaem`, and behind them those of `hhvaem.acquire` that "
        "[asking](ask.md) takes or gives and those for [Ray](scale.md), from their docstrings.",
    ]
    for name in sorted(dir(hhvaem)):
        value = getattr(hhvaem, name)
        ours = getattr(value, "__module__", None) or ""
        if name[0] != "_" and callable(value) and ours.startswith("hhvaem."):
            parts += _described(name, name, value)
    for module, names in DEEPER.items():
        for name in names:
            parts += _described(
                f"{module}.{name}", name, getattr(importlib.import_module(module), name)
            )
    return "\n\n".join(parts) + "\n"


def _described(title: str, name: str, value: Any) -> list[str]:
    parts = [f"## {title}", _entry(name, value)]
    for method, function in _methods(value):
        parts += [f"### {name}.{method}", _entry(method, function)]
    return parts


def _methods(value: Any) -> Iterator[tuple[str, Any]]:
    """Give the methods that a class has from this package, its own before inherited ones."""
    if inspect.isclass(value):
        for base in value.__mro__:
            if base.__module__.startswith("hhvaem."):
                for name, function in vars(base).items():
                    if isinstance(function, classmethod):
                        function = function.__func__
                    if name[0] != "_" and inspect.isfunction(function):
                        yield name, function


def _entry(name: str, value: Any) -> str:
    return f"```\n{_signature(name, value)}\n\n{inspect.getdoc(value) or ''}\n```"


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, Exception):
        return name
    found = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    plain = found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return "\n".join(textwrap.wrap(f"{name}{plain}", 96, subsequent_indent="    "))


if __name__ == "__main__":
    PAGE.write_text(reference())
