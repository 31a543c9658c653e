"""Servers within this process, and one small model for all of their tests."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from servers import ADDRESS, connected

from hhvaem import Regressor, TableWarning
from hhvaem.example import clinic
from hhvaem.web.house import Settings
from hhvaem.web.models import served


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let notes about tables be notes: a server leaves them out of its log.

    And FastAPI leaves a note of pydantic out while it makes a server; threads of another server,
    which leave others out meanwhile, take that back.
    """
    notes = "hhvaem.errors.TableWarning", "pydantic.warnings.UnsupportedFieldAttributeWarning"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for note in notes:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{note}"))


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of glucose that was trained for a moment."""
    table = clinic(rows=300)
    model = Regressor(preset="fast", max_steps=200, random_state=0)
    glucose = table.select(["glucose"]).to_pandas()["glucose"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # it has learned little
        model.fit(table.drop_columns(["glucose"]), glucose)
    path = tmp_path_factory.mktemp("models") / "glucose.hhvaem"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def client(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A browser at a server that has a model."""
    keep = tmp_path_factory.mktemp("kept") / "models"
    with connected(Settings(keep=keep, served=served(model_file))) as browser:
        yield browser


@pytest.fixture
def other(client: TestClient) -> TestClient:
    """Another browser at the same server."""
    return TestClient(client.app, base_url=ADDRESS)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[TestClient]:
    """A browser at a server of its own, without a model."""
    with connected(Settings(keep=tmp_path / "models")) as browser:
        yield browser
