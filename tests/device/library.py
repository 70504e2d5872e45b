#!/usr/bin/env python3
"""Matrix products through cublasLt on a device: whole against cut for its architecture, bit by bit, and near the truth.

    library.py write DIR                       programs: DIR/NAME/program.mlir
    library.py check DIR ZML_RUN ZML_TRIM LIB  runs the artifacts DIR/NAME/NAME.zml, which were built with
                                               `gemm = "library"` for cuda:sm_90a; needs numpy

LIB: a folder with libcublasLt.so.N as NVIDIA ships it. It is cut here for sm_90a, loaded lazily and eagerly, and for
sm_75, which has to end in an error.
"""
import itertools, os, pathlib, shutil, subprocess, sys, tempfile

SHAPES = [(16, 32, 64), (128, 128, 128), (512, 768, 256), (2048, 1024, 4096), (48, 4096, 16)]
# Name: element type of the factors, of the result, the algorithm's part of the text, error allowed beside the largest value.
TF32 = (
    ", algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1,"
    " rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>"
)
KINDS = {
    "f32": ("f32", "f32", "", 1e-5),
    "tf32": ("f32", "f32", TF32, 2e-3),
    "f16": ("f16", "f32", "", 1e-5),
    "bf16": ("bf16", "f32", "", 1e-5),
    "f8": ("f8E4M3FN", "f32", "", 1e-3),
    "i8": ("i8", "i32", "", 0),
}
# Along k for both, as all libraries can. The factors are computed on the device, from small whole numbers.
PROGRAM = """func.func @main(%x: tensor<{m}x{k}xi8>, %y: tensor<{n}x{k}xi8>) -> tensor<{m}x{n}x{to}> {{
  %a = {a}
  %b = {b}
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1]{algorithm} : (tensor<{m}x{k}x{t}>, tensor<{n}x{k}x{t}>) -> tensor<{m}x{n}x{to}>
  return %r : tensor<{m}x{n}x{to}>
}}
"""


def cases():
    for kind, (m, n, k) in itertools.product(KINDS, SHAPES):
        yield f"{kind}_{m}x{n}x{k}", kind, (m, n, k)


def write(folder):
    for name, kind, (m, n, k) in cases():
        t, to, algorithm, _ = KINDS[kind]
        (folder / name).mkdir(parents=True, exist_ok=True)
        if t == "i8":
            a, b = f"stablehlo.not %x : tensor<{m}x{k}xi8>", f"stablehlo.not %y : tensor<{n}x{k}xi8>"
        else:
            a, b = (f"stablehlo.convert %{v} : (tensor<{r}x{k}xi8>) -> tensor<{r}x{k}x{t}>" for v, r in [("x", m), ("y", n)])
        program = PROGRAM.format(m=m, n=n, k=k, t=t, to=to, algorithm=algorithm, a=a, b=b)
        (folder / name / "program.mlir").write_text(program)


def check(folder, zml_run, zml_trim, whole):
    import numpy as np

    library = next(pathlib.Path(whole).glob("libcublasLt.so*"))
    scratch = pathlib.Path(tempfile.mkdtemp())
    cut = {}
    for arch in ["sm_90a", "sm_75"]:
        cut[arch] = scratch / arch
        cut[arch].mkdir()
        for other in pathlib.Path(whole).glob("*.so*"):
            if other.name != library.name:
                (cut[arch] / other.name).symlink_to(other)
        subprocess.run([zml_trim, library, "-o", cut[arch] / library.name, "--arch", arch], check=True)
        print(f"{library.name}: {library.stat().st_size:,} bytes, for {arch} {(cut[arch] / library.name).stat().st_size:,}")

    def run(name, libraries, loading):
        out = scratch / "out.npy"
        out.unlink(missing_ok=True)
        command = [zml_run, folder / name / f"{name}.zml", "--device", "cuda", "--libraries", libraries, "--no-cache"]
        command += ["--input", f"arg0={scratch}/x.npy", "--input", f"arg1={scratch}/y.npy", "--output", f"out0={out}"]
        ended = subprocess.run(command, env={**os.environ, "CUDA_MODULE_LOADING": loading}, capture_output=True, text=True)
        return (np.load(out), "") if ended.returncode == 0 else (None, ended.stderr.strip())

    wrong = 0
    for name, kind, (m, n, k) in cases():
        _, _, _, allowed = KINDS[kind]
        rng = np.random.default_rng(m + n + k)
        x, y = (rng.integers(-8, 8, (rows, k), dtype=np.int8) for rows in (m, n))
        np.save(scratch / "x.npy", x), np.save(scratch / "y.npy", y)
        results = {(at, how): run(name, where, how) for at, where in [("whole", whole), ("cut", cut["sm_90a"])] for how in ["LAZY", "EAGER"]}
        first, why = results["whole", "LAZY"]
        if first is None:
            wrong += 1
            print(f"{name}: {why}")
            continue
        a, b = (~x, ~y) if kind == "i8" else (x, y)
        true = a.astype(np.float64) @ b.astype(np.float64).T
        error = np.abs(first - true).max() / max(np.abs(true).max(), 1)
        same = all(r is not None and r.tobytes() == first.tobytes() for r, _ in results.values())
        wrong += not same or error > allowed
        print(f"{name}: {'equal' if same else 'DIFFERENT ' + str([e for _, e in results.values() if e][:1])}, error {error:.1e}")
    name = next(cases())[0]
    found, why = run(name, cut["sm_75"], "LAZY")
    print(f"cut for another GPU: {why or 'NO ERROR'}")
    wrong += found is not None
    shutil.rmtree(scratch)
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder]:
            write(pathlib.Path(folder))
        case ["check", folder, zml_run, zml_trim, whole]:
            sys.exit(check(pathlib.Path(folder), zml_run, zml_trim, whole) > 0)
        case _:
            sys.exit(__doc__)
