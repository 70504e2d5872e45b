#!/usr/bin/env bash
# On a machine with a GPU, from a folder that pack.sh made: conformance, the accuracy of functions, and times beside the
# peer (XLA, on the same programs, if its Python has jax), a table each.
#
#     DIR/run.sh [OUT]
#
# Needs the driver, and python3 with numpy for all but conformance. A Vulkan loader that the machine lacks may lie in
# ./loader as .deb files. DEVICES: of "cuda vulkan" only these. CALLS: of each program that is timed. CUBLAS: a folder with
# libcublasLt, instead of that of python3's nvidia packages.
set -uo pipefail
cd "$(dirname "$0")"
out=${1:-.}
mkdir -p "$out"
devices=${DEVICES:-cuda vulkan}
if ! ldconfig -p | grep -q libvulkan && ls loader/*.deb >/dev/null 2>&1; then
    for f in loader/*.deb; do dpkg -x "$f" /; done
    ldconfig
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
./zml-run doctor || true
status=0
for device in $devices; do
    for set in corpus predicates suite; do
        [ -d "$set" ] || continue
        echo "== $set, $device"
        "./$set/conformance" --run "$set" --device "$device" --keep-device --zml-run ./zml-run \
            --json "$out/$set-$device.json" || status=1
    done
    if [ -d numerics ]; then
        echo "== numerics, $device"
        python3 numerics.py check numerics ./zml-run "$device" || status=1
    fi
done
cublas=${CUBLAS:-$(python3 -c 'import nvidia, glob; print(next(p for r in nvidia.__path__ for p in glob.glob(r + "/*/lib") if glob.glob(p + "/libcublasLt.so*")))' 2>/dev/null)}
if [ -d library ] && [[ $devices == *cuda* ]]; then
    echo "== library products"
    if [ -n "$cublas" ]; then python3 library.py check library ./zml-run ./zml-trim "$cublas" || status=1
    else echo "skipped: no libcublasLt, CUBLAS names its folder"; fi
fi
if [ -d bench ]; then
    echo "== bench"
    for program in bench/*/; do
        name=$(basename "$program")
        for device in $devices; do
            ./zml-run bench "$program/$name.zml" --device "$device" ${CALLS:+--calls "$CALLS"} --message-format json \
                >"$out/$name-$device.json" || status=1
        done
    done
    python3 peer.py bench "$out/peer.json" >"$out/peer.log" 2>&1 || echo "the peer did not run: $(tail -1 "$out/peer.log")"
    python3 table.py bench "$out/peer.json" "$out"
fi
exit $status
