"""A function for each command of the program that answers with data.

Written by ``generate.py``: what stands here is not edited.
"""

from __future__ import annotations

from typing import Any, Iterable, Optional, Union

from . import types
from ._arguments import Path, Settings, Source, Texts
from ._command import Document, answer
from ._estimate import Estimate


def inspect(
    workload: Optional[Source] = None,
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    rank: int = 0,
    kernels: Optional[Path] = None,
) -> dict[str, Any]:
    """Show what a workload and a machine expand to, without simulating.

    ``workload``: Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b, or
        none with --topology].
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the one the workload names].
    ``settings``: Change a field: `batch.global=768`, `topology.nodes=16`.
    ``rank``: The rank whose groups are shown.
    ``kernels``: Also write the step's kernels here, each shape once, as rows that wait for a time (`measure_device.py
        --kernels` takes it).

    Returns: The machine and the step.
    """
    return answer("inspect", locals())  # type: ignore[no-any-return]


def analyze(
    traces: Union[Document, Iterable[Document]],
    topology: Optional[Source] = None,
    *,
    html: Optional[Path] = None,
    linked: bool = False,
    classes: Optional[Document] = None,
    workload: Optional[Source] = None,
    settings: Settings = None,
) -> types.ProfileReport:
    """Say where the time went in profiles of real steps.

    ``traces``: Profiles of one or several ranks, or the folder in which they lie.
    ``topology``: The machine that it was run on, where it is not the workload's own.
    ``html``: Also write a page here: .html, one file that opens in any browser.
    ``linked``: Count only device events whose launch is in the file.
    ``classes``: Names of kernels, before the shipped ones.
    ``workload``: The workload that was run, for MFU.
    ``settings``: A field of the workload or (topology.…) of the machine.

    Returns: The report.
    """
    return answer("analyze", locals())  # type: ignore[no-any-return]


def whatif(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    scale: Optional[Texts] = None,
    without: Optional[Texts] = None,
    choices: bool = False,
    threads: Optional[int] = None,
) -> types.WhatIfs:
    """Say what a faster resource, or the absence of a cost, would buy.

    ``workload``: Workload: the name of a shipped one, or a file of ours or of training software.
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the one the workload names].
    ``settings``: Change a field first: `batch.global=768`, `topology.nodes=16`.
    ``scale``: A resource and its factor in speed (latency: in length): matrix, memory, latency, host, `rank.0-3`, a
        class of links or kernels.
    ``without``: Take away what costs time, or deal it out evenly: tp, cp, ep, pp, dp, h2d, d2h, exposed, bubble,
        imbalance, stage.N (levelled to the others), tail, stragglers, jitter, slow-links, experts, documents, images,
        device-classes, recomputation, interference, full-tier, host, a class of links or kernels.
    ``choices``: Only the choices beside those that the workload makes, and the best of them together.
    ``threads``: Threads [default: one a processor].

    Returns: The step, and what each change would do.
    """
    return answer("whatif", locals())  # type: ignore[no-any-return]


def diff(
    a: Document,
    b: Document,
    *,
    settings_a: Settings = None,
    settings_b: Settings = None,
    html: Optional[Path] = None,
) -> list[types.Line]:
    """Compare two reports.

    ``a``: The first step.
    ``b``: The second step.
    ``settings_a``: Change a field of the first workload: `batch.micro_batch=2`.
    ``settings_b``: Change a field of the second workload.
    ``html``: Also write the comparison as a page here: .html, one file that opens in any browser.

    Returns: A line for each number, both sides of it.
    """
    return answer("diff", locals())  # type: ignore[no-any-return]


