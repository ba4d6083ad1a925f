# make demo: set-up, then the main job on a real network.   make test: all set-up, then all tests of the product.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Other people's implementations, which tests compare ours with; never dependencies of the package.
REFERENCES := anrg-saga==2.0.2 pymoo==0.6.2
CORE := $(wildcard cpp/core/*/* cpp/bindings/*) CMakeLists.txt pyproject.toml
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: FORCE demo test test-lab test-fast test-long coverage core-coverage lint package docs sanitize bench bench-against bench-quick
.PHONY: instances tables tables-real tables-stg stubs format clean

demo: $(VENV)/base
	mkdir -p out
	$(BIN)/placewright plan example:inception-v3-train --devices 2xp100 \
	  -o out/plan.json --report out/report.html --trace out/trace.json.gz
	@echo "report: $(CURDIR)/out/report.html"

# COVERAGE=1 prints beside the results which lines of the package ran, file by file.
COVERED := --cov=placewright --cov-branch --cov-report=term:skip-covered
test: $(VENV)/dev $(VENV)/system
	$(BIN)/python -m pytest -m "not long and not lab" -n 2 $(if $(COVERAGE),$(COVERED))

# Of the laboratory: learning, sets of graphs, tables, peers, maps to memory levels, and the commands for them.
test-lab: $(VENV)/dev $(VENV)/system
	$(BIN)/python -m pytest -m "lab and not long" -n 2 $(if $(COVERAGE),$(COVERED) --cov-append)

# Without torch, a browser and tests that start processes.
test-fast: $(VENV)/dev
	$(BIN)/python -m pytest -m "not long and not heavy" -n 2

# Fuzzers, a minute for each format; property tests by the hundred and the thousand.
test-long: instances $(VENV)/docs $(VENV)/system build/address/built
	$(BIN)/python -m pytest -m long
	$(BIN)/python -m pytest -m "hypothesis and not long" --hypothesis-profile thorough

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(wildcard cpp/*/*.?pp cpp/core/*/*.?pp)
	$(BIN)/python -m nanobind.stubgen -q -m placewright._core -O build/stubs
	diff -u src/placewright/_core.pyi build/stubs/_core.pyi

# What users install: sdist and wheel, in build/dist, and an empty environment that plans with the wheel.
package: $(VENV)/dev
	$(BIN)/python -m pytest tests/test_distribution.py

# The site, in build/site: it needs no network to be read. A warning is an error; then its links are followed.
docs: $(VENV)/docs
	$(BIN)/python -m pytest -m long tests/test_site.py
	@echo "site: $(CURDIR)/build/site/index.html"

stubs: $(VENV)/dev
	$(BIN)/python -m nanobind.stubgen -q -m placewright._core -o src/placewright/_core.pyi

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard cpp/*/*.?pp cpp/core/*/*.?pp)

NINJA := -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja

# The core's own tests: as built for use, under the address and undefined-behaviour sanitizers, under the thread sanitizer.
# The core's benchmarks are built and run on something tiny.
sanitize: $(VENV)/python
	$(BIN)/cmake -S cpp/tests -B build/sanitize $(NINJA)
	$(BIN)/cmake --build build/sanitize
	build/sanitize/core_tests_plain
	build/sanitize/core_tests_address
	build/sanitize/core_tests_thread
	build/sanitize/benchmarks/core_speed 150 1
	build/sanitize/benchmarks/decoder_cost segment-fill step-time 10

# Which lines run: of the core in its own tests, of the package in all tests.
coverage: core-coverage
	$(MAKE) test test-lab COVERAGE=1

core-coverage: $(VENV)/python
	$(BIN)/cmake -S cpp/tests -B build/coverage $(NINJA) -DCMAKE_CXX_FLAGS="-O1 --coverage -fprofile-update=atomic"
	$(BIN)/cmake --build build/coverage --target core_tests_plain
	find build/coverage -name '*.gcda' -delete
	build/coverage/core_tests_plain
	$(BIN)/python cpp/tests/covered_lines.py build/coverage

# The core as Python loads it, under the address and undefined-behaviour sanitizers: what tests/fuzz/fuzz_core.py runs.
build/address/built: $(VENV)/python $(CORE)
	$(BIN)/cmake -S . -B build/address $(NINJA) -DCMAKE_BUILD_TYPE=Address -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	  -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) \
	  -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
	$(BIN)/cmake --build build/address
	touch $@

# The earlier commit that the core's speed is measured against, and its package in a folder of its own.
BASE ?= 93c3b0d
AGAINST := build/against/$(BASE)

$(AGAINST)/placewright/__init__.py: | $(VENV)/python
	rm -rf $(AGAINST) $(AGAINST)-source && mkdir -p $(AGAINST)-source
	git archive $(BASE) CMakeLists.txt pyproject.toml LICENSE README.md cpp src | tar -x -C $(AGAINST)-source
	$(BIN)/pip install -q --no-build-isolation --no-deps --target $(AGAINST) ./$(AGAINST)-source
	rm -rf $(AGAINST)-source

# Speed of the core: four minutes; wants a machine with nothing else to do.
bench: $(VENV)/base $(AGAINST)/placewright/__init__.py
	$(BIN)/cmake -S cpp/benchmarks -B build/bench $(NINJA) -DCMAKE_BUILD_TYPE=Release
	$(BIN)/cmake --build build/bench
	$(BIN)/python benchmarks/report.py build/bench/core_speed benchmarks/results/core_speed.md --against $(AGAINST)

# Only the ratios to the earlier commit, in two minutes.
bench-against: $(VENV)/base $(AGAINST)/placewright/__init__.py
	$(BIN)/python benchmarks/against.py $(AGAINST)

SEEDED := brkga,tuned-brkga,brkga-betas,local-search,local-search-strong,annealing,random-search,auto
GUIDED := regal,rule,idrs,gas
# Other policies: seeds of the training, a decoder, the elite bias, priorities alone, actions drawn in order (A.8).
POLICIES := benchmarks/policies
EVIDENCE := regal:runtime-synthetic-lazy$(shell printf ',regal:$(POLICIES)/%s/best.safetensors' seed-0 seed-2 elite-bias \
  scheduling autoregressive)
BUILDERS := cluster-list,cluster-partition,gp-dfs,metis-dfs,heft,cpop,insertion,m-topo,m-etf,etf,list,segment-fill,contiguous-split,single-device
TIMED := auto,brkga
RUN = $(BIN)/placewright bench run benchmarks/suites

# The tables on a few graphs, in five minutes; capturing the zoo alone takes longer.
bench-quick: $(VENV)/dev instances
	$(BIN)/placewright dataset synthetic --count 36 --seed 1 --out out/quick/synthetic
	$(BIN)/placewright bench run out/quick/synthetic/train.graphs.gz --solvers $(SEEDED) --out out/quick/made
	$(RUN)/synthetic.toml --take 100 --solvers $(SEEDED),$(BUILDERS) --evaluations 1000,5000,10000 --out out/quick/step-time
	$(RUN)/synthetic.toml --take 10 --solvers cp-sat --time-limit 10s --out out/quick/step-time
	$(RUN)/synthetic-peak-memory.toml --take 50 --solvers $(SEEDED),$(BUILDERS) --seeds 2 --out out/quick/peak-memory
	$(RUN)/synthetic-peak-memory.toml --take 4 --solvers cp-sat --time-limit 10s --out out/quick/peak-memory
	$(RUN)/zoo.toml --take 24 --solvers $(SEEDED),$(BUILDERS) --out out/quick/zoo
	$(RUN)/zoo-peak-memory.toml --take 16 --solvers $(SEEDED),$(BUILDERS) --out out/quick/zoo-peak-memory
	$(BIN)/placewright bench report out/quick/step-time out/quick/peak-memory out/quick/zoo out/quick/zoo-peak-memory \
	  --out out/quick/report

# The tables and figures in benchmarks/results/tables. Rows are kept in out/tables: killed, it goes on from there.
tables: $(VENV)/dev instances
	$(RUN)/synthetic.toml --solvers $(SEEDED),superstep-annealing,brkga-lazy,brkga-segment-fill,$(BUILDERS) --seeds 3 --out out/tables/synthetic
	$(RUN)/synthetic.toml --take 20 --solvers $(TIMED),annealing --time-limit 0.1s,1s,10s --out out/tables/synthetic
	$(RUN)/synthetic.toml --solvers $(GUIDED),rule:rule-runtime-synthetic-lazy,$(EVIDENCE) --out out/tables/synthetic
	$(RUN)/synthetic.toml --solvers regal --evaluations 1000,10000 --out out/tables/synthetic
	$(RUN)/synthetic.toml --take 200 --solvers regal --evaluations 50000 --out out/tables/synthetic
	$(RUN)/synthetic.toml --solvers brkga --evaluations 1000,10000 --seeds 3 --out out/tables/synthetic
	$(RUN)/synthetic.toml --take 200 --solvers brkga --evaluations 50000 --out out/tables/synthetic
	$(RUN)/synthetic.toml --take 20 --solvers cp-sat --time-limit 60s --out out/tables/synthetic
	$(RUN)/synthetic.toml --take 10 --solvers cp-sat-cold --time-limit 60s --out out/tables/synthetic
	$(RUN)/synthetic-signal.toml --out out/tables/synthetic-signal \
	  --solvers regal:$(POLICIES)/runtime-synthetic-signal-paper/best.safetensors,gas:$(POLICIES)/runtime-synthetic-sequence-signal-paper/best.safetensors
	for suite in synthetic-signal synthetic-transfer; do \
	  $(RUN)/$$suite.toml --solvers $(SEEDED),superstep-annealing,brkga-lazy,brkga-segment-fill,regal,rule,idrs,regal:runtime-synthetic,$(BUILDERS) \
	    --out out/tables/$$suite && \
	  $(RUN)/$$suite.toml --solvers brkga,auto --evaluations 1000,10000,50000 --out out/tables/$$suite || exit 1; done
	$(RUN)/synthetic-peak-memory.toml --solvers $(SEEDED),peak-search,$(BUILDERS) --seeds 3 --out out/tables/synthetic-peak-memory
	$(RUN)/synthetic-peak-memory.toml --take 20 --solvers $(TIMED),annealing --time-limit 0.1s,1s,10s --out out/tables/synthetic-peak-memory
	$(RUN)/synthetic-peak-memory.toml --take 10 --solvers cp-sat --time-limit 60s --out out/tables/synthetic-peak-memory
	$(RUN)/synthetic-peak-memory.toml --take 5 --solvers cp-sat-cold --time-limit 60s --out out/tables/synthetic-peak-memory
	$(RUN)/zoo.toml --solvers $(SEEDED),brkga-lazy,brkga-segment-fill,brkga-earliest-finish,$(BUILDERS) --seeds 3 --out out/tables/zoo
	$(RUN)/zoo-peak-memory.toml --solvers $(SEEDED),$(BUILDERS) --seeds 3 --out out/tables/zoo-peak-memory
	$(RUN)/zoo.toml --solvers regal,rule,idrs,regal:runtime-synthetic,regal:runtime-zoo-affinity-lazy,rule:rule-runtime-zoo-lazy --out out/tables/zoo
	$(RUN)/zoo.toml --solvers regal,brkga --evaluations 1000,10000 --out out/tables/zoo
	$(RUN)/zoo.toml --solvers brkga --evaluations 50000 --out out/tables/zoo
	$(RUN)/zoo.toml --take 74 --solvers regal --evaluations 50000 --out out/tables/zoo
	$(RUN)/zoo-16gib.toml --solvers brkga,tuned-brkga,local-search,gp-dfs,regal,rule,idrs,etf,auto --out out/tables/zoo-16gib
	$(RUN)/zoo-peak-memory.toml --solvers regal,rule,idrs,regal:peak-memory-zoo-affinity-evict,rule:rule-peak-memory-zoo-evict,brkga-evict --out out/tables/zoo-peak-memory
	$(RUN)/zoo-peak-memory.toml --solvers rule:rule-peak-memory-zoo-scheduling,rule:rule-peak-memory-libraries --out out/tables/zoo-peak-memory
	$(RUN)/zoo-topologies.toml --solvers regal,rule,brkga --out out/tables/zoo-topologies
	$(RUN)/zoo-signal.toml --solvers brkga,tuned-brkga,local-search,gp-dfs,regal,rule,idrs,etf,auto --out out/tables/zoo-signal
	$(RUN)/zoo.toml --solvers rule:rule-runtime-libraries --out out/tables/zoo
	for suite in synthetic synthetic-signal zoo zoo-peak-memory; do \
	  $(RUN)/$$suite.toml --solvers random-splits,random-splits-lazy --out out/tables/$$suite || exit 1; done
	for suite in zoo-train zoo-train-peak-memory; do \
	  $(RUN)/$$suite.toml --take 112 --solvers brkga,regal,rule --out out/tables/$$suite && \
	  mkdir -p benchmarks/results/training-graphs/$$suite && cp out/tables/$$suite/run.json benchmarks/results/training-graphs/$$suite/ && \
	  gzip -9nc out/tables/$$suite/rows.jsonl > benchmarks/results/training-graphs/$$suite/rows.jsonl.gz || exit 1; done
	$(BIN)/python benchmarks/large_suites.py out/large
	$(BIN)/placewright bench run out/large/synthetic-10x.toml --solvers brkga,auto --seeds 2 --out out/tables/synthetic-10x
	$(BIN)/placewright bench run out/large/synthetic-10x.toml --out out/tables/synthetic-10x \
	  --solvers regal,gas,rule:rule-runtime-synthetic,etf$(shell printf ',regal:$(POLICIES)/%s/best.safetensors' seed-0 seed-2)
	$(RUN)/libraries.toml --solvers brkga,tuned-brkga,regal:runtime-zoo-affinity,rule:rule-runtime-zoo,rule:rule-runtime-libraries,etf,auto \
	  --out out/tables/libraries
	$(RUN)/libraries-peak-memory.toml --solvers brkga,regal:peak-memory-zoo-affinity,rule:rule-peak-memory-zoo,rule:rule-peak-memory-libraries,etf,auto \
	  --out out/tables/libraries-peak-memory
	for suite in zoo zoo-peak-memory; do \
	  $(RUN)/$$suite.toml --take 12 --solvers $(TIMED) --time-limit 0.1s,1s,10s --out out/tables/$$suite || exit 1; done
	$(RUN)/zoo.toml --take 12 --solvers cp-sat --time-limit 60s --out out/tables/zoo
	$(RUN)/zoo.toml --take 6 --solvers cp-sat-cold --time-limit 60s --out out/tables/zoo
	$(RUN)/zoo-peak-memory.toml --take 12 --solvers cp-sat --time-limit 60s --out out/tables/zoo-peak-memory
	$(RUN)/zoo-peak-memory.toml --take 6 --solvers cp-sat-cold --time-limit 60s --out out/tables/zoo-peak-memory
	for suite in synthetic synthetic-signal synthetic-transfer synthetic-peak-memory synthetic-10x zoo zoo-16gib zoo-signal \
	  zoo-peak-memory zoo-topologies libraries libraries-peak-memory; do \
	  mkdir -p benchmarks/results/rows/$$suite && cp out/tables/$$suite/run.json benchmarks/results/rows/$$suite/ && \
	  gzip -9nc out/tables/$$suite/rows.jsonl > benchmarks/results/rows/$$suite/rows.jsonl.gz || exit 1; done
	$(BIN)/placewright bench report benchmarks/results/rows/* --out benchmarks/results/tables

# Data of the benchmarks that is too large for the tree, as it was committed; needs the whole history.
instances:
	cd benchmarks && while read -r digest commit path; do \
	  [ -e $$path ] || { mkdir -p $$(dirname $$path) && git show $$commit:./$$path > $$path; } || exit 1; \
	  echo "$$digest  $$path" | sha256sum -c || exit 1; done < absent.txt

REAL := real-nvlink-2 real-nvlink-4 real-pcie-2 real-pcie-4 real-memory-60
KEY_SEARCHES := brkga,tuned-brkga,brkga-lazy,brkga-segment-fill,brkga-earliest-finish,random-search,local-search,annealing
LONG_SEARCHES := brkga,brkga-segment-fill,brkga-earliest-finish,local-search
ORDERS := input-order,dfs,bfs,lpmf,xla-list,reverse-greedy,single-device
LIMITS := --evaluations 1000,5000 --time-limit 0.1s,1s

# The tables in benchmarks/results/real: real networks on real links and on one device, searches at equal evaluations
# and equal seconds beside all heuristics. Three hours of two cores; wants a machine with nothing else to do.
tables-real: $(VENV)/dev
	for suite in $(REAL); do \
	  $(RUN)/$$suite.toml --solvers $(BUILDERS),auto $(LIMITS),10s --out out/tables/$$suite && \
	  $(RUN)/$$suite.toml --solvers $(KEY_SEARCHES) $(LIMITS) --out out/tables/$$suite && \
	  $(RUN)/$$suite.toml --solvers $(LONG_SEARCHES) --time-limit 10s --out out/tables/$$suite || exit 1; done
	for suite in real-nvlink-2 real-pcie-2; do \
	  $(RUN)/$$suite.toml --solvers regal:runtime-zoo-affinity,regal:runtime-zoo-affinity-lazy --out out/tables/$$suite || exit 1; done
	for suite in real-nvlink-4 real-pcie-4; do $(RUN)/$$suite.toml --solvers auto --time-limit 60s --out out/tables/$$suite || exit 1; done
	$(RUN)/one-device.toml --solvers $(ORDERS),auto $(LIMITS),10s --out out/tables/one-device
	for suite in $(REAL) one-device; do \
	  mkdir -p benchmarks/results/real/rows/$$suite && cp out/tables/$$suite/run.json benchmarks/results/real/rows/$$suite/ && \
	  gzip -9nc out/tables/$$suite/rows.jsonl > benchmarks/results/real/rows/$$suite/rows.jsonl.gz || exit 1; done
	$(BIN)/placewright bench report benchmarks/results/real/rows/* --table heuristics --table limits --table graphs \
	  --out benchmarks/results/real/tables

# The Standard Task Graphs of 50 tasks with certified optima, which are other people's: STG names their folder.
STG ?= ../shared/data/stg50
tables-stg: $(VENV)/dev
	$(BIN)/python benchmarks/stg.py $(STG) out/stg
	for count in 2 4 8 16; do \
	  $(BIN)/placewright bench run out/stg/stg-$$count.toml --solvers cluster-list,heft,etf,list,auto \
	    --time-limit 0.1s,1s --out out/tables/stg-$$count || exit 1; done
	$(BIN)/placewright bench report $(patsubst %,out/tables/stg-%,2 4 8 16) --table heuristics --out out/tables/stg

# What the package is built with. As root on Debian whatever is missing is installed.
$(VENV)/python:
	$(PYTHON) -c "import ensurepip, sysconfig, os; os.stat(sysconfig.get_path('include') + '/Python.h')" 2>/dev/null \
	  && c++ --version >/dev/null 2>&1 || (apt-get update -qq && apt-get install -y -qq python3-venv python3-dev g++)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q "scikit-build-core==1.1.2" "nanobind==3.1.0" cmake ninja
	touch $@

# The names of all Python files: an editable install has to learn of new ones.
$(VENV)/sources: $(VENV)/python FORCE
	@find src -name '*.py' | sort | cmp -s - $@ || find src -name '*.py' | sort > $@

$(VENV)/base: $(VENV)/python $(VENV)/sources $(CORE)
	$(BIN)/pip install -q --no-build-isolation -e .
	touch $@

# torch comes first and alone: asked for in any other way its CUDA packages come along. TORCH names another version,
# as TORCH="torch==2.14.1 torchvision==0.29.1".
$(VENV)/dev: $(VENV)/base
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q --no-build-isolation -e ".[dev]"
	$(if $(TORCH),$(BIN)/pip install -q $(TORCH))
	$(BIN)/pip install -q $(REFERENCES)
	touch $@

$(VENV)/docs: $(VENV)/dev
	$(BIN)/pip install -q --no-build-isolation -e ".[docs]"
	touch $@

# The browser that the report's tests drive. Without root the tests that need it say why they are skipped.
$(VENV)/system: $(VENV)/python
	if command -v chromium >/dev/null; then touch $@; \
	elif [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq chromium && touch $@; fi

clean:
	rm -rf $(VENV) build out
