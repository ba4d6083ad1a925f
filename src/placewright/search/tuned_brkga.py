"""BRKGA with the settings a grid search found best on synthetic training graphs (Paliwal et al. 2020, A.10)."""

from __future__ import annotations

from placewright.search.brkga import Brkga

#: The best of the paper's kind of grid, 72 settings with nine Beta distributions each, on 200 training graphs: 1.7%
#: better than BRKGA's defaults there, and the Beta matters in one result of 800 (benchmarks/tune_brkga.py and
#: benchmarks/results/tuned_brkga.csv). The paper reports 3.1% on its test graphs and not which setting.
TUNED_BRKGA = Brkga(name="tuned-brkga", population=60, elites=21, mutants=5)
