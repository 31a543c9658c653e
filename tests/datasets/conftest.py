"""What the tests of data sets share: an environment of their own."""

import jaxtyping
import pytest


@pytest.fixture(autouse=True)
def nothing_of_the_caller(request, monkeypatch, tmp_path_factory):
    """Hide the caller's data and cache from all but `data_folder`."""
    if "data_folder" in request.fixturenames:
        request.getfixturevalue("data_folder")  # reads HHVAEM_DATA, and remembers it
    monkeypatch.delenv("HHVAEM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def as_users_have_it():
    """Types are not checked, as outside of these tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
