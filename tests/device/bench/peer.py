#!/usr/bin/env python3
"""Compiles each DIR/NAME/program.mlir by XLA as it stands, on the device that jax finds, and times it.

    peer.py DIR OUT.json

A line on stdout for each; OUT.json maps NAME to milliseconds of one call, called back to back and waited for one by one:
medians of 7. Needs jax (0.10 to 0.11 were tried) and numpy.
"""
import json, pathlib, re, statistics, sys, time
import jax
import numpy as np
from jax._src.lib import xla_client

DEVICE = jax.devices()[0]
CLIENT = DEVICE.client
TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i1": "bool"}


def arguments(text):
    """Of @main: shape, element type, and the output it is aliased with, if any."""
    signature = text[text.index("@main(") :]
    signature = signature[: signature.index("->")]
    for declared in re.split(r"%arg\d+: ", signature)[1:]:
        dims, kind = re.match(r"tensor<((?:\d+x)*)(\w+)>", declared).groups()
        alias = re.search(r"tf.aliasing_output = (\d+)", declared)
        yield tuple(int(d) for d in dims.split("x")[:-1]), kind, alias and int(alias[1])


def value(shape, kind, seed):
    """Random floats; zeros of all other types, which are indices as a rule."""
    name = TYPES.get(kind) or re.sub("^ui", "uint", re.sub("^i", "int", kind))
    dtype = jax.numpy.dtype(name)
    if jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return jax.random.normal(jax.random.key(seed), shape, jax.numpy.float32).astype(dtype) * 0.1
    return jax.device_put(np.zeros(shape, dtype))


def compiled(text):
    options = xla_client.CompileOptions()
    devices = xla_client.DeviceList((DEVICE,))
    return CLIENT.compile_and_load(text, devices, options)


def calls(program, values, aliases, n):
    for _ in range(n):
        results = [r[0] for r in program.execute_sharded(values).disassemble_into_single_device_arrays()]
        for argument, output in aliases:
            values[argument] = results[output]
    jax.block_until_ready(results)


def measured(text):
    declared = list(arguments(text))
    program = compiled(text)
    values = [value(shape, kind, i) for i, (shape, kind, _) in enumerate(declared)]
    aliases = [(i, a) for i, (_, _, a) in enumerate(declared) if a is not None]
    jax.block_until_ready(values)

    def timed(n):
        begin = time.perf_counter()
        calls(program, values, aliases, n)
        return (time.perf_counter() - begin) * 1e3 / n

    once = min(timed(1) for _ in range(4))
    n = int(max(3, min(200, 100 / once)))
    timed(n)
    blocking = statistics.median(timed(1) for _ in range(max(7, n)))
    return {"back_to_back_ms": statistics.median(timed(n) for _ in range(7)), "blocking_ms": blocking}


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    results = {}
    for program in sorted(folder.glob("*/program.mlir")):
        name = program.parent.name
        try:
            results[name] = measured(program.read_text())
        except Exception as e:
            results[name] = {"error": str(e).splitlines()[0][:200]}
        print(name, results[name], flush=True)
        out.write_text(json.dumps(results, indent=1))


main()
