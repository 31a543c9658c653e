"""docs/reference.md, made of the docstrings: `python tests/reference.py` writes it anew."""

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hhvaem

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"


def reference() -> str:
    """Write the page."""
    parts = ["# Reference", "The public names of `hhvaem`, from their docstrings."]
    for name in sorted(dir(hhvaem)):
        value = getattr(hhvaem, name)
        ours = getattr(value, "__module__", None) or ""
        if name[0] != "_" and callable(value) and ours.startswith("hhvaem."):
            parts += [f"## {name}", _entry(name, value)]
            for method, function in _methods(value):
                parts += [f"### {name}.{method}", _entry(method, function)]
    return "\n\n".join(parts) + "\n"


def _methods(value: Any) -> Iterator[tuple[str, Any]]:
    """Give the methods that a class has from this package, its own before inherited ones."""
    if inspect.isclass(value):
        for base in value.__mro__:
            if base.__module__.startswith("hhvaem."):
                for name, function in vars(base).items():
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
        if parameter.name != "self"
    ]
    plain = found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return "\n".join(textwrap.wrap(f"{name}{plain}", 96, subsequent_indent="    "))


if __name__ == "__main__":
    PAGE.write_text(reference())
