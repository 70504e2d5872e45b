"""Compares cuBLAS trimmed by zml-trim with cuBLAS as it came, bit for bit, on the GPU of this machine.

    python3 tools/trim_on_gpu.py target/release/zml-trim

It needs PyTorch for CUDA, whose own copies of libcublas and libcublasLt are trimmed to a folder of their own and put
before them. A library cut for another architecture has to give an error.
"""
import glob, hashlib, os, subprocess, sys, tempfile

NAMES = ["libcublasLt.so", "libcublas.so"]


def results():
    """One line a product: what it was and the SHA-256 of its bytes."""
    import torch

    # The libraries in use, so that nothing else than what was meant is compared.
    torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
    for line in open("/proc/self/maps"):
        if "libcublasLt.so" in line and " r-xp " in line:
            print("uses", line.split()[-1], file=sys.stderr)
            break

    def random(shape, dtype, seed):
        g = torch.Generator(device="cpu").manual_seed(seed)
        if dtype == torch.int8:
            return torch.randint(-128, 128, shape, generator=g, dtype=torch.int8).cuda()
        return torch.randn(shape, generator=g).to(dtype).cuda()

    shapes = [(1, 64, 64), (16, 256, 128), (17, 129, 65), (32, 2048, 2048), (128, 512, 1024), (333, 777, 555),
              (512, 4096, 1024), (1024, 1024, 1024), (2048, 64, 8192), (8, 32000, 2048)]
    f8 = getattr(torch, "float8_e4m3fn", None)
    for i, (m, n, k) in enumerate(shapes):
        for kind in ["f64", "f32", "tf32", "f16", "bf16", "int8", "f8", "f32t", "bf16t", "batched"]:
            try:
                torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
                dtype = {"f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "bf16t": torch.bfloat16,
                         "int8": torch.int8, "f8": f8}.get(kind, torch.float32)
                if kind in ("int8", "f8") and (m < 17 or m % 16 or n % 16 or k % 16):
                    continue
                a, b = random((m, k), dtype, i), random((k, n), dtype, i + 100)
                if kind == "int8":
                    c = torch._int_mm(a, b)
                elif kind == "f8":
                    one = torch.ones((), device="cuda")
                    c = torch._scaled_mm(a, b.t().contiguous().t(), one, one, out_dtype=torch.bfloat16)
                elif kind.endswith("t"):
                    c = a @ random((n, k), dtype, i + 100).t()
                elif kind == "batched":
                    c = torch.bmm(random((3, m, k), dtype, i), random((3, k, n), dtype, i + 50))
                else:
                    c = a @ b
                data = c.contiguous().view(torch.uint8).cpu().numpy().tobytes()
                print(kind, m, n, k, hashlib.sha256(data).hexdigest())
            except Exception as e:
                print(kind, m, n, k, "error", str(e).splitlines()[0][:100])


def child(folder, loading):
    env = dict(os.environ, CUDA_MODULE_LOADING=loading)
    if folder:
        env["LD_PRELOAD"] = ":".join(sorted(glob.glob(folder + "/*.so*"), key=lambda f: "Lt" not in f))
    return subprocess.run([sys.executable, __file__, "--results"], env=env, capture_output=True, text=True)


def main(zml_trim):
    import torch

    major, minor = torch.cuda.get_device_capability()
    arch, other = f"sm_{major}{minor}", "sm_80" if major != 8 else "sm_90"
    roots = [os.path.dirname(os.path.dirname(torch.__file__)) + "/**/", "/usr/local/cuda*/**/"]
    found = {}
    for name in NAMES:
        for root in roots:
            hits = [p for p in sorted(glob.glob(root + name + "*", recursive=True)) if not os.path.islink(p)]
            if hits:
                found.setdefault(name, hits[0])
    print("PyTorch", torch.__version__, "on", torch.cuda.get_device_name(), arch, found)
    failed = False
    with tempfile.TemporaryDirectory() as work:
        for a in (arch, other):
            os.mkdir(f"{work}/{a}")
            for path in found.values():
                subprocess.run([zml_trim, path, "-o", f"{work}/{a}/{os.path.basename(path)}", "--arch", a], check=True)
        for loading in ("LAZY", "EAGER"):
            whole, cut = child(None, loading), child(f"{work}/{arch}", loading)
            a, b = whole.stdout.splitlines(), cut.stdout.splitlines()
            same = sum(x == y for x, y in zip(a, b))
            errors = sum(" error " in x for x in a)
            print(f"{loading}: {same} of {len(a)} the same ({errors} of them errors in both)", cut.stderr.strip()[-300:])
            for x, y in zip(a, b):
                if x != y:
                    print("  whole:", x, "\n  cut:  ", y)
            failed |= same != len(a) or not a or errors * 2 > len(a)
        wrong = child(f"{work}/{other}", "LAZY")
        numbers = [x for x in wrong.stdout.splitlines() if " error " not in x]
        differ = [x for x in numbers if x not in a]
        print(f"cut for {other}: exit {wrong.returncode}, {len(numbers)} numbers, {len(differ)} of them wrong",
              wrong.stderr.strip().splitlines()[-1:])
        failed |= bool(differ)
    sys.exit(failed)


if __name__ == "__main__":
    results() if sys.argv[1] == "--results" else main(sys.argv[1])
