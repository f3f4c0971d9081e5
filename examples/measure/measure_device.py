#!/usr/bin/env python3
"""Measures what kernels take on the device at hand, for `stepsim kernels --score`, `cost.table` and `learn`.

    python3 measure_device.py --device h200-sxm --out rows.jsonl          the whole measurement, about 15 minutes
    python3 measure_device.py --small --out rows.jsonl                    a minute, also on a CPU
    python3 measure_device.py --kernels kernels.jsonl --out times.jsonl   a step's own kernels (`stepsim inspect --kernels`)

`stepsim learn times.jsonl --workload …` makes prices of the last. Needs PyTorch only. Every row is one JSON object with the columns of `stepsim::cost::measured`: GEMMs by the shapes of
the models and a grid, attention by length and head size both ways, kernels that memory bounds, launches, copies to and
from the host with and without a GEMM beside them. `--profile DIR` also writes PyTorch profiles of a transformer block
and of a step of eight layers (eager, compiled, with activation offload), which `stepsim analyze` reads; `--table FILE`
writes the GEMMs as the `cost.table` of a device file.

What is measured: random normal operands (constant ones draw less power and run faster), operands larger than the
cache in turns, and by default *long runs*: each kernel is repeated for `--seconds` without a pause and the second half
counts, so that clocks are those that power and heat leave (`"sustained": true`). `--short` takes the best of short runs
with pauses instead (`"sustained": false`). Never mix the two kinds in one device file.
"""

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

# m = tokens of a micro-batch; hidden, ffn (as one matrix), QKV width, projection width of one rank.
MODELS = {
    "gpt3-13b": dict(tokens=2048, hidden=5120, up=20480, down=20480, qkv=15360, proj=5120, vocabulary=51200),
    "gpt3-175b tp8": dict(tokens=2048, hidden=12288, up=6144, down=6144, qkv=4608, proj=1536, vocabulary=6400),
    "llama3-8b": dict(tokens=8192, hidden=4096, up=28672, down=14336, qkv=6144, proj=4096, vocabulary=128256),
    "llama3-70b tp8": dict(tokens=8192, hidden=8192, up=7168, down=3584, qkv=1280, proj=1024, vocabulary=16032),
    "llama3-405b tp8": dict(tokens=8192, hidden=16384, up=13312, down=6656, qkv=2304, proj=2048, vocabulary=16032),
    "deepseek-v3 experts": dict(tokens=4096, hidden=7168, up=4096, down=2048, qkv=1536, proj=16384, vocabulary=16160),
}


def gemm_shapes(small):
    """(m, n, k, direction) of forward, input gradient and weight gradient."""
    if small:
        forward = [(256, 256, 256), (512, 256, 1024)]
    else:
        grid = [1024, 2048, 4096, 8192, 16384]
        forward = [(m, n, k) for m in grid for n in grid for k in grid if 2 * m * n * k >= 4e9]
        for s in MODELS.values():
            t, h = s["tokens"], s["hidden"]
            forward += [(t, s["up"], h), (t, h, s["down"]), (t, s["qkv"], h), (t, h, s["proj"]), (t, s["vocabulary"], h)]
    for m, n, k in dict.fromkeys(forward):
        yield m, n, k, "fwd"
        yield m, k, n, "bwd (input grad)"
        yield n, k, m, "bwd (weight grad)"


