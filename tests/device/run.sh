#!/usr/bin/env bash
# Conformance on a machine with a GPU, from a folder that pack.sh made: a table each for CUDA and Vulkan.
#
#     DIR/run.sh [OUT]
#
# Needs nothing but the driver. A Vulkan loader that the machine lacks may lie in ./loader as .deb files.
set -uo pipefail
cd "$(dirname "$0")"
out=${1:-.}
if ! ldconfig -p | grep -q libvulkan && ls loader/*.deb >/dev/null 2>&1; then
    for f in loader/*.deb; do dpkg -x "$f" /; done
    ldconfig
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
./zml-run doctor || true
status=0
for device in cuda vulkan; do
    for set in corpus predicates suite; do
        [ -d "$set" ] || continue
        echo "== $set, $device"
        "./$set/conformance" --run "$set" --device "$device" --zml-run ./zml-run --json "$out/$set-$device.json" || status=1
    done
done
exit $status
