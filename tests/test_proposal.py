"""Refusals of a proposal and of the search that draws from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import placewright._core as _core
from placewright.lab.peers.brkga import Brkga
from placewright.proposal import Proposal
from placewright.support.errors import InputError


def proposal_of(alpha: object = (1.0, 2.0), beta: object = (3.0, 4.0), row: object = (0, 1, 1)) -> Proposal:
    return Proposal(alpha=np.array(alpha), beta=np.array(beta), row=np.array(row))


@pytest.mark.parametrize("row_type", [np.uint8, np.uint16, np.int64, np.uint64])
def test_rows_are_integers_of_any_width(row_type: type[np.integer]) -> None:
    assert proposal_of(row=np.array([1, 0], row_type)).row.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"alpha": [1.0]}, "alpha and beta of one length"),
        ({"row": [[0]]}, "one row number per key"),
        ({"row": [0.0, 1.0]}, "row numbers of type float64, not integers"),
        ({"row": [True, False]}, "row numbers of type bool, not integers"),
        ({"row": [0, -1]}, "names distribution -1, but has 2"),
        ({"row": [0, 2]}, "names distribution 2, but has 2"),
        ({"alpha": [1.0, 0.0]}, "alpha 0, outside 0.001 to 1,000,000"),
        ({"alpha": [1.0, 0.9e-3]}, "alpha 0.0009, outside"),
        ({"beta": [1.1e6, 1.0]}, r"beta 1.1e\+06, outside"),
        ({"beta": [-1.0, 1.0]}, "beta -1, outside"),
        ({"beta": [np.nan, 1.0]}, "beta nan, outside"),
        ({"alpha": [np.inf, 1.0]}, "alpha inf, outside"),
    ],
)
def test_what_is_no_proposal_is_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        proposal_of(**wrong)


def test_a_row_number_of_16_bits_tells_65536_distributions_apart() -> None:
    most = np.ones(65_536)
    assert len(proposal_of(alpha=most, beta=most, row=[65_535]).alpha) == 65_536
    with pytest.raises(InputError, match="65,537 distributions; 65,536 is the most"):
        proposal_of(alpha=np.ones(65_537), beta=np.ones(65_537))


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("beta", [1e-3, 1.0, 1e6])
def test_the_core_draws_accurately_up_to_the_limits_of_the_parameters(alpha: float, beta: float) -> None:
    proposal_of(alpha=[alpha], beta=[beta], row=[0])
    uniforms = np.linspace(0, 1, 2000, endpoint=False)
    tables = _core.BetaTables(np.array([alpha]), np.array([beta]))
    keys = tables.draw(0, (uniforms * 2**32).astype(np.uint32)) / 2**32
    # Linear between 1,025 quantiles: off by less than one step of them; a key stands for all below the next.
    assert np.all(stats.beta.cdf(keys, alpha, beta) < uniforms + 1 / 1024)
    assert np.all(stats.beta.cdf(keys + 2**-32, alpha, beta) > uniforms - 1 / 1024)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"populations": 0}, "0 populations cannot evolve"),
        ({"exchange_interval": 0}, "every 0 generations"),
        ({"exchanged": -1}, "-1 exchanged"),
        # 100 - 20 elites leave room for 80; 41 from each of two others are 82.
        ({"populations": 3, "exchanged": 41}, "41 exchanged among 3 populations do not fit .* where 80"),
    ],
)
def test_populations_that_cannot_trade_are_refused(wrong: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Brkga(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("right", [{"populations": 3, "exchanged": 40}, {"populations": 1, "exchanged": 1000}])
def test_what_fits_beside_the_elites_or_is_never_traded_is_accepted(right: dict[str, int]) -> None:
    assert Brkga(**right).exchanged == right["exchanged"]  # type: ignore[arg-type]
