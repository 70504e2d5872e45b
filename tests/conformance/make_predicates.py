#!/usr/bin/env python3
"""Writes fixtures/predicates: programs over i1 at lengths that no vector divides, with values worked out by numpy.

    python3 tests/conformance/make_predicates.py fixtures/predicates
"""
import json, struct, sys
from pathlib import Path
import numpy as np

NAMES = {"float16": ("F16", "f16"), "float32": ("F32", "f32"), "bool": ("BOOL", "i1")}


def safetensors(path, tensors):
    header, data = {}, b""
    for name, a in tensors.items():
        raw = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": NAMES[a.dtype.name][0], "shape": list(a.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def t(a):
    return "tensor<" + "".join(f"{d}x" for d in a.shape) + NAMES[a.dtype.name][1] + ">"


def case(folder, name, args, outs, body, results, tolerance=0):
    d = folder / name
    d.mkdir(parents=True, exist_ok=True)
    head = ", ".join(f"%a{i}: {t(a)}" for i, a in enumerate(args))
    types = ", ".join(t(o) for o in outs)
    (d / "program.mlir").write_text(
        f"func.func @main({head}) -> ({types}) {{\n{body}  return {', '.join(results)} : {types}\n}}\n")
    safetensors(d / "inputs.safetensors", {f"arg{i}": a for i, a in enumerate(args)})
    safetensors(d / "expected.safetensors", {f"out{i}": o for i, o in enumerate(outs)})
    info = lambda k, i, a: {"key": f"{k}{i}", "name": f"{k}{i}", "dtype": NAMES[a.dtype.name][1], "shape": list(a.shape)}
    (d / "meta.json").write_text(json.dumps({
        "name": name, "tags": ["predicates"], "notes": "expected values from numpy",
        "args": [info("arg", i, a) for i, a in enumerate(args)],
        "outputs": [{**info("out", i, o), "rtol": tolerance, "atol": tolerance} for i, o in enumerate(outs)],
    }, indent=1) + "\n")


