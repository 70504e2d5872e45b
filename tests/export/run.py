#!/usr/bin/env python3
"""Runs the snippets of docs/export.md as they stand there, builds what they write and compares with the framework's output.

    python tests/export/run.py [--zmlc target/debug/zmlc] [--only jax] [--device vulkan]

Wants the packages that the document names; a snippet whose framework is not installed is shown as skipped.
"""
import argparse
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDS = {
    "jax": ["jax", "safetensors"],
    "torch": ["torch", "torchax", "jax", "safetensors"],
    "transformers": ["transformers", "torch", "torchax", "jax", "safetensors"],
}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--zmlc", default=ROOT / "target/debug/zmlc", type=pathlib.Path)
    options.add_argument("--only")
    options.add_argument("--device", default="vulkan")
    args = options.parse_args()
    text = (ROOT / "docs/export.md").read_text()
    snippets = dict(re.findall(r"^```python (\w+)\n(.*?)^```$", text, re.M | re.S))
    assert snippets.keys() == NEEDS.keys(), f"the document has {list(snippets)}"
    failed = False
    for name, code in snippets.items():
        if args.only not in (None, name):
            continue
        missing = [p for p in NEEDS[name] if importlib.util.find_spec(p) is None]
        if missing:
            print(f"{name}: skipped, not installed: {', '.join(missing)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed |= not one(name, code, pathlib.Path(folder), args)
    sys.exit(failed)


def one(name, code, folder, args):
    import numpy as np

    def run(*command):
        r = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
        if r.returncode:
            print(f"{name}: {command[1]} failed\n{r.stdout}{r.stderr}")
        return r if r.returncode == 0 else None

    (folder / "snippet.py").write_text(code)
    if not run(sys.executable, "snippet.py"):
        return False
    zmlc = args.zmlc.resolve()
    listed = run(zmlc, "init", "program.mlir", "--weights", "model.safetensors", "--name", "m", "--message-format", "json")
    if not listed or not run(zmlc, "build", "model.toml", "--target", args.device, "-o", "out"):
        return False
    listed = json.loads(listed.stdout.splitlines()[-1])
    inputs = [a["name"] for a in listed["arguments"] if not a["role"].startswith("weight ")]
    weights = len(listed["arguments"]) - len(inputs)
    if inputs != ["x"] or listed["unmatched"]:
        print(f"{name}: inputs {inputs}, weights without an argument {listed['unmatched']}")
        return False
    if not run(zmlc, "run", "out/m.zml", "--device", args.device, "--input", "x=x.npy", "--output", "0=y.npy"):
        return False
    found, expected = np.load(folder / "y.npy"), np.load(folder / "expected.npy")
    worst = float(np.abs(found - expected).max())
    good = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-4, atol=1e-5)
    print(f"{name}: {'ok' if good else 'FAILED'}, {weights} weights matched by name, largest difference {worst:.1e}")
    return good


main()
