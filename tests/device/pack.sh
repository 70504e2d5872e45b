#!/usr/bin/env bash
# Builds here what tests/device/run.sh needs on a machine with a GPU and no compiler: DIR gets zml-run, the conformance
# runner, every case of the corpus, SUITE (a folder or tar of StableHLO's public test programs) if it is given, the
# functions whose accuracy is measured, and the programs that are timed beside the peer.
#
#     tests/device/pack.sh DIR [CORPUS [SUITE]]
#
# TARGET: what to build for. FILTER: of the corpus, only cases that it finds. SETS: of "corpus predicates suite numerics
# library bench" only these. ELEMENTS: of the streaming kernels, instead of 64 Mi.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?"usage: tests/device/pack.sh DIR [CORPUS [SUITE]]"}
corpus=${2:-../shared/corpus}
target=${TARGET:-cuda:sm_90a,vulkan:vulkan1.3-nvidia}
sets=${SETS:-corpus predicates suite numerics library bench}
make -s build
cargo build -q --release -p conformance
mkdir -p "$out"
cp target/release/zml-run tests/device/run.sh tests/device/numerics.py tests/device/bench/peer.py tests/device/bench/table.py "$out"
# A case that does not build is packed as a failed or refused one: the table over there shows it.
pack() { # FOLDER OF CASES, NAME
    target/release/conformance "$1" --build-only "$out/$2" --target "$target" \
        --zmlc target/release/zmlc --zml-run target/release/zml-run ${FILTER:+--filter "$FILTER"} >/dev/null || true
}
# Each FOLDER/NAME/program.mlir to FOLDER/NAME/NAME.zml.
compile() { # FOLDER [TARGET [LINES OF model.toml]]
    local folder
    for folder in "$1"/*/; do
        target/release/zmlc init "$folder/program.mlir" -o "$folder" --name "$(basename "$folder")" --force >/dev/null
        printf '%s' "${3:-}" >>"$folder/model.toml"
        target/release/zmlc build "$folder/model.toml" --target "${2:-$target}" -o "$folder" -q
    done
}
for set in $sets; do
    case $set in
    corpus) pack "$corpus" corpus ;;
    predicates) FILTER='' pack fixtures/predicates predicates ;;
    suite) if [ -n "${3:-}" ]; then FILTER='' pack "$3" suite; fi ;;
    numerics)
        tests/device/numerics.py write "$out/numerics"
        compile "$out/numerics"
        ;;
    library)
        cargo build -q --release -p zml-trim
        cp target/release/zml-trim tests/device/library.py "$out"
        tests/device/library.py write "$out/library"
        compile "$out/library" cuda:sm_90a $'\n[targets.cuda]\ngemm = "library"\n'
        ;;
    bench)
        [ -x target/jax/bin/python ] || python3 -m venv target/jax
        target/jax/bin/pip install -q --disable-pip-version-check jax==0.10.2
        JAX_PLATFORMS=cpu target/jax/bin/python tests/device/bench/export.py "$out/bench" ${ELEMENTS:+--elements "$ELEMENTS"}
        for name in mnist_mlp_b1 minilm_b1_s32 resnet50_b1_f32 vit_tiny_patch16_b1 llama1b_decode_kv2048_bf16 \
            llama1b_decode_kv2048_bf16_scan llama1b_prefill512_bf16; do
            mkdir -p "$out/bench/$name"
            cp "$corpus/$name/program.mlir" "$out/bench/$name"
        done
        compile "$out/bench"
        ;;
    esac
done
du -sh "$out"