def main(folder):
    rng = np.random.default_rng(7)
    for n in (1, 3, 4, 5, 8, 13, 1023):
        x, y = (rng.integers(-3, 4, n).astype(np.float32) for _ in range(2))
        p, q = (rng.integers(0, 2, n).astype(bool) for _ in range(2))
        f, b = f"tensor<{n}xf32>", f"tensor<{n}xi1>"
        case(folder, f"i1_{n}", [x, y, p, q],
             [x < y, np.where(p, x, y), p | q, p & q, p[::-1], np.all(p), np.any(p)],
             f"""  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.compare LT, %a0, %a1, FLOAT : ({f}, {f}) -> {b}
  %1 = stablehlo.select %a2, %a0, %a1 : {b}, {f}
  %2 = stablehlo.add %a2, %a3 : {b}
  %3 = stablehlo.multiply %a2, %a3 : {b}
  %4 = stablehlo.reverse %a2, dims = [0] : {b}
  %5 = stablehlo.reduce(%a2 init: %true) applies stablehlo.and across dimensions = [0] : ({b}, tensor<i1>) -> tensor<i1>
  %6 = stablehlo.reduce(%a2 init: %false) applies stablehlo.or across dimensions = [0] : ({b}, tensor<i1>) -> tensor<i1>
""", ["%0", "%1", "%2", "%3", "%4", "%5", "%6"])
    p, q = rng.integers(0, 2, (5, 13)).astype(bool), rng.integers(0, 2, (5, 3)).astype(bool)
    padded = np.pad(p, ((1, 2), (1, 1)), constant_values=True)
    case(folder, "i1_moves", [p, q],
         [p[1:4, 3:10], np.concatenate([q, p], 1), padded, p[::-1, ::-1], p.T, p.all(1), p.any(0)],
         """  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.slice %a0 [1:4, 3:10] : (tensor<5x13xi1>) -> tensor<3x7xi1>
  %1 = stablehlo.concatenate %a1, %a0, dim = 1 : (tensor<5x3xi1>, tensor<5x13xi1>) -> tensor<5x16xi1>
  %2 = stablehlo.pad %a0, %true, low = [1, 1], high = [2, 1], interior = [0, 0] : (tensor<5x13xi1>, tensor<i1>) -> tensor<8x15xi1>
  %3 = stablehlo.reverse %a0, dims = [0, 1] : tensor<5x13xi1>
  %4 = stablehlo.transpose %a0, dims = [1, 0] : (tensor<5x13xi1>) -> tensor<13x5xi1>
  %5 = stablehlo.reduce(%a0 init: %true) applies stablehlo.and across dimensions = [1] : (tensor<5x13xi1>, tensor<i1>) -> tensor<5xi1>
  %6 = stablehlo.reduce(%a0 init: %false) applies stablehlo.or across dimensions = [0] : (tensor<5x13xi1>, tensor<i1>) -> tensor<13xi1>
""", ["%0", "%1", "%2", "%3", "%4", "%5", "%6"])
    x = rng.normal(size=(16, 16)).astype(np.float32)
    mask = np.tril(np.ones((16, 16), bool))
    case(folder, "i1_causal_mask", [x], [np.where(mask, x, np.float32(-1)), mask],
         """  %r = stablehlo.iota dim = 0 : tensor<16x16xi32>
  %c = stablehlo.iota dim = 1 : tensor<16x16xi32>
  %m = stablehlo.compare GE, %r, %c, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
  %n = stablehlo.constant dense<-1.0> : tensor<16x16xf32>
  %0 = stablehlo.select %m, %a0, %n : tensor<16x16xi1>, tensor<16x16xf32>
""", ["%0", "%m"])
    # Softmax with zeros for rows without a position, as PyTorch exports it, in an attention.
    for dtype, tolerance in ((np.float32, 1e-6), (np.float16, 5e-3)):
        q, k, v = (rng.normal(size=(2, 24, 8)).astype(dtype) for _ in range(3))
        keep = rng.integers(0, 3, (24, 24)) == 0
        keep[::5] = False
        scores = np.where(keep, q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1), -np.inf)
        with np.errstate(invalid="ignore"):
            e = np.exp(scores - scores.max(-1, keepdims=True))
            weights = np.where(keep.any(-1, keepdims=True), e / e.sum(-1, keepdims=True), 0)
        out = (weights @ v.astype(np.float64)).astype(dtype)
        e = NAMES[dtype.__name__][1]
        s, m = f"tensor<2x24x24x{e}>", f"tensor<2x24x{e}>"
        case(folder, f"i1_no_position_{e}", [q, k, v, keep], [out],
             f"""  %low = stablehlo.constant dense<{"0xFC00" if e == "f16" else "0xFF800000"}> : tensor<{e}>
  %zero = stablehlo.constant dense<0.0> : tensor<{e}>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<{e}>) -> {s}
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<{e}>) -> {s}
  %keep = stablehlo.broadcast_in_dim %a3, dims = [1, 2] : (tensor<24x24xi1>) -> tensor<2x24x24xi1>
  %products = stablehlo.dot_general %a0, %a1, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x24x8x{e}>, tensor<2x24x8x{e}>) -> {s}
  %scores = stablehlo.select %keep, %products, %lows : tensor<2x24x24xi1>, {s}
  %max = stablehlo.reduce(%scores init: %low) applies stablehlo.maximum across dimensions = [2] : ({s}, tensor<{e}>) -> {m}
  %maxima = stablehlo.broadcast_in_dim %max, dims = [0, 1] : ({m}) -> {s}
  %differences = stablehlo.subtract %scores, %maxima : {s}
  %e = stablehlo.exponential %differences : {s}
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : ({s}, tensor<{e}>) -> {m}
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1] : ({m}) -> {s}
  %divided = stablehlo.divide %e, %sums : {s}
  %infinite = stablehlo.compare EQ, %scores, %lows, FLOAT : ({s}, {s}) -> tensor<2x24x24xi1>
  %finite = stablehlo.not %infinite : tensor<2x24x24xi1>
  %any = stablehlo.reduce(%finite init: %false) applies stablehlo.or across dimensions = [2] : (tensor<2x24x24xi1>, tensor<i1>) -> tensor<2x24xi1>
  %none = stablehlo.not %any : tensor<2x24xi1>
  %nones = stablehlo.broadcast_in_dim %none, dims = [0, 1] : (tensor<2x24xi1>) -> tensor<2x24x24xi1>
  %weights = stablehlo.select %nones, %zeros, %divided : tensor<2x24x24xi1>, {s}
  %0 = stablehlo.dot_general %weights, %a2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : ({s}, tensor<2x24x8x{e}>) -> tensor<2x24x8x{e}>
""", ["%0"], tolerance)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
