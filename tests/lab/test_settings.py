"""Settings of peers, placers and trainings that mean nothing are refused by name."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="learned placers have networks")

from lab.learning.networks import SMALL

from placewright.lab.learning.algorithms.ppo import Ppo
from placewright.lab.learning.egrl.settings import EvolutionSettings, GradientSettings
from placewright.lab.learning.egrl.settings import NetworkSettings as MapNetworkSettings
from placewright.lab.learning.environments.first_come import Noise
from placewright.lab.learning.gdp.settings import GdpConfiguration, NetworkSettings
from placewright.lab.learning.gdp.trainings import TRAININGS as GDP
from placewright.lab.learning.placers.colocrl import ColocRl
from placewright.lab.learning.placers.controls import AnnealedPlacement, EvolvedPlacement, RandomPlacement
from placewright.lab.learning.placers.gdp import Gdp
from placewright.lab.learning.placers.hdp import Hdp
from placewright.lab.learning.placers.placeto import Placeto
from placewright.lab.learning.placers.post import Post
from placewright.lab.learning.placers.spotlight import Spotlight
from placewright.lab.learning.regal.trainings import RegalTraining
from placewright.lab.peers.annealing import Annealing
from placewright.lab.peers.cp_sat import CpSat, CpWindows
from placewright.lab.peers.graph_partition import GP_DFS
from placewright.lab.peers.local_search import LocalSearch
from placewright.support.errors import InputError

#: Settings that are right, and by name values of one that are not, each with what else it needs to be wrong.
WRONG: list[tuple[Any, dict[str, list[Any]]]] = [
    (Annealing(), {"keys_per_move": [0, 10**7], "last_temperature": [0.0]}),
    (Annealing(), {"first_temperature": [1e-9, math.inf, math.nan]}),
    (CpSat(), {"warm_evaluations": [0], "effort": [0.0], "workers": [0]}),
    (CpWindows(), {"warm_share": [0.0, 1.0], "effort": [0.0], "total_effort": [-1.0]}),
    (GP_DFS, {"imbalance": [-0.1, 1.0, math.nan]}),
    (LocalSearch(), {"starts": [0], "device_share": [1.5, math.nan], "reach": [0, 2**31]}),
    (Post(), {"batch": [1], "elite": [0.0], "exploration": [1.0]}),
    (ColocRl(), {"samples": [0], "hidden": [7]}),
    (Spotlight(), {"samples": [0]}),
    (Hdp(), {"samples": [0], "groupings": [0], "temperature": [0.0]}),
    (Placeto(), {"samples": [0], "rounds": [0], "measurements": [-1]}),
    (Gdp(), {"samples": [1], "entropy": [-1.0]}),
    (RandomPlacement(), {"batch": [0]}),
    (EvolvedPlacement(population=9, elites=5, mutants=3), {"mutants": [4], "elite_bias": [1.0]}),
    (AnnealedPlacement(), {"longest_run": [2.0], "last_temperature": [0.0]}),
    (NetworkSettings(), {"width": [10], "memory": [129], "layers": [0]}),
    (GdpConfiguration(), {"num_devices": [65], "colocation": [("modul",)]}),
    (MapNetworkSettings(), {"width": [10]}),
    (GradientSettings(), {"replay": [10]}),
    (EvolutionSettings(), {"population": [1], "elite_share": [2], "mode": ["papr"]}),
    (Noise(), {"deviation": [-1.0, math.nan], "failures": [1.0]}),
    (GDP["2xp100"], {"samples": [1], "epochs": [0], "clip": [1.0], "entropy": [-1.0], "imitation_steps": [1]}),
    (
        RegalTraining(policy=SMALL, evaluations=500, samples=3),
        {
            **{name: [0] for name in ("steps", "batch", "samples")},
            **{name: [400] for name in ("evaluations", "validation_evaluations")},
            **{name: [-1.0] for name in ("imitation_learning_rate", "max_grad_norm", "value_weight")},
            "imitation_steps": [3],
            "expert_rounds": [-1, 2],
            "learning_rate": [0.0],
            "last_learning_rate": [0.5],
        },
    ),
]


@pytest.mark.parametrize(
    ("right", "setting", "value"),
    [
        pytest.param(right, setting, value, id=f"{type(right).__name__} {setting} {value}")
        for right, settings in WRONG
        for setting, values in settings.items()
        for value in values
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_name(right: Any, setting: str, value: Any) -> None:
    with pytest.raises(InputError, match=re.sub("_", "|", setting)):
        replace(right, **{setting: value})


@pytest.mark.parametrize(("setting", "value"), [("epochs", 0), ("clip", 1.0)])
def test_a_setting_of_ppo_that_means_nothing_is_refused_by_name(setting: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{setting} is {value}"):
        Ppo(None, **{"learning_rate": 0.1, setting: value})  # type: ignore[arg-type]


def test_a_share_of_a_population_is_a_whole_number_of_it() -> None:
    assert EvolutionSettings(population=10, boltzmann_share=0.2).num_boltzmann == 2
