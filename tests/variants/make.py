#!/usr/bin/env python3
"""Writes fixtures/variants: two layers of one transformer, as several people would write them, exported by JAX.

    python3 tests/variants/make.py fixtures/variants          needs jax==0.10.2 and flax

`hand` has separate matrices for queries, keys and values, `fused` one; `scan` is `hand` as a loop over stacked layers;
`flax` is linen's MultiHeadDotProductAttention and LayerNorm, whose softmax is of the model's own type; `torch` goes as
torch.nn.TransformerEncoderLayer decomposes: sequence first, one matrix, rows without a position get zeros.
"""
import math, pathlib, sys
import flax.linen as nn
import jax, jax.numpy as jnp

BATCH, LENGTH, WIDTH, HEADS, HIDDEN, LAYERS = 2, 32, 64, 4, 128, 2
HEAD = WIDTH // HEADS
CAUSAL = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))


def norm(x, scale, bias):
    y = x.astype(jnp.float32)
    mean = y.mean(-1, keepdims=True)
    variance = ((y - mean) ** 2).mean(-1, keepdims=True)
    return ((y - mean) * jax.lax.rsqrt(variance + 1e-5)).astype(x.dtype) * scale + bias


def masked(scores, mask):
    if mask == "predicate":
        return jnp.where(CAUSAL, scores, -1e30)
    return scores + jnp.where(CAUSAL, 0.0, -1e9).astype(scores.dtype) if mask == "float" else scores


def attention(q, k, v, mask):
    groups = HEADS // k.shape[2]
    q = q.reshape(BATCH, LENGTH, k.shape[2], groups, HEAD)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k, preferred_element_type=jnp.float32) / math.sqrt(HEAD)
    weights = jax.nn.softmax(masked(scores, mask), -1).astype(v.dtype)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(BATCH, LENGTH, WIDTH)


def layer(p, x, mask):
    h = norm(x, p["scale1"], p["bias1"])
    if "qkv" in p:
        q, k, v = jnp.split(h @ p["qkv"], 3, -1)
    else:
        q, k, v = h @ p["q"], h @ p["k"], h @ p["v"]
    q, k, v = (t.reshape(BATCH, LENGTH, -1, HEAD) for t in (q, k, v))
    x = x + attention(q, k, v, mask) @ p["o"]
    return x + jax.nn.gelu(norm(x, p["scale2"], p["bias2"]) @ p["up"]) @ p["down"]


def parameters(dtype, shared=HEADS, fused=False, stacked=()):
    shapes = {"scale1": (WIDTH,), "bias1": (WIDTH,), "scale2": (WIDTH,), "bias2": (WIDTH,)}
    shapes |= {"o": (WIDTH, WIDTH), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    if fused:
        shapes["qkv"] = (WIDTH, 3 * WIDTH)
    else:
        shapes |= {"q": (WIDTH, WIDTH), "k": (WIDTH, shared * HEAD), "v": (WIDTH, shared * HEAD)}
    return {name: jax.ShapeDtypeStruct((*stacked, *s), dtype) for name, s in shapes.items()}


def lowered(one, params, dtype):
    def model(params, x):
        for p in params:
            x = one(p, x)
        return x

    return jax.jit(model).lower([params] * LAYERS, jax.ShapeDtypeStruct((BATCH, LENGTH, WIDTH), dtype))


def hand(dtype, mask="predicate", shared=HEADS, fused=False):
    return lowered(lambda p, x: layer(p, x, mask), parameters(dtype, shared, fused), dtype)


def scan(dtype):
    step = lambda x, p: (layer(p, x, "predicate"), None)
    model = lambda params, x: jax.lax.scan(step, x, params)[0]
    x = jax.ShapeDtypeStruct((BATCH, LENGTH, WIDTH), dtype)
    return jax.jit(model).lower(parameters(dtype, stacked=(LAYERS,)), x)


def flax(dtype):
    kinds = {"dtype": dtype, "param_dtype": dtype}

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            mask = nn.make_causal_mask(jnp.ones((BATCH, LENGTH)))
            for _ in range(LAYERS):
                h = nn.LayerNorm(epsilon=1e-5, **kinds)(x)
                x = x + nn.MultiHeadDotProductAttention(HEADS, use_bias=False, **kinds)(h, mask=mask)
                h = nn.Dense(HIDDEN, use_bias=False, **kinds)(nn.LayerNorm(epsilon=1e-5, **kinds)(x))
                x = x + nn.Dense(WIDTH, use_bias=False, **kinds)(nn.gelu(h))
            return x

    x = jax.ShapeDtypeStruct((BATCH, LENGTH, WIDTH), dtype)
    return jax.jit(Model().apply).lower(jax.eval_shape(Model().init, jax.random.key(0), x), x)


def torch(dtype):
    def linear(x, w):
        y = x.reshape(-1, x.shape[-1]) @ w
        return (y * jnp.ones_like(y)).reshape(*x.shape[:-1], w.shape[1])

    def one(p, x):
        h = norm(x, p["scale1"], p["bias1"]).transpose(1, 0, 2)
        qkv = linear(h, p["qkv"]).reshape(LENGTH, BATCH, 3, WIDTH)[None].transpose(3, 1, 2, 0, 4)[:, :, :, 0]
        heads = lambda t: t.reshape(LENGTH, BATCH * HEADS, HEAD).transpose(1, 0, 2).reshape(BATCH, HEADS, LENGTH, HEAD)
        q, k, v = (heads(t) for t in qkv)
        root = jnp.asarray(HEAD**-0.25, dtype)
        after = jnp.arange(LENGTH)[None, :] - jnp.arange(LENGTH)[:, None] >= 1
        scores = (q * root) @ (k.transpose(0, 1, 3, 2) * root) + jnp.where(after, -jnp.inf, 0.0).astype(dtype)
        e = jnp.exp(scores - scores.max(-1, keepdims=True))
        nothing = ~jnp.any(scores != -jnp.inf, -1, keepdims=True)
        weights = jnp.where(nothing, 0.0, e / e.sum(-1, keepdims=True)).astype(dtype)
        out = linear((weights @ v).transpose(2, 0, 1, 3).reshape(LENGTH * BATCH, WIDTH), p["o"])
        x = x + out.reshape(LENGTH, BATCH, WIDTH).transpose(1, 0, 2)
        h = jax.nn.gelu(linear(norm(x, p["scale2"], p["bias2"]), p["up"]), approximate=False)
        return x + linear(h, p["down"])

    return lowered(one, parameters(dtype, fused=True), dtype)


def main(folder):
    f32, f16, bf16 = jnp.float32, jnp.float16, jnp.bfloat16
    all = {"hand_f32": hand(f32), "hand_bf16": hand(bf16), "grouped_f16": hand(f16, shared=2), "one_head_f32": hand(f32, shared=1)}
    all |= {"added_mask_f32": hand(f32, "float"), "no_mask_bf16": hand(bf16, None), "scan_f32": scan(f32), "scan_bf16": scan(bf16)}
    all |= {"flax_f32": flax(f32), "flax_bf16": flax(bf16), "fused_f32": hand(f32, fused=True), "fused_bf16": hand(bf16, fused=True)}
    all |= {"torch_f32": torch(f32), "torch_f16": torch(f16)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in all.items():
        (folder / f"{name}.mlir").write_text(program.as_text())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1])) if len(sys.argv) == 2 else sys.exit(__doc__)
