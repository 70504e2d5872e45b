#!/usr/bin/env python3
"""The largest error of functions on a device, in units in the last place: of f32 at every 257th number by its bits, of bf16
at every number, and of rounding to bf16.

    numerics.py write DIR                 programs as StableHLO: DIR/NAME/program.mlir
    numerics.py check DIR ZML_RUN DEVICE  runs the artifacts DIR/NAME/NAME.zml; needs numpy

The true values are numpy's in double precision. Through Vulkan denormal numbers may be zeros (docs/numerics.md).
"""
import pathlib, subprocess, sys, tempfile

STRIDE = 257
COUNT = 2**32 // STRIDE
# The least normal number.
TINY = 2.0**-126
# StableHLO's name, numpy's function, largest error allowed: docs/numerics.md's figure without fused fma, and what Vulkan
# allows of a division or square root.
FUNCTIONS = {
    "cbrt": ("cbrt", 4),
    "cosine": ("cos", 3),
    "exponential": ("exp", 2),
    "exponential_minus_one": ("expm1", 3),
    "log": ("log", 2),
    "log_plus_one": ("log1p", 3),
    "logistic": (None, 5),
    "rsqrt": (None, 4),
    "sine": ("sin", 3),
    "sqrt": ("sqrt", 3),
    "tan": ("tan", 7),
    "tanh": ("tanh", 5),
}
# Of all numbers of bf16, and roundings to it of every 257th f32. A result is the nearest number of the type but where the
# true value is as near to two.
SHORT = {"exponential": 0.51, "logistic": 0.51, "tanh": 0.51}
ROUNDED = "convert"
FORMULAS = {"logistic": lambda np, x: 1 / (1 + np.exp(-x)), "rsqrt": lambda np, x: 1 / np.sqrt(x)}
PROGRAM = """func.func @main() -> tensor<{n}x{out}> {{
  %i = stablehlo.iota dim = 0 : tensor<{n}x{bits}>
  %s = stablehlo.constant dense<{stride}> : tensor<{n}x{bits}>
  %b = stablehlo.multiply %i, %s : tensor<{n}x{bits}>
  %x = stablehlo.bitcast_convert %b : (tensor<{n}x{bits}>) -> tensor<{n}x{of}>
  %z = stablehlo.{op} %x : (tensor<{n}x{of}>) -> tensor<{n}x{narrow}>
  %y = stablehlo.convert %z : (tensor<{n}x{narrow}>) -> tensor<{n}x{out}>
  return %y : tensor<{n}x{out}>
}}
"""


def cases():
    """Name, op, types of argument and result, numbers tried and their distance, error allowed."""
    for op, (_, allowed) in FUNCTIONS.items():
        yield op, op, "f32", "f32", COUNT, STRIDE, allowed
    for op, allowed in SHORT.items():
        yield f"{op}_bf16", op, "bf16", "bf16", 2**16, 1, allowed
    yield f"{ROUNDED}_bf16", ROUNDED, "f32", "bf16", COUNT, STRIDE, 0
    yield f"{ROUNDED}_ties_bf16", ROUNDED, "f32", "bf16", 2**17, 2**15, 0


def write(folder):
    for name, op, of, narrow, count, stride, _ in cases():
        (folder / name).mkdir(parents=True, exist_ok=True)
        text = PROGRAM.format(
            n=count, stride=stride, op=op, of=of, narrow=narrow, out="f32", bits="ui16" if of == "bf16" else "ui32"
        )
        (folder / name / "program.mlir").write_text(text)


def arguments(of, count, stride, np):
    bits = np.arange(count, dtype=np.uint32) * np.uint32(stride)
    return (bits << np.uint32(16) if of == "bf16" else bits).view(np.float32)


def errors(found, op, x, digits, np, flushes):
    """Units in the last place, of `digits` bits; of denormal results, of the least normal number's."""
    if op == ROUNDED:
        bits = x.view(np.uint32)
        even = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
        same = (found == even) | (np.isnan(found) & np.isnan(x)) | ((np.abs(x) < TINY) & (found == 0) & flushes)
        return np.where(same, 0, np.inf)
    name, _ = FUNCTIONS.get(op, (None, None))
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        true = getattr(np, name)(wide) if name else FORMULAS[op](np, wide)
        unit = 2.0 ** (np.maximum(np.floor(np.log2(np.abs(true))), -126) - digits)
        error = np.abs(found.astype(np.float64) - true) / unit
        # What is too large for the type is infinite from the middle between the largest number and the next on.
        over = np.abs(true) >= (2 - 2.0 ** (-digits - 1)) * 2.0**127
        same = (over & (found == np.copysign(np.inf, true))) | (found == true) | (np.isnan(found) & np.isnan(true))
        same |= (np.abs(true) < TINY) & (found == 0) & flushes
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def worst(op, found, x, digits, np, flushes):
    """Units in the last place, and the argument. A device that flushes may take a denormal number for zero."""
    error = errors(found, op, x, digits, np, flushes)
    if flushes:
        zeros = np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)
        error = np.minimum(error, errors(found, op, zeros, digits, np, flushes))
    at = int(np.argmax(error))
    return float(error[at]), float(x[at])


def check(folder, zml_run, device):
    import numpy as np

    wrong = 0
    print(f"| function, {device} | max ulp | at | allowed |\n|---|---|---|---|")
    for name, op, of, narrow, count, stride, allowed in cases():
        with tempfile.TemporaryDirectory() as out:
            file = pathlib.Path(out, "y.npy")
            artifact = folder / name / f"{name}.zml"
            ran = subprocess.run([zml_run, artifact, "--device", device, "--output", f"0={file}"], capture_output=True, text=True)
            if ran.returncode:
                print(f"| {name} | {ran.stderr.strip().splitlines()[-1]} | | {allowed} |")
                wrong += 1
                continue
            x, digits = arguments(of, count, stride, np), 7 if narrow == "bf16" else 23
            error, at = worst(op, np.load(file), x, digits, np, device.startswith("vulkan"))
        wrong += error > allowed
        print(f"| {name} | {error:.3f} | {at:.9g} | {allowed} |", flush=True)
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(check(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]) != 0)
