#!/usr/bin/env python3
"""Writes what is measured beside the peers as StableHLO: DIR/NAME/program.mlir and DIR/NAME/bytes, what one call moves at least.

    export.py DIR [--elements N]

Needs jax. The programs are the usual streaming and row kernels on N elements (64 Mi by default), in f32 and bf16.
"""
import argparse, pathlib
import jax, jax.numpy as jnp

args = argparse.ArgumentParser()
args.add_argument("dir", type=pathlib.Path)
args.add_argument("--elements", type=int, default=64 << 20)
args = args.parse_args()
N = args.elements


def f32(x):
    return x.astype(jnp.float32)


def add_one(x):
    return x + jnp.asarray(1, x.dtype)


def add(x, y):
    return x + y


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


def chain(x):
    g = f32(x)
    return (jnp.tanh(g * 1.5 + 0.25) * jax.nn.sigmoid(g) + g * g - 0.5).astype(x.dtype)


def softmax(x):
    return jax.nn.softmax(f32(x), -1).astype(x.dtype)


def layer_norm(x):
    g = f32(x)
    m = g.mean(-1, keepdims=True)
    v = jnp.mean((g - m) ** 2, -1, keepdims=True)
    return ((g - m) * jax.lax.rsqrt(v + 1e-5)).astype(x.dtype)


def rms_norm(x):
    g = f32(x)
    return (g * jax.lax.rsqrt(jnp.mean(g * g, -1, keepdims=True) + 1e-5)).astype(x.dtype)


def total(x):
    return jnp.sum(f32(x))


def row_sum(x):
    return jnp.sum(f32(x), -1)


def column_sum(x):
    return jnp.sum(f32(x), 0)


def argmax(x):
    return jnp.argmax(x, -1)


def cumsum(x):
    return jnp.cumsum(f32(x), -1).astype(x.dtype)


# Function, arrays read, row length, whether as much is written as one array.
PROGRAMS = [
    (add_one, 1, 8192, True),
    (add, 2, 8192, True),
    (gelu, 1, 8192, True),
    (chain, 1, 8192, True),
    (softmax, 1, 1024, True),
    (softmax, 1, 8192, True),
    (softmax, 1, 65536, True),
    (layer_norm, 1, 1024, True),
    (layer_norm, 1, 8192, True),
    (rms_norm, 1, 2048, True),
    (total, 1, 8192, False),
    (row_sum, 1, 8192, False),
    (column_sum, 1, 8192, False),
    (argmax, 1, 8192, False),
    (jnp.transpose, 1, 8192, True),
    (cumsum, 1, 1024, True),
]

for dtype, short in ((jnp.float32, "f32"), (jnp.bfloat16, "bf16")):
    for function, reads, row, writes in PROGRAMS:
        folder = args.dir / f"{function.__name__}_{row}_{short}"
        folder.mkdir(parents=True, exist_ok=True)
        shape = jax.ShapeDtypeStruct((N // row, row), dtype)
        (folder / "program.mlir").write_text(jax.jit(function).lower(*[shape] * reads).as_text())
        (folder / "bytes").write_text(str((reads + writes) * N * jnp.dtype(dtype).itemsize))
