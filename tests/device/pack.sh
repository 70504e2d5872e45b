#!/usr/bin/env bash
# Builds here what tests/device/run.sh needs on a machine with a GPU and no compiler: DIR gets zml-run, the conformance
# runner, and every case of the corpus built for Vulkan and CUDA.
#
#     tests/device/pack.sh DIR [CORPUS]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?"usage: tests/device/pack.sh DIR [CORPUS]"}
corpus=${2:-../shared/corpus}
make -s build
cargo build -q --release -p conformance
mkdir -p "$out"
cp target/release/zml-run target/release/conformance tests/device/run.sh "$out"
target/release/conformance "$corpus" --build-only "$out/cases" --target vulkan,cuda \
    --zmlc target/release/zmlc --zml-run target/release/zml-run ${FILTER:+--filter "$FILTER"}
du -sh "$out"
