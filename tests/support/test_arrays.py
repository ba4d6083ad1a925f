import numpy as np
import pytest

from placewright.support.arrays import sorted_unique


@pytest.mark.parametrize("values", [[], [3], [2, 2], [5, 1, 5, -2, 1]])
def test_sorted_unique_is_that_of_numpy(values: list[int]) -> None:
    array = np.array(values, np.int32)
    assert sorted_unique(array).tolist() == np.unique(array).tolist()
    assert sorted_unique(array).dtype == np.int32