def goodput(
    workload: Optional[Source] = None,
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    reliability: Texts = 'llama3-h100',
    step_s: Optional[float] = None,
    devices: Optional[int] = None,
    days: float = 30,
    runs: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """Say which part of days of training is progress: interruptions, restarts, checkpoints.

    ``workload``: Workload whose step is simulated: the name of a shipped one, or a path that ends in .json.
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the one the workload names].
    ``settings``: Change a field: `batch.global=768`, `topology.nodes=16`, `reliability.restart.time_s=600`.
    ``reliability``: Interruptions, restarts and checkpoints: the name of a shipped file, or a path that ends in .json.
    ``step_s``: Seconds of a step; nothing is simulated.
    ``devices``: Devices of the job [default: the machine's].
    ``days``: Days of one run.
    ``runs``: Runs that are drawn.
    ``seed``: Seed of what is drawn.

    Returns: Where the days go.
    """
    return answer("goodput", locals())  # type: ignore[no-any-return]


def estimate(
    workload: Optional[Source] = None,
    calculon: Optional[Texts] = None,
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    rules: bool = False,
    tokens: Optional[float] = None,
    devices: Optional[int] = None,
) -> Estimate:
    """Estimate a step in closed form.

    ``workload``: Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b];
        or Calculon's application, with its two other files behind it.
    ``calculon``: Calculon's execution and system, behind its application: its own arithmetic.
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the one the workload names].
    ``settings``: Change a field: `batch.global=768`, `topology.nodes=16`.
    ``rules``: Rooflines, bounds by the machine's axes, and the arithmetic of a whole run too.
    ``tokens``: Tokens of the whole run that `--rules` speaks of [default: 20 for each parameter that a token passes].
    ``devices``: Devices that the whole run of `--rules` has, each at the pace of the estimate [default: the machine's].

    Returns: The terms and their sum.
    """
    return Estimate(answer("estimate", locals()))


def compare(
    workload: Optional[Source] = None,
    calculon: Optional[Texts] = None,
    topology: Optional[Source] = None,
    *,
    settings: Settings = None,
    form: Optional[Document] = None,
) -> types.Comparison:
    """Compare the closed form of a step with its simulation, term by term.

    ``workload``: Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b];
        or Calculon's application, with its two other files behind it.
    ``calculon``: Calculon's execution and system, behind its application: its own arithmetic.
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the one the workload names].
    ``settings``: Change a field: `batch.global=768`, `topology.nodes=16`.
    ``form``: A formula to hold beside both: calculon, megatron-3d, pipeline-bubbles, scaling-book, or a file of yours.

    Returns: Both sides and the effects between them.
    """
    return answer("compare", locals())  # type: ignore[no-any-return]


def share(
    jobs: Union[Document, Iterable[Document]],
    topology: Source,
    *,
    settings: Settings = None,
    steps: int = 2,
    no_fold: bool = False,
) -> dict[str, Any]:
    """Play several jobs on one machine, each on devices of its own.

    ``jobs``: WORKLOAD@DEVICES: a shipped name or a path, and numbers and ranges like `0-7,16-23`.
    ``topology``: The machine: a name, a path, or a simple one.
    ``settings``: Change a field of all workloads, or of the machine (`topology.…`).
    ``steps``: Steps of the job whose step is the longest.
    ``no_fold``: Simulate every rank, also those that must behave alike.

    Returns: What became of each job.
    """
    return answer("share", locals())  # type: ignore[no-any-return]


def schedule(
    *,
    kind: Optional[Texts] = None,
    all: bool = False,
    order: Optional[Document] = None,
    stages: Optional[int] = None,
    micro_batches: Optional[int] = None,
    chunks: Optional[int] = None,
    tf: float = 1,
    ti: float = 1,
    tw: float = 1,
    p2p: float = 0,
    slow_edge: Optional[Texts] = None,
    more_warm_up: int = 0,
    output: Optional[Path] = None,
    html: Optional[Path] = None,
) -> Any:
    """Run a pipeline schedule on abstract durations and draw it.

    ``kind``: The schedule: gpipe, 1f1b, eager-1f1b, interleaved-1f1b, interleaved-torch, looped-bfs, zb-h1, zb-h2,
        zb-v, v-half, v-min, zb-auto, dualpipe, dualpipe-v.
    ``all``: All schedules in one table; with --order yours among them, for its numbers.
    ``order``: An order of your own, from a JSON file: {"ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}.
    ``stages``: Pipeline ranks.
    ``micro_batches``: Micro-batches of a step (dualpipe: of both directions together).
    ``chunks``: Model chunks per rank, where the schedule leaves the choice.
    ``tf``: Time of a forward pass through one rank's whole share of layers.
    ``ti``: Time of the gradients of the inputs.
    ``tw``: Time of the gradients of the weights.
    ``p2p``: Delay of a transfer between ranks.
    ``slow_edge``: The extra time of transfers behind a rank, as between two sites: `3:1.5` of 1f1b; the closed form
        stands beside.
    ``more_warm_up``: Forwards that the ranks up to the slow edge do more before their first backward.
    ``output``: Writes the timeline (.json, .pftrace, each also with .gz).
    ``html``: Writes a page (.html).

    Returns: The outcome of the schedule, or a list of those of all.
    """
    return answer("schedule", locals())


def collective(
    topology: Source,
    op: Texts,
    *,
    settings: Settings = None,
    bytes: Texts = '8:16Gi:x2',
    algorithm: Optional[Texts] = None,
    chunks: Optional[int] = None,
    ranks: Optional[Texts] = None,
    fidelity: Texts = 'fluid',
    html: Optional[Path] = None,
) -> dict[str, Any]:
    """Time a collective by size on a machine.

    ``topology``: The machine: a name, a file, or a simple one: switch:N,GBps,us ring:… line:… mesh:…
        torus:AxBxC,GBps,us nodes:K*G,GBps_in,us_in,GBps_out,us_out.
    ``op``: all-reduce, all-gather, reduce-scatter, all-to-all, send-recv, ring-shift or expert-exchange.
    ``settings``: Changes a value of the machine file: path=value; may be repeated.
    ``bytes``: Sizes: 8:16Gi:x2 (from, to, factor), 1Mi:8Mi:+1Mi, or a list; the buffer of one rank, for all-gather and
        reduce-scatter the full one.
    ``algorithm``: The algorithm instead of the machine's choice.
    ``chunks``: Pipeline chunks of that algorithm instead of the best number.
    ``ranks``: The devices, in order: 0-63 or 0,2,4-7 [default: all; of send-recv the first two].
    ``fidelity``: How finely it is played out.
    ``html``: Writes a page: all sizes, and with --fidelity steps the transfers of the largest over time (.html).

    Returns: A row for each size.
    """
    return answer("collective", locals())  # type: ignore[no-any-return]


def score(
    paths: Union[Document, Iterable[Document]],
    *,
    rules: Optional[Texts] = None,
    rows: Optional[Path] = None,
    measured_steps: Optional[Path] = None,
    source: Optional[Texts] = None,
    row: Optional[Texts] = None,
    every: int = 1,
    settings: Settings = None,
    unknown_sources: bool = False,
    recipes: Optional[Document] = None,
    anchor: bool = False,
) -> dict[str, Any]:
    """Simulate measured steps, and tell how far off the simulation is.

    ``paths``: Files of JSON lines, or folders with such files.
    ``rules``: Rules of your own beside the shipped ones; a file with the name of a shipped one replaces it.
    ``rows``: Write every row as a line of JSON here, with the workload and machine that were simulated.
    ``measured_steps``: Write measured over simulated seconds of each step here, with its classes: what ranges are made
        of.
    ``source``: Only rows of this source.
    ``row``: Only the row with this id, or whose id ends so.
    ``every``: Only every n-th row.
    ``settings``: Change a field of every workload, or of every machine: `topology.device.cost.matrix_fraction=0.7`.
    ``unknown_sources``: Map every row as one of a source that has no rules of its own, by software, device and columns
        alone.
    ``recipes``: The repository whose recipes rows name (verification cards of Megatron-Bridge: `recipe`, `devices`,
        `device`, `overrides`, `measured_step_s`).
    ``anchor``: Give the rows of each model on the fewest devices of a source, software and device, and predict the
        others from them.

    Returns: How far off the simulation is.
    """
    return answer("score", locals())  # type: ignore[no-any-return]


def learn(
    workload: Source,
    traces: Optional[Union[Document, Iterable[Document]]] = None,
    topology: Optional[Source] = None,
    *,
    measured: Optional[Texts] = None,
    settings: Settings = None,
    part: Optional[Document] = None,
    linked: bool = False,
    classes: Optional[Document] = None,
) -> dict[str, Any]:
    """Take the prices of kernels, host and collectives from a real step: its profiles, its logs or its time.

    ``workload``: The workload that was profiled: name or path.
    ``traces``: Profiles of one or several ranks, as torch.profiler exports them, or their folder; or times of kernels,
        one a line (`.jsonl`); or logs of a training run, and outputs of nccl-tests.
    ``topology``: The machine that it ran on [default: the one that the workload names].
    ``measured``: In place of files the measured time of the step: `3.2s`, `640ms`, or a number of seconds.
    ``settings``: Change a field of the workload, or behind `topology.` of the machine.
    ``part``: The profiles hold a part of a step: the same part as simulated, a timeline that `run -o` wrote of one rank
        and window.
    ``linked``: Count only device events whose launch is in the file.
    ``classes``: Names of kernels, before the shipped ones, as `analyze --classes` takes them.

    Returns: Prices, for ``run(..., prices=)``.
    """
    return answer("learn", locals(), "--output=-")  # type: ignore[no-any-return]


def kernels(
    score: Union[Document, Iterable[Document]],
    device: Optional[Document] = None,
    *,
    settings: Settings = None,
) -> dict[str, Any]:
    """Show what kernels are priced at, and how far measured ones are off.

    ``score``: Measured kernels to compare with, one JSON object a line.
    ``device``: A device of the catalogue (`stepsim list devices`) or a device file [default: h100-sxm; with --score:
        all].
    ``settings``: Change a field of the device, as cost.sustained=1.

    Returns: The score of every row.
    """
    return answer("kernels", locals())  # type: ignore[no-any-return]


def fill(
    workload: Source,
    topology: Optional[Source] = None,
    *,
    fix: Settings = None,
    max_memory: Optional[float] = None,
    threads: Optional[int] = None,
    output: Optional[Path] = None,
) -> dict[str, Any]:
    """Find the least recomputation or offload with which a step fits, and the largest micro-batch.

    ``workload``: Workload: the name of a shipped one, or a file of ours or of training software.
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the one the workload names].
    ``fix``: Keep a field at a value: `parallelism.tensor=8`, `batch.global=512`, `topology.nodes=16`.
    ``max_memory``: Most device memory that a step may take, in GiB [default: all but 8 % of it, where that is
        possible].
    ``threads``: Threads [default: one a processor].
    ``output``: Write the best workload here, ready for `stepsim run`.

    Returns: What fits, and the best of it.
    """
    return answer("fill", locals())  # type: ignore[no-any-return]


def normal(
    words: Union[Document, Iterable[Document]],
    *,
    on: Optional[Texts] = None,
    measured: Optional[Texts] = None,
    reference: Optional[Texts] = None,
    also: Optional[Texts] = None,
    batch: Optional[int] = None,
    settings: Settings = None,
    all: bool = False,
) -> dict[str, Any]:
    """Say whether a measured step is normal, and if not, why.

    ``words``: Files and shipped names that describe the run, as `stepsim plan` takes them; logs of it among them.
    ``on``: The machine, as `stepsim plan` takes it [default: the one of a workload].
    ``measured``: The measured speed: `13.1s`, `640ms`, `31%`, `2100tok/s/gpu`, `134ktok/s` of all devices, `420TFLOPs`,
        `64samples/s` [default: the log's].
    ``reference``: The same step when it was in order: then only factors are compared.
    ``also``: A further measurement, of the step with fields changed, such as tells the first two causes apart:
        `model.layers=40 4.8s`.
    ``batch``: Sequences of a step [default: what the files say].
    ``settings``: Change a field of the workload, or behind `topology.` of the machine.
    ``all``: List every cause that reaches the number, and those that cannot.

    Returns: The verdict, and what explains it.
    """
    return answer("normal", locals(), "--json")  # type: ignore[no-any-return]


def knee(
    workload: Source,
    field: Texts,
    until: Texts,
    topology: Optional[Source] = None,
    *,
    across: Optional[Texts] = None,
    settings: Settings = None,
    precision: float = 1,
    threads: Optional[int] = None,
    html: Optional[Path] = None,
) -> dict[str, Any]:
    """Find how much of one field is enough: a bandwidth, a depth, a number that shares.

    ``workload``: Workload: a name, or a path that ends in .json.
    ``field``: The field, and its range where that is not a 64th to 64 times what it says: `path`, `path=10:400`; or its
        values: `path=1,2,4`, `path=64:4096:x2`.
    ``until``: When a value is enough: `stall<1%`, `step<1.02x`, `mfu>0.5`.
    ``topology``: Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
        [default: the workload's own].
    ``across``: Values of a second field; each gets its own border: `path=a,b,c`.
    ``settings``: Change another field.
    ``precision``: How near the border is found, in percent of the value.
    ``threads``: Threads [default: one a processor].
    ``html``: Write a page here: step and stall by the field, and a table of all that was played, each with its command.

    Returns: The least value that is enough, and each step that was played.
    """
    return answer("knee", locals())  # type: ignore[no-any-return]
