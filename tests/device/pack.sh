#!/usr/bin/env bash
# Builds here what tests/device/run.sh needs on a machine with a GPU and no compiler: DIR gets zml-run, the conformance
# runner, and every case of the corpus built for Vulkan and CUDA; SUITE, a folder or tar of StableHLO's public test programs,
# too if it is given.
#
#     tests/device/pack.sh DIR [CORPUS [SUITE]]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?"usage: tests/device/pack.sh DIR [CORPUS [SUITE]]"}
corpus=${2:-../shared/corpus}
make -s build
cargo build -q --release -p conformance
mkdir -p "$out"
cp target/release/zml-run tests/device/run.sh "$out"
# A case that does not build is packed as a failed or refused one: the table over there shows it.
pack() { # FOLDER OF CASES, NAME
    target/release/conformance "$1" --build-only "$out/$2" --target vulkan,cuda \
        --zmlc target/release/zmlc --zml-run target/release/zml-run ${FILTER:+--filter "$FILTER"} >/dev/null || true
}
pack "$corpus" corpus
FILTER='' pack fixtures/predicates predicates
if [ -n "${3:-}" ]; then pack "$3" suite; fi
du -sh "$out"
