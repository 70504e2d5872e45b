#!/usr/bin/env python3
"""Runs kernels that `zmlc bisect --dump` or `conformance --dump-kernels` wrote in an emulator of AMD GPUs.

    emulate.py DUMP --emulator FILE.py [--jobs N] [--per-emitter N] [--filter RE] [--json FILE]

FILE.py has a function run_hsaco(code, kernel, grid, block, args): `code` is the path of a code object, `grid` counts
workgroups, arrays among `args` are buffers, and it returns what the buffers hold afterwards, in order. Kernels run in
processes that are replaced when one crashes or hangs, which is one failed line. Needs numpy.
"""
import argparse, json, os, pathlib, re, subprocess, sys, threading, time


def number(array, dtype, np):
    """The array as numbers: numpy has no bfloat16 of its own."""
    if dtype == "bf16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in ("f16", "f32", "f64"):
        return array.astype(np.float64)
    return array


def difference(found, want, arg, np):
    """The first element that is wrong, as text, or None."""
    x, y = number(found, arg["dtype"], np).ravel(), number(want, arg["dtype"], np).ravel()
    with np.errstate(invalid="ignore"):
        good = x == y
        if arg["relative"]:
            good |= np.isnan(x) & np.isnan(y)
            good |= np.isfinite(y) & (np.abs(x - y) <= arg["absolute"] + arg["relative"] * np.abs(y))
    if good.all():
        return None
    at = int(np.argmin(good))
    return f"{arg['file']}[{at}] is {x[at]} instead of {y[at]}; {int((~good).sum())} of {x.size} differ"


def one(folder, emulator, np):
    """Runs the kernel of a folder; what is wrong with it, or None."""
    k = json.loads((folder / "kernel.json").read_text())
    plain = lambda a: np.ascontiguousarray(a.view(np.uint16) if a.dtype.kind == "V" else a)
    buffers = [plain(np.load(folder / a["file"])) for a in k["args"]]
    before = [b.copy() for b in buffers]
    values = buffers + [np.uint32(s) for s in k["scalars"]]
    found = emulator.run_hsaco(str(folder / k["code"]), k["kernel"], tuple(k["grid"]), tuple(k["block"]), values)
    for a, f, b in zip(k["args"], found, before):
        if "expected" in a:
            wrong = difference(f, plain(np.load(folder / a["expected"])), a, np)
            if wrong:
                return wrong
        elif f.tobytes() != b.tobytes():
            return f"{a['file']} was written, and is only read"
    return None


def worker(file):
    """Folders on standard input, a line of JSON for each on standard output."""
    import importlib.util
    import numpy as np

    # What an emulator prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spec = importlib.util.spec_from_file_location("emulator", file)
    emulator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(emulator)
    for line in sys.stdin:
        try:
            wrong = one(pathlib.Path(line.strip()), emulator, np)
        except Exception as e:
            wrong = f"{type(e).__name__}: {e}"
        print(json.dumps(wrong), file=answers, flush=True)


class Worker:
    """A process that runs one kernel after another, and is replaced when one crashes or hangs."""

    def __init__(self, emulator, limit):
        self.command = [sys.executable, os.path.abspath(__file__), "-", "--emulator", emulator]
        self.limit, self.process = limit, None

    def run(self, folder):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        late = threading.Timer(self.limit, self.process.kill)
        late.start()
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        in_time = late.is_alive()
        late.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.process = None
        return f"the emulator ended with {code}" if in_time else "over the time limit"


def work(queue, args, total, results, lock):
    w = Worker(args.emulator, args.time_limit)
    while True:
        with lock:
            if not queue:
                break
            (target, emitter), folder = queue.pop(0)
        begin = time.monotonic()
        wrong = w.run(folder.absolute())
        seconds = time.monotonic() - begin
        name = folder.relative_to(args.dump)
        with lock:
            results.append(dict(kernel=str(name), target=target, emitter=emitter, wrong=wrong, seconds=round(seconds, 2)))
            word = "failed" if wrong else "passed"
            print(f"{word} {len(results)}/{total} {target} {emitter} {name} {seconds:.1f} s {wrong or ''}".rstrip(), flush=True)
    if w.process:
        w.process.stdin.close()
        w.process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dump", type=pathlib.Path)
    p.add_argument("--emulator", required=True)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--per-emitter", type=int, help="at most so many kernels of each emitter and target, spread over the dump")
    p.add_argument("--most-threads", type=int, default=1 << 14, help="leave out launches of more threads: emulators are slow")
    p.add_argument("--filter", type=re.compile)
    p.add_argument("--time-limit", type=float, default=300)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    if str(a.dump) == "-":
        return worker(a.emulator)

    groups, large = {}, 0
    for file in sorted(a.dump.rglob("kernel.json")):
        k = json.loads(file.read_text())
        threads = 1
        for n in k["grid"] + k["block"]:
            threads *= n
        if a.filter and not a.filter.search(str(file.parent)):
            continue
        if threads > a.most_threads:
            large += 1
            continue
        groups.setdefault((k["target"], k["emitter"]), []).append(file.parent)
    chosen = []
    for key, folders in sorted(groups.items()):
        n = min(len(folders), a.per_emitter or len(folders))
        chosen += [(key, folders[i * len(folders) // n]) for i in range(n)]
    # Emitters and targets by turns, so that an interrupted run has seen all of them.
    place = {key: 0 for key in groups}
    order = []
    for key, folder in chosen:
        order.append((place[key], key, folder))
        place[key] += 1
    order.sort()
    queue, results, lock = [(key, folder) for _, key, folder in order], [], threading.Lock()
    threads = [threading.Thread(target=work, args=(queue, a, len(chosen), results, lock)) for _ in range(a.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print()
    for target, emitter in sorted(groups):
        these = [r for r in results if (r["target"], r["emitter"]) == (target, emitter)]
        print(f"{target:<16} {emitter:<28} {sum(not r['wrong'] for r in these)} of {len(these)} right, {len(groups[target, emitter])} in the dump")
    failed = sum(bool(r["wrong"]) for r in results)
    print(f"{len(results) - failed} passed, {failed} failed, {large} too large")
    if a.json:
        a.json.write_text(json.dumps(results, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