class Clock:
    """Times a call: long runs without a pause, or the best of short ones."""

    def __init__(self, device, seconds, short):
        self.cuda, self.seconds, self.short = device.type == "cuda", seconds, short

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def batch(self, call, count):
        """Seconds of one call, in a batch of `count`."""
        self.synchronize()
        if self.cuda:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(count):
                call()
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end) * 1e-3 / count
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begin) / count

    def __call__(self, call):
        for _ in range(3):
            call()
        one = max(self.batch(call, 3), 1e-7)
        count = max(1, min(200, math.ceil(0.02 / one)))
        if self.short:
            best = []
            for _ in range(6):
                time.sleep(0.05)
                best.append(self.batch(call, min(count, 6)))
            return min(best)
        times, begin = [], time.perf_counter()
        while time.perf_counter() - begin < self.seconds or len(times) < 4:
            times.append(self.batch(call, count))
        return statistics.median(times[len(times) // 2 :])


class Rows:
    """Writes rows as they come."""

    def __init__(self, path, device, software, sustained):
        self.file = sys.stdout if path == "-" else open(path, "w")
        self.common = dict(source="measure_device.py", device=device, software=software, sustained=sustained)
        self.gemms, self.count = [], 0

    def add(self, seconds, op, flops=None, moved=None, **columns):
        self.count += 1
        row = dict(id=f"measured/{self.count:05}", **self.common)
        row.update(op=op, **columns)
        row["time_ms"] = seconds * 1e3
        if flops:
            row["tflops"] = flops / seconds / 1e12
        if moved:
            row["bandwidth_gbps"] = moved / seconds / 1e9
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        if op == "gemm" and columns.get("dtype") == "bf16" and "tflops" in row:
            self.gemms.append((columns, row["tflops"]))


class Turns:
    """Operands in turns, so that they come from memory and not from the cache."""

    def __init__(self, make, size, cache=256 << 20):
        self.sets = [make() for _ in range(max(1, min(8, math.ceil(cache / max(size, 1)))))]
        self.next = 0

    def take(self):
        self.next = (self.next + 1) % len(self.sets)
        return self.sets[self.next]


def attempt(what, measure):
    """A kernel that this device or PyTorch lacks is left out, visibly."""
    try:
        measure()
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as e:
        print(f"left out: {what}: {str(e).splitlines()[0] if str(e) else type(e).__name__}", file=sys.stderr)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def measure_gemms(rows, clock, device, dtype, small):
    for m, n, k, direction in gemm_shapes(small):
        flops = 2 * m * n * k

        def bf16():
            def make():
                a = torch.randn(m, k, device=device, dtype=dtype)
                # Operands lie as autograd leaves them: TN forward, NN for the input, NT for the weight.
                if direction == "fwd":
                    return a, torch.randn(n, k, device=device, dtype=dtype).t()
                if direction == "bwd (input grad)":
                    return a, torch.randn(k, n, device=device, dtype=dtype)
                return torch.randn(k, m, device=device, dtype=dtype).t(), torch.randn(k, n, device=device, dtype=dtype)

            turns = Turns(make, (m * k + k * n) * dtype.itemsize)
            out = torch.empty(m, n, device=device, dtype=dtype)
            seconds = clock(lambda: torch.mm(*turns.take(), out=out))
            rows.add(seconds, "gemm", flops=flops, dtype="bf16", m=m, n=n, k=k, direction=direction, accumulate=False)

        attempt(f"gemm {m}x{n}x{k} {direction}", bf16)
        if direction != "fwd" or device.type != "cuda" or not hasattr(torch, "_scaled_mm"):
            continue

        def fp8():
            one = torch.ones((), device=device)
            a = torch.randn(m, k, device=device).to(torch.float8_e4m3fn)
            b = torch.randn(n, k, device=device).to(torch.float8_e4m3fn).t()
            seconds = clock(lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=dtype))
            rows.add(seconds, "gemm", flops=flops, dtype="fp8", m=m, n=n, k=k, direction=direction, accumulate=False)

        attempt(f"fp8 gemm {m}x{n}x{k}", fp8)


def measure_attention(rows, clock, device, dtype, small):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = {"math": SDPBackend.MATH}
    if device.type == "cuda":
        kernels = {"PyTorch SDPA flash (FA2)": SDPBackend.FLASH_ATTENTION, "PyTorch SDPA cuDNN": SDPBackend.CUDNN_ATTENTION}
    lengths = [128] if small else [1024, 2048, 4096, 8192, 16384, 32768]
    for software, backend in kernels.items():
        for s in lengths:
            for heads, kv_heads, d in [(4, 4, 64)] if small else [(32, 32, 128), (32, 8, 128), (8, 1, 128), (32, 32, 64)]:
                for causal in (True, False):
                    batch = 1

                    def both():
                        shape = lambda h: torch.randn(batch, h, s, d, device=device, dtype=dtype, requires_grad=True)
                        q, k, v = shape(heads), shape(kv_heads), shape(kv_heads)
                        run = lambda: F.scaled_dot_product_attention(
                            q, k, v, is_causal=causal, **({"enable_gqa": True} if kv_heads != heads else {})
                        )
                        common = dict(dtype="bf16", batch=batch, seq=s, heads=heads, kv_heads=kv_heads, head_dim=d)
                        common.update(v_head_dim=d, causal=causal, software=software)
                        forward = 4 * batch * heads * s * s * d * (0.5 if causal else 1)
                        with sdpa_kernel(backend):
                            with torch.no_grad():
                                rows.add(clock(run), "attention", flops=forward, direction="fwd", **common)
                            out = run()
                            gradient = torch.randn_like(out)
                            back = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
                            rows.add(clock(back), "attention", flops=2.5 * forward, direction="bwd", **common)

                    attempt(f"attention {software} {s} {heads}/{kv_heads} {d}", both)


def measure_memory_bound(rows, clock, device, dtype, small):
    shapes = [(64, 256)] if small else [(1024, 4096), (4096, 4096), (8192, 4096), (8192, 8192), (4096, 16384), (16384, 8192)]
    e = dtype.itemsize
    eager = dict(dtype="bf16", software="PyTorch eager")
    for m, n in shapes:
        new = lambda *size: torch.randn(*(size or (m, n)), device=device, dtype=dtype)
        x = n * m

        def point(op, tensors, call, make=None, **more):
            turns = Turns(make or (lambda: tuple(new() for _ in range(2))), 2 * x * e)
            rows.add(clock(lambda: call(*turns.take())), op, moved=tensors * x * e, m=m, n=n, **{**eager, **more})

        weight = new(n)
        attempt("copy", lambda: point("hbm_copy", 2, lambda a, b: b.copy_(a)))
        attempt("sum", lambda: point("hbm_read", 1, lambda a, b: a.sum()))
        attempt("add", lambda: point("residual_add", 3, lambda a, b: torch.add(a, b, out=a)))
        attempt("layer norm", lambda: point("layer_norm", 2, lambda a, b: F.layer_norm(a, (n,), weight, weight), direction="fwd"))
        if hasattr(F, "rms_norm"):
            attempt("rms norm", lambda: point("rms_norm", 2, lambda a, b: F.rms_norm(a, (n,), weight), direction="fwd"))
        for op, norm in [("layer_norm", lambda a, w: F.layer_norm(a, (n,), w, w)), ("rms_norm", lambda a, w: F.rms_norm(a, (n,), w))]:

            def backward():
                w = weight.clone().requires_grad_()
                a = new().requires_grad_()
                out, gradient = norm(a, w), new()
                seconds = clock(lambda: torch.autograd.grad(out, (a, w), gradient, retain_graph=True))
                rows.add(seconds, op, moved=3 * x * e, m=m, n=n, direction="bwd", **eager)

            attempt(f"{op} backward", backward)
        attempt("gelu", lambda: point("gelu", 2, lambda a, b: F.gelu(a), direction="fwd"))
        if device.type == "cuda":
            gated = torch.compile(lambda a, b: F.silu(a) * b)
            attempt("swiglu", lambda: point("swiglu", 3, gated, direction="fwd", software="torch.compile"))
        attempt("softmax", lambda: point("softmax", 2, lambda a, b: torch.softmax(a, -1), direction="fwd"))
        attempt("transpose", lambda: point("transpose", 2, lambda a, b: a.t().contiguous()))
        attempt("amax", lambda: point("amax", 1, lambda a, b: a.abs().amax(), software="PyTorch eager, two kernels"))
        if hasattr(torch, "float8_e4m3fn"):
            attempt("cast", lambda: point("quantize", 1.5, lambda a, b: a.to(torch.float8_e4m3fn)))

        def permute():
            order = torch.randperm(m, device=device)
            point("permute", 2, lambda a, b: torch.index_select(a, 0, order, out=b))

        attempt("permute", permute)

    def optimizer(fused, foreach, name):
        count = 1 << (16 if small else 26)
        weights = [torch.randn(count // 8, device=device, dtype=torch.float32, requires_grad=True) for _ in range(8)]
        for w in weights:
            w.grad = torch.randn_like(w)
        adam = torch.optim.AdamW(weights, fused=fused, foreach=foreach)
        # Reads weight, gradient and moments, writes weight and moments, in fp32.
        rows.add(clock(adam.step), "optimizer", moved=28 * count, n=count, dtype="fp32", software=name)

    attempt("fused AdamW", lambda: optimizer(True, None, "fused AdamW"))
    attempt("for-each AdamW", lambda: optimizer(None, True, "foreach AdamW"))


def kernel_call(row, device):
    """A call that runs the kernel of a row, as a training step would."""
    op, backward = row["op"], row.get("direction", "").startswith("bwd")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}.get(row["dtype"])
    if dtype is None and not (op == "gemm" and row["dtype"] == "fp8"):
        raise ValueError(f"no call for {row['dtype']}")
    new = lambda *size: torch.randn(*size, device=device, dtype=dtype or torch.bfloat16)
    if op == "gemm":
        m, n, k, batch = row["m"], row["n"], row["k"], row.get("batch", 1)
        if dtype is None:
            one = torch.ones((), device=device)
            a, b = new(m, k).to(torch.float8_e4m3fn), new(n, k).to(torch.float8_e4m3fn).t()
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        if batch > 1:
            a, b = new(batch, m, k), new(batch, k, n)
            return lambda: torch.bmm(a, b)
        sides = {"fwd": lambda: (new(m, k), new(n, k).t()), "bwd (input grad)": lambda: (new(m, k), new(k, n))}
        make = sides.get(row.get("direction"), lambda: (new(k, m).t(), new(k, n)))
        turns = Turns(make, (m * k + k * n) * dtype.itemsize)
        out = new(m, n)
        return lambda: torch.mm(*turns.take(), out=out)
    if op == "attention":
        shape = lambda heads, width: new(row["batch"], heads, row["seq"], width).requires_grad_()
        q, k = shape(row["heads"], row["head_dim"]), shape(row["kv_heads"], row["head_dim"])
        v = shape(row["kv_heads"], row["v_head_dim"])
        grouped = {"enable_gqa": True} if row["kv_heads"] != row["heads"] else {}
        run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=row["causal"], **grouped)
        if not backward:
            return run
        out = run()
        gradient = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
    if op.startswith("optimizer"):
        count = max(8, row["m"] * row["n"])
        weights = [torch.randn(count // 8, device=device, requires_grad=True) for _ in range(8)]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        each = op == "optimizer, for-each"
        return torch.optim.AdamW(weights, fused=None if each else True, foreach=True if each else None).step
    m, n = row["m"], row["n"]
    # Two operands of each size in turns; norms have a weight as wide as a row.
    turns = Turns(lambda: (new(m, n), new(m, n)), 2 * m * n * dtype.itemsize)
    weight = new(n)
    norms = {"layer_norm": lambda a, w: F.layer_norm(a, (n,), w, w), "rms_norm": lambda a, w: F.rms_norm(a, (n,), w)}
    gates = {"swiglu": lambda a, b: F.silu(a) * b, "gelu": lambda a, b: F.gelu(a)}
    if op in norms or op in gates:
        if not backward:
            call = (lambda a, b: norms[op](a, weight)) if op in norms else torch.compile(gates[op])
            return lambda: call(*turns.take())
        a, b = (x.requires_grad_() for x in turns.take())
        w = weight.requires_grad_()
        wanted = (a, w) if op in norms else (a, b) if op == "swiglu" else (a,)
        out = norms[op](a, w) if op in norms else torch.compile(gates[op])(a, b)
        gradient = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, wanted, gradient, retain_graph=True)
    order, half = torch.randperm(m, device=device), n // 2
    calls = {
        "rope": torch.compile(lambda a, b: a * weight + torch.cat((-a[:, half:], a[:, :half]), 1) * weight),
        "residual_add": lambda a, b: torch.add(a, b, out=a),
        "hbm_copy": lambda a, b: b.copy_(a),
        "elementwise": lambda a, b: b.copy_(a),
        "hbm_read": lambda a, b: a.sum(),
        "softmax": lambda a, b: torch.softmax(a, -1),
        "transpose": lambda a, b: a.t().contiguous(),
        "amax": lambda a, b: a.abs().amax(),
        "quantize": lambda a, b: a.to(torch.float8_e4m3fn),
        "permute": lambda a, b: torch.index_select(a, 0, order, out=b),
        "embedding": lambda a, b: torch.index_select(a, 0, order, out=b),
    }
    if op not in calls:
        raise ValueError(f"no call for {op}")
    return lambda: calls[op](*turns.take())


def measure_kernels(path, rows, clock, device):
    """Times the kernels of a file that `stepsim inspect --kernels` wrote; those without a call here are left out, visibly."""
    for line in Path(path).read_text().splitlines():
        row = json.loads(line)

        def one():
            columns = {key: value for key, value in row.items() if key not in ("id", "device", "op", "time_ms")}
            if "accumulate" in columns:
                columns["accumulate"] = False  # the call overwrites its output, and the row is priced as what ran
            rows.add(clock(kernel_call(row, device)), row["op"], **columns)

        attempt(f"{row['id']} ({row['op']})", one)


def measure_launches(rows, device):
    """Time of one launch: of kernels that take no time, one by one and as a graph."""
    x = torch.zeros(1, device=device)
    count = 1000

    def seconds(call):
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / count

    def eager():
        for _ in range(count):
            x.add_(1)

    eager()
    rows.add(min(seconds(eager) for _ in range(5)), "launch", software="PyTorch eager")
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eager()
        rows.add(min(seconds(graph.replay) for _ in range(5)), "launch", software="CUDA graph")


def measure_host_copies(rows, clock, device, small):
    """Copies between host and device each way and both at once, alone and beside a GEMM."""
    if device.type != "cuda":
        return
    size = (1 << 20) if small else (256 << 20)
    host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    far = [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)

    def copies(ways, beside):
        def call():
            begin = torch.cuda.current_stream()
            for way in ways:
                streams[way].wait_stream(begin)
                with torch.cuda.stream(streams[way]):
                    (far[0].copy_(host[0], non_blocking=True) if way == 0 else host[1].copy_(far[1], non_blocking=True))
            if beside:
                torch.mm(a, a)
            for way in ways:
                begin.wait_stream(streams[way])

        return call

    for name, ways in [("memcpy_h2d", [0]), ("memcpy_d2h", [1]), ("memcpy_both", [0, 1])]:
        for beside in (False, True):
            seconds = clock(copies(ways, beside))
            note = "beside an 8192x8192x8192 GEMM" if beside else None
            rows.add(seconds, name, moved=size * len(ways), n=size, dtype="uint8", notes=note)


class Block(torch.nn.Module):
    """A pre-norm GPT block."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(hidden) for _ in range(2))
        self.qkv, self.proj = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def profile_steps(folder, device, dtype, small):
    """Profiles of a block and of a step of eight layers: eager, compiled, with activations on the host."""
    from torch.profiler import ProfilerActivity, profile

    folder.mkdir(parents=True, exist_ok=True)
    hidden, heads, s = (64, 4, 32) if small else (4096, 32, 4096)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])

    def run(name, layers, compiled=False, offload=False):
        model = torch.nn.Sequential(*(Block(hidden, heads) for _ in range(layers))).to(device, dtype)
        adam = torch.optim.AdamW(model.parameters(), fused=device.type == "cuda")
        forward = torch.compile(model) if compiled else model

        def step():
            x = torch.randn(1, s, hidden, device=device, dtype=dtype)
            hooks = torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda")
            with hooks if offload else torch.enable_grad():
                loss = forward(x).float().pow(2).mean()
            loss.backward()
            adam.step()
            adam.zero_grad()
            return loss.item()

        for _ in range(3):
            step()
        with profile(activities=activities, record_shapes=True) as p:
            for _ in range(2):
                step()
        p.export_chrome_trace(str(folder / f"{name}.json.gz"))

    attempt("profile of a block", lambda: run("block", 1))
    attempt("profile of 8 layers", lambda: run("layers-8-eager", 2 if small else 8))
    attempt("profile with activation offload", lambda: run("layers-8-offload", 2 if small else 8, offload=True))
    if device.type == "cuda":
        attempt("profile of 8 compiled layers", lambda: run("layers-8-compiled", 8, compiled=True))


def write_table(path, rows):
    """GEMMs as `cost.table` of a device file."""
    # A shape that occurs in two passes is written once, as it ran forward.
    table = {}
    for c, rate in rows.gemms:
        table.setdefault((c["m"], c["n"], c["k"]), round(rate, 3))
    rows = [dict(m=m, n=n, k=k, rate_TFLOPs=rate) for (m, n, k), rate in table.items()]
    Path(path).write_text(json.dumps({"cost": {"table": rows}}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="-", help="rows as JSON lines; - is standard output")
    parser.add_argument("--device", help="its name in stepsim's catalogue; default: what the driver says")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each kernel is repeated")
    parser.add_argument("--short", action="store_true", help="best of short runs, with pauses")
    parser.add_argument("--small", action="store_true", help="few and small shapes")
    parser.add_argument("--kernels", help="time these kernels alone: a file that `stepsim inspect --kernels` wrote")
    parser.add_argument("--table", help="also write the GEMMs as cost.table of a device file")
    parser.add_argument("--profile", type=Path, help="also write profiles of a block and of a step into this folder")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16
    torch.manual_seed(0)
    name = args.device or (torch.cuda.get_device_name() if device.type == "cuda" else "cpu")
    clock = Clock(device, 0.02 if args.small else args.seconds, args.short)
    rows = Rows(args.out, name, f"PyTorch {torch.__version__}", not args.short)
    if args.kernels:
        measure_kernels(args.kernels, rows, clock, device)
    else:
        measure_gemms(rows, clock, device, dtype, args.small)
        measure_attention(rows, clock, device, dtype, args.small)
        measure_memory_bound(rows, clock, device, dtype, args.small)
    measure_launches(rows, device)
    measure_host_copies(rows, clock, device, args.small)
    if args.table:
        write_table(args.table, rows)
    if args.profile:
        profile_steps(args.profile, device, dtype, args.small)
    print(f"{rows.count} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
