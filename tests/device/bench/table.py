#!/usr/bin/env python3
"""Prints what run.sh measured: a line for each program, each device of ours beside the peer.

    table.py BENCH PEER.json OUT

BENCH has a folder for each program; OUT/NAME-DEVICE.json is what `zml-run bench --json` printed.
"""
import json, pathlib, sys

bench, peer, out = map(pathlib.Path, sys.argv[1:])
peers = json.loads(peer.read_text()) if peer.exists() else {}


def ours(name, device):
    """`device_ms`, for kernels alone: what all kernels and copies of a call take by the device's own clock, or what one call
    more takes. Each has something of its own on top: CUDA's events some 3 us a kernel, Vulkan's submits some 10 us a call.
    """
    try:
        lines = [json.loads(line) for line in (out / f"{name}-{device}.json").read_text().splitlines()]
        report = next(line for line in lines if line["reason"] == "bench")
    except (OSError, ValueError, StopIteration):
        return None
    kernels = [line["us"] for line in lines if line["reason"] == "kernel"]
    back_to_back = report["back_to_back"]["median_us"] / 1e3
    return {
        "device_ms": min(sum(kernels) / 1e3, back_to_back) if kernels else None,
        "back_to_back_ms": back_to_back,
        "blocking_ms": report["call"]["median_us"] / 1e3,
    }


def cell(times, key, peer, size):
    if times is None or times.get(key) is None:
        return "failed"
    text = f"{times[key]:.3f}"
    if size:
        text += f" {size / times[key] / 1e6:.0f} GB/s"
    if peer:
        text += f" {times[key] / peer:.2f}x"
    return text


# Streaming kernels have large results, whose way to the host is not the kernel's.
print("| program | peer, ms | CUDA, ms | Vulkan, ms | blocking: peer | CUDA | Vulkan |")
print("|---|---|---|---|---|---|---|")
for folder in sorted(p.parent for p in bench.glob("*/program.mlir")):
    name, bytes = folder.name, folder / "bytes"
    size = int(bytes.read_text()) if bytes.exists() else 0
    other = peers.get(name, {})
    row = [name]
    for key, mine in (("back_to_back_ms", "device_ms" if size else "back_to_back_ms"), ("blocking_ms", "blocking_ms")):
        size = size if key == "back_to_back_ms" else 0
        row.append(cell(other, key, None, size) if key in other else other.get("error", "not run"))
        row += [cell(ours(name, d), mine, other.get(key), size) for d in ("cuda", "vulkan")]
    print("| " + " | ".join(row) + " |")
