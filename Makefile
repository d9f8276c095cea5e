# Every target makes .venv by itself; a machine with Python 3.11 or newer and pip is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# What `test` is to leave out or take, in pytest's words.
SELECT ?=

# How many inputs `fuzz` makes.
INPUTS ?= 1000000

# The Kubernetes minor of the real cluster.
K8S ?= 1.37

# Somebody else's extender, for `bench-extender`.
PEER ?=

# How long `soak` takes, and what decides which pods and troubles come.
MINUTES ?= 10
SEED ?= 1

# buildah, podman or docker, and the image that `image` takes its Python from; it can do without.
BUILDER ?=
BASE ?=

.PHONY: demo test check chart-tools manifests fuzz cluster e2e e2e-smoke e2e-install e2e-upgrade bench bench-cluster bench-extender soak image image-base requirements clean

demo: $(READY)
	$(BIN)/gpuslice demo

test: $(READY)
	$(BIN)/pytest $(SELECT)

check: $(READY) chart-tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory test SELECT='--require-charts $(SELECT)'

# Builds helm and what judges the chart's pods into the user's cache, once; needs Go.
chart-tools: $(READY)
	$(BIN)/python -m tests.charts build

# Makes manifests/ anew, and the schema and the documents of the values; to be run after a change of
# the chart or of what can be set of a program.
manifests: $(READY)
	$(BIN)/python -m tests.charts manifests

# A million spoiled inputs for everything that reads what others write; takes half an hour.
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS)

# Builds the programs of a real cluster into the user's cache, once.
cluster: $(READY)
	$(BIN)/python -m tests.cluster build --k8s $(K8S)

e2e: cluster
	$(BIN)/python -m tests.cluster.scenes --k8s $(K8S)

# The scenes in which releases differ most; see docs/scenes.md.
e2e-smoke: cluster
	$(BIN)/python -m tests.cluster.scenes --k8s $(K8S) --smoke

# The chart installed by the real helm with the image built here; see docs/scenes.md.
e2e-install: cluster chart-tools image
	$(BIN)/pytest -m "cluster and not bench" --require-cluster --require-charts --k8s $(K8S) \
	  --reruns 1 tests/cluster/installing

# The control plane of 1.35 exchanged for that of 1.36, and back, over the same store.
e2e-upgrade: $(READY)
	$(MAKE) --no-print-directory cluster K8S=1.35
	$(MAKE) --no-print-directory cluster K8S=1.36
	$(BIN)/pytest -m "cluster and not bench" --require-cluster --k8s 1.36 \
	  tests/cluster/scenes/test_upgrade.py

# Two clusters, one after the other: one with a kubelet, one of nodes that are objects alone.
bench-cluster: cluster
	$(BIN)/pytest -m bench -s --require-cluster --k8s $(K8S) tests/cluster/scenes
	$(BIN)/pytest -m bench -s --require-cluster --k8s $(K8S) tests/cluster/bench

soak: cluster
	$(BIN)/python -m tests.cluster.soak --k8s $(K8S) --minutes $(MINUTES) --seed $(SEED)

bench: $(READY)
	$(BIN)/pytest -m bench -s tests/bench --ignore=tests/bench/extender

# PEER is another extender's URL with the size of the cluster it was told of: URL,nodes,pods per GPU;
# python -m tests.bench.extender.api_server PORT NODES PODS is that cluster's API server.
bench-extender: $(READY)
	GPUSLICE_BENCH_PEER=$(PEER) $(BIN)/pytest -m bench -s tests/bench/extender

# Builds build/gpuslice-image.tar, unless it is of these very sources; see docs/build.md.
image: $(READY)
	$(BIN)/python -m image build --builder "$(BUILDER)" --base "$(BASE)"

# Fetches Debian's newest packages for the base image that `image` makes for itself.
image-base: $(READY)
	$(BIN)/python -m image base

# Pin again after a change of the dependencies in pyproject.toml; needs uv.
requirements:
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -o requirements/runtime.txt $(UPGRADE)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-emit-package gpuslice -q \
	  -o requirements/dev.txt $(UPGRADE)
	uv pip compile pyproject.toml --extra extender --extra webhook -c requirements/dev.txt \
	  --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --no-emit-index-url --no-header -q -o requirements/image.txt
	uv pip compile --group pyproject.toml:image-build -c requirements/dev.txt --universal \
	  --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --no-header -q \
	  -o requirements/build.txt $(UPGRADE)

$(READY): pyproject.toml requirements/dev.txt protos/build.py $(wildcard protos/*.proto)
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f protos/*_pb2*.py protos/*_pb2*.pyi
