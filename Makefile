# Two commands do everything: `make demo` and `make test`. The rest are for those who work on Camber.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export CAMBER_DATA ?= ../shared/data

.PHONY: help setup build wheel demo test docs prove bench bench-peers lint format asan tsan clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:  ## install what this machine lacks (a no-op the second time)
	@scripts/setup

build: setup  ## build the program at build/camber, the libraries, the tests and the benchmarks
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release

wheel: build  ## pack operators, program, configurations and Python package into dist/camber-*.whl
	@scripts/wheel

demo: build  ## the main job: see the mechanism at work and checked
	@scripts/demo

test: build  ## build and pass all tests
	@scripts/test

docs: build  ## the documentation as a site, into build/docs
	@scripts/docs

prove: build  ## every claim in full, value against target
	@scripts/prove

bench: build  ## speed and memory against named peers, in one run
	@scripts/bench

bench-peers: build  ## the same beside FlexAttention, ONNX Runtime, OpenVINO and spconv (installed into .venv-peers)
	@scripts/bench_peers

lint: setup  ## formatting, static analysis, types, who includes whom
	@scripts/lint

format: setup  ## format the sources in place
	@scripts/lint --fix

asan: setup  ## the tests under the address and undefined-behaviour sanitizers
	@scripts/asan

tsan: setup  ## the tests under the thread sanitizer
	@scripts/tsan

clean:  ## remove what was built (the virtual environment stays)
	@rm -rf build build-debug build-asan build-tsan build-fuzz dist
