"""BRKGA with the settings a grid search found best on synthetic training graphs (Paliwal et al. 2020, A.10)."""

from __future__ import annotations

from placewright.search.brkga import Brkga

#: The best of 72 settings (69 distinct ones, shares being rounded) on 200 training graphs: 1.7% better than BRKGA's
#: defaults there (benchmarks/tune_brkga.py, benchmarks/results/tuned_brkga.csv). With the nine Beta distributions that
#: make 648 settings of them, run on the first 22 graphs, one result in 800 changes. The paper reports 3.1% on its test
#: graphs and not which setting.
TUNED_BRKGA = Brkga(name="tuned-brkga", population=60, elites=21, mutants=5)
