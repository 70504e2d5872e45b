#!/usr/bin/env python3
"""Prints what run.sh measured: a line for each program, each device of ours beside the peer.

    table.py BENCH PEER.json OUT

BENCH has a folder for each program; OUT/NAME-DEVICE.json is what `zml-run bench --json` printed.
"""
import json, pathlib, sys

bench, peer, out = map(pathlib.Path, sys.argv[1:])
peers = json.loads(peer.read_text()) if peer.exists() else {}


def ours(name, device):
    try:
        report = json.loads((out / f"{name}-{device}.json").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    return {"back_to_back_ms": report["back_to_back"]["median_us"] / 1e3, "blocking_ms": report["call"]["median_us"] / 1e3}


def cell(times, key, peer, size):
    if times is None:
        return "failed"
    text = f"{times[key]:.3f}"
    if size:
        text += f" {size / times[key] / 1e6:.0f} GB/s"
    if peer and key in peer:
        text += f" {times[key] / peer[key]:.2f}x"
    return text


print("| program | peer, ms | CUDA, ms | Vulkan, ms | blocking: peer | CUDA | Vulkan |")
print("|---|---|---|---|---|---|---|")
for folder in sorted(p.parent for p in bench.glob("*/program.mlir")):
    name, bytes = folder.name, folder / "bytes"
    size = int(bytes.read_text()) if bytes.exists() else 0
    other = peers.get(name, {})
    row = [name]
    for key, size in (("back_to_back_ms", size), ("blocking_ms", 0)):
        row.append(cell(other, key, None, size) if key in other else other.get("error", "not run"))
        row += [cell(ours(name, d), key, other, size) for d in ("cuda", "vulkan")]
    print("| " + " | ".join(row) + " |")
