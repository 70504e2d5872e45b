#!/usr/bin/env python3
"""The largest error of each function of f32 on a device, in units in the last place, at every 257th number by its bits.

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
FORMULAS = {"logistic": lambda np, x: 1 / (1 + np.exp(-x)), "rsqrt": lambda np, x: 1 / np.sqrt(x)}
PROGRAM = """func.func @main() -> tensor<{n}xf32> {{
  %i = stablehlo.iota dim = 0 : tensor<{n}xui32>
  %s = stablehlo.constant dense<{stride}> : tensor<{n}xui32>
  %b = stablehlo.multiply %i, %s : tensor<{n}xui32>
  %x = stablehlo.bitcast_convert %b : (tensor<{n}xui32>) -> tensor<{n}xf32>
  %y = stablehlo.{op} %x : tensor<{n}xf32>
  return %y : tensor<{n}xf32>
}}
"""


def write(folder):
    for op in FUNCTIONS:
        (folder / op).mkdir(parents=True, exist_ok=True)
        (folder / op / "program.mlir").write_text(PROGRAM.format(n=COUNT, stride=STRIDE, op=op))


def errors(found, op, x, np, flushes):
    """Units in the last place; of denormal results, of the least normal number's."""
    name, _ = FUNCTIONS[op]
    with np.errstate(all="ignore"):
        true = (getattr(np, name) if name else lambda v: FORMULAS[op](np, v))(x.astype(np.float64))
        unit = 2.0 ** (np.maximum(np.floor(np.log2(np.abs(true))), -126) - 23)
        error = np.abs(found.astype(np.float64) - true) / unit
        same = (found == true.astype(np.float32)) | (np.isnan(found) & np.isnan(true))
        same |= (np.abs(true) < TINY) & (found == 0) & flushes
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def worst(op, found, np, flushes):
    """Units in the last place, and the argument. A device that flushes may take a denormal number for zero."""
    x = (np.arange(COUNT, dtype=np.uint32) * np.uint32(STRIDE)).view(np.float32)
    error = errors(found, op, x, np, flushes)
    if flushes:
        zeros = np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)
        error = np.minimum(error, errors(found, op, zeros, np, flushes))
    at = int(np.argmax(error))
    return float(error[at]), float(x[at])


def check(folder, zml_run, device):
    import numpy as np

    wrong = 0
    print(f"| function, {device} | max ulp | at | allowed |\n|---|---|---|---|")
    for op, (_, allowed) in FUNCTIONS.items():
        with tempfile.TemporaryDirectory() as out:
            file = pathlib.Path(out, "y.npy")
            artifact = folder / op / f"{op}.zml"
            ran = subprocess.run([zml_run, artifact, "--device", device, "--output", f"0={file}"], capture_output=True, text=True)
            if ran.returncode:
                print(f"| {op} | {ran.stderr.strip().splitlines()[-1]} | | {allowed} |")
                wrong += 1
                continue
            error, at = worst(op, np.load(file), np, device.startswith("vulkan"))
        wrong += error > allowed
        print(f"| {op} | {error:.2f} | {at:.9g} | {allowed} |", flush=True)
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(check(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]) != 0)
