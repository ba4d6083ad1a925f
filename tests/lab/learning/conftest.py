"""Data to train on that several tests share."""

from pathlib import Path

import pytest

from placewright.importers.graph_set import SUFFIX, write_graph_set
from placewright.lab.datasets.synthetic import random_graph


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for split, first, count in (("train", 0, 4), ("valid", 4, 2)):
        graphs = [random_graph(0, index) for index in range(first, first + count)]
        write_graph_set(folder / f"{split}{SUFFIX}", graphs, {})
    return folder
