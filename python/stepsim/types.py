"""What the program writes, as dictionaries with types. A key that may be absent is marked so.

Written by ``generate.py``: what stands here is not edited.
"""

from __future__ import annotations

from typing import Any, Literal, Mapping, Optional, TypedDict, Union


#: How a run ended.
RunStatus = Literal["ok", "invalid", "out_of_memory", "deadlock", "failed"]


class Head(TypedDict, total=False):
    """The inputs and how they were asked for."""

    #: Version of the simulator.
    stepsim: str
    #: The command line, empty where the library was called.
    command: list[str]
    #: The changes of `--set`, in order.
    settings: list[str]
    #: Seed of what is drawn.
    seed: int
    #: The workload, with its references resolved and settings applied.
    workload: InputName
    #: Its model.
    model: InputName
    #: The machine, with its references resolved and settings applied.
    topology: InputName
    #: The statements that change nothing about this step.
    without_effect: list[Inert]


class InputName(TypedDict, total=False):
    """An input by name and content."""

    #: Its short name.
    name: str
    #: 16 hex digits over its content; `stepsim show --resolved` prints it.
    hash: str


class Inert(TypedDict):
    """A statement without effect."""

    #: The field, an object whose stated fields have none, or a setting as it was given.
    field: str
    #: Why.
    why: str


class Answer(TypedDict, total=False):
    """The answer about a step."""

    #: The time of the step: the simulated one, on every screen.
    step_time_s: float
    #: Model FLOP utilisation.
    mfu: float
    #: Four in five steps like it lie between these two; absent where none is known.
    range_s: Optional[list[float]]
    #: The measured steps that the range rests on, or why there is none.
    range: str
    #: The doubts about its description: words that were not read, lengths and formats that nobody says.
    doubts: list[str]
    #: The dearest choice, with the step otherwise.
    set: Optional[Candidate]
    #: The remedy: a fault to heal, work to even out, or else a limit to move, with the step then.
    heal: Optional[Candidate]
    #: The part that was not asked, and the command that asks it.
    not_asked: Optional[str]
    #: Both in one sentence; where neither costs anything, where the critical path runs.
    hangs_on: str
    #: The fullest device memory, in bytes.
    memory_peak_bytes: Optional[int]
    #: Device memory, in bytes.
    memory_capacity_bytes: Optional[int]
    #: Dollars and energy, where devices state a price or their power.
    cost: Optional[CostReport]


class _Candidate(TypedDict):
    #: Its description: `rank 3 (×2.85)`, `nic, 12.5 GB/s`, `recomputation: full`.
    what: str
    #: How it would be otherwise: `as the others`, `25 GB/s`, `none`.
    otherwise: str
    #: The sort of change.
    kind: CandidateKind
    #: The step with it otherwise.
    step_s: float
    #: The work or wait that a mean rank itself loses then: kernels, its own communication, its host.
    own_s: float
    #: The wait that ranks lose for one another then. Both sum to the gain of the step.
    induced_s: float


class Candidate(_Candidate, total=False):
    """Something that could be otherwise, and the step with it otherwise, played."""

    #: The settings that make it so, as `--set` takes them; none where no field does.
    sets: list[str]
    #: Where no field does: its name, as `--without` of `stepsim whatif` takes it.
    without: Optional[str]
    #: The fullest device memory then.
    memory_peak_bytes: Optional[int]


#: The sort of a possible change.
CandidateKind = Literal["fault", "uneven", "limit", "choice"]


class CostReport(TypedDict, total=False):
    """The cost of a step."""

    #: Dollars for a step, where the devices have a price (`device.price_USD_per_h`).
    step_cost_USD: Optional[float]
    #: Dollars for 10⁶ tokens.
    cost_USD_per_million_tokens: Optional[float]
    #: Joules of a step on all devices, where they state their power (`device.power_W`).
    step_energy_J: Optional[float]
    #: Joules a token: as many as megajoules for 10⁶ tokens.
    energy_J_per_token: Optional[float]
    #: Mean power of a device in watts.
    power_W_per_device: Optional[float]
    #: By what the devices do: a mean device in a step.
    uses: list[UseReport]


class UseReport(TypedDict):
    """One use of a mean device."""

    #: The use.
    use: Use
    #: How long in a step.
    time_s: float
    #: Watts that it draws meanwhile.
    power_W: float


#: The use of devices.
Use = Literal["products", "memory_bound", "otherwise"]


class JumpedReport(TypedDict):
    """The jumped turns of a step whose schedule repeats itself."""

    #: Micro-batches that were counted and not played.
    micro_batches: int
    #: Micro-batches of the step.
    of: int
    #: Turns that they are: after each the run would have been in the same state again.
    turns: int


class FoldedRanks(TypedDict):
    """How far folding got."""

    #: Ranks that were simulated: one of each class.
    simulated_ranks: int
    #: Ranks of the job.
    ranks: int


class _Breakdown(TypedDict):
    #: Kernels on the compute stream.
    busy_s: float
    #: Why the compute stream stood still, by cause; causes that do not occur are left out.
    stalls_s: dict[str, float]


class Breakdown(_Breakdown, total=False):
    """`busy_s` and the stalls sum to the step time."""

    #: The part of it for which device memory gave kernels less than they use: copies share its bandwidth.
    slowed_by_memory_s: float


class _StageReport(TypedDict):
    #: Which.
    stage: int
    #: Ranks in it.
    ranks: int
    #: Kernels on the compute stream.
    busy_s: float
    #: Why the compute stream stood still, by cause; causes that do not occur are left out.
    stalls_s: dict[str, float]
    #: By name of the tier: the fullest instance that ranks of the stage use.
    memory: dict[str, TierReport]


class StageReport(_StageReport, total=False):
    """A pipeline stage."""

    #: Layers of the model that it computes, in whole or in part.
    layers: int
    #: Its work beside them: `embedding`, `head`.
    ends: list[str]
    #: The part of it for which device memory gave kernels less than they use: copies share its bandwidth.
    slowed_by_memory_s: float
    #: By kind of communication: means over them.
    communication: dict[str, CommunicationReport]


class CommunicationReport(TypedDict):
    """Communication of one kind, mean over ranks. `under_kernels_s`, `while_idle_s` and `exposed_s` sum to `ran_s`."""

    #: Time during which at least one op of the kind ran.
    ran_s: float
    #: The part during which a kernel ran: overlap.
    under_kernels_s: float
    #: The part during which the compute stream stood still for something else.
    while_idle_s: float
    #: The part during which the compute stream stood still for it.
    exposed_s: float
    #: The sum over the ops: more than `ran_s` where they ran side by side.
    op_seconds: float
    #: Bytes of the messages of one rank.
    bytes: float
    #: Operations of one rank.
    ops: float


class TierReport(TypedDict):
    """A memory tier at its fullest."""

    #: The highest level.
    peak_bytes: int
    #: The bytes that it can hold.
    capacity_bytes: int
    #: When the peak is first reached.
    peak_at_s: float
    #: The resident bytes then: weights, gradients, optimizer, activations, workspace.
    by_class: dict[str, int]


class DynamicContextReport(TypedDict):
    """Documents with a degree of context parallelism of their own."""

    #: Most tokens of a pass on one rank.
    tokens_per_rank: int
    #: Part of all tokens that are padding, 0 to 1.
    padding: float
    #: FLOPs of the rank that has most, with its waits for others of its groups, over the mean.
    work_max_over_mean: float
    #: By degree.
    degrees: dict[str, Any]


class DegreeReport(TypedDict):
    """The documents of one degree."""

    #: How many there are.
    documents: int
    #: Packed sequences that hold them.
    passes: int
    #: Part of all tokens, 0 to 1.
    tokens: float


class WaterfallReport(TypedDict):
    """From the peak to MFU, mean over all ranks and by stage."""

    #: Mean over all ranks.
    mean: BarsReport
    #: Mean over the ranks of each pipeline stage, in order.
    stages: list[BarsReport]


class BarsReport(TypedDict):
    """One waterfall: `mfu` and the shares of all bars sum to 1, the peak."""

    #: The rest of the peak.
    mfu: float
    #: The losses, in the order of the waterfall.
    bars: list[BarReport]


class _BarReport(TypedDict):
    #: `kernel efficiency`, `memory-bound kernels`, `recomputation`, `interference`, `stragglers`, `host`, `exposed
    #: communication`, `bubble`, `optimizer`, `tail`, `beyond the model`, `attention as counted`.
    group: str
    #: Seconds of a rank. Negative where MFU counts more than ran.
    time_s: float
    #: Of the peak over the step, and so of the step.
    share: float


class BarReport(_BarReport, total=False):
    """One bar."""

    #: Class of kernels, kind of communication, sort of bubble; empty where the group says all.
    what: str
    #: Of communication: `bandwidth`, `latency`, `contention`, `late peer`.
    part: str


#: The kernels of one class, mean of a rank.
KernelClassReport = TypedDict(
    "KernelClassReport",
    {
        "class": "KernelClass",
        "count": float,
        "time_s": float,
        "disturbed_s": float,
        "share": float,
        "TFLOPs": float,
        "GBps": float,
        "bound": "KernelBound",
    },
    total=False,
)


#: The kind of work of a kernel.
KernelClass = Literal["gemm", "gemm-input-grad", "gemm-weight-grad", "grouped-gemm", "grouped-gemm-input-grad", "grouped-gemm-weight-grad", "attention-gemm", "scan", "scan-backward", "delta-scan", "delta-scan-backward", "channel-delta-scan", "channel-delta-scan-backward", "attention-forward", "attention-backward", "softmax", "norm", "norm-backward", "layer-norm-backward", "rotary", "activation", "residual", "reduction", "loss", "embedding", "cast", "cast-transpose", "amax", "transpose", "permute", "unpermute", "router", "top-k", "row-map", "optimizer-fused", "optimizer-multi-tensor", "optimizer-for-each", "gradient-norm", "gradient-clip", "accumulate", "copy", "other"]


#: The bound of a class's kernels: the larger of the parts that they use of the peak and of the memory's
KernelBound = Literal["matrix", "memory", "neither"]


class _LayerReport(TypedDict):
    #: Time of its ops by kind, side by side or not.
    by_kind_s: dict[str, float]


class LayerReport(_LayerReport, total=False):
    """Ops of one layer and kind, mean of a rank: a layer that lies on one of four stages counts a quarter."""

    #: Number of the layer in the model; absent for what belongs to none.
    layer: Optional[int]


class GapReport(TypedDict):
    """Gaps of one length, of a mean rank."""

    #: How many.
    count: float
    #: Seconds in them.
    seconds: float


class _RankReport(TypedDict):
    #: Its number in the job; of several the lowest.
    rank: int
    #: Stage and coordinates in words.
    name: str
    #: Its pipeline stage.
    stage: int
    #: How many ranks the entry stands for.
    count: int
    #: Kernels on the compute stream.
    busy_s: float
    #: Why the compute stream stood still, by cause; causes that do not occur are left out.
    stalls_s: dict[str, float]


class RankReport(_RankReport, total=False):
    """A rank, or ranks that are alike."""

    #: The part of it for which device memory gave kernels less than they use: copies share its bandwidth.
    slowed_by_memory_s: float


class SlowRanks(TypedDict):
    """Ranks that are slow by the same factor, to two digits."""

    #: In words: `ranks 0–3 (×2.85)`.
    name: str
    #: Their numbers.
    ranks: list[int]
    #: Factor on the time of their kernels, of the slowest.
    slowness: float


class _LinkReport(TypedDict):
    #: Its name in the machine; of several the first.
    name: str
    #: Bytes through one.
    bytes: float
    #: Its capacity in 10⁹ bytes per second.
    capacity_GBps: float
    #: Bytes over what it could have carried in the step, 0 to 1.
    utilisation: float


class LinkReport(_LinkReport, total=False):
    """A shared capacity, or several that carried alike."""

    #: How many have its capacity and carried as much.
    count: int


class _PrefetchReport(TypedDict):
    #: Its phase in words.
    phase: str
    #: Kernels that waited for a copy, stalled or not, on all ranks.
    kernels: int
    #: How long before the kernel was otherwise ready the copy could be issued.
    had_s: float
    #: How long before it should have been.
    needed_s: float
    #: Layers that the rank computed in the needed time before the kernel: the distance in layers.
    needed_layers: int


class PrefetchReport(_PrefetchReport, total=False):
    """The copy of a layer in a phase that came latest, of all ranks and micro-batches."""

    #: Global layer number of the kernel that waited.
    layer: Optional[int]


class _CriticalPathReport(TypedDict):
    #: Ops on it.
    ops: int
    #: How often it passes from one rank to another.
    rank_changes: int
    #: Time of its ops by kind; with contention and memory it sums to the step time.
    by_kind_s: dict[str, float]
    #: Time that contention added.
    contention_s: float
    #: Time spent waiting for room on a full tier.
    memory_s: float


class CriticalPathReport(_CriticalPathReport, total=False):
    """The chain of binding waits from the end of the step to its start."""

    #: The part of `compute` by class of kernels.
    by_class_s: dict[str, float]
    #: The part of it on each rank that it visits, longest first.
    ranks: list[OnRank]
    #: The path in the order of time, without gaps: neighbours on one rank, of one phase and micro-batch, are joined.
    stretches: list[Stretch]


class OnRank(TypedDict):
    """The part of a critical path on one rank."""

    #: The rank; of several that are alike the lowest.
    rank: int
    #: Its pipeline stage.
    stage: int
    #: From the end of the op before to the end of its own, summed: of all ranks the step time.
    time_s: float


class _Stretch(TypedDict):
    #: The rank; of several that are alike the lowest.
    rank: int
    #: From when.
    start_s: float
    #: Until when.
    end_s: float
    #: Ops of it.
    ops: int
    #: Its time by kind of op.
    by_kind_s: dict[str, float]


class Stretch(_Stretch, total=False):
    """A stretch of the critical path on one rank."""

    #: Phase of the step; empty where several are joined.
    phase: str
    #: Micro-batch, where it is of one.
    micro_batch: Optional[int]


class SlackReport(TypedDict):
    """Slack of the ops of one kind, means of a rank."""

    #: Ops.
    ops: float
    #: Their time.
    time_s: float
    #: The part of it in ops without slack: each of them moves the step.
    binding_s: float
    #: The part of it in ops whose slack is less than a hundredth of the step.
    near_s: float
    #: The least slack of all.
    least_s: float


class SamplesReport(TypedDict):
    """Step times over all samples."""

    #: How many.
    count: int
    #: Seed of the first; the others follow it.
    seed: int
    #: Mean step time.
    mean_s: float
    #: Standard deviation over mean.
    cv: float
    #: Shortest.
    min_s: float
    #: 5 % are no longer.
    p5_s: float
    #: Half are no longer.
    p50_s: float
    #: 95 % are no longer.
    p95_s: float
    #: 99 % are no longer.
    p99_s: float
    #: Longest.
    max_s: float
    #: Numbers of samples in ranges of equal width from the shortest to the longest.
    histogram: list[HistogramBin]
    #: Pipeline stages on the critical path.
    critical_stages: list[OnPath]
    #: The ranks with the largest shares of it.
    critical_ranks: list[OnPath]


class HistogramBin(TypedDict):
    """A range of step times."""

    #: From.
    from_s: float
    #: Up to.
    to_s: float
    #: Samples in it.
    samples: int


class OnPath(TypedDict):
    """How often and for how long a rank or a stage was on the critical path."""

    #: Its name.
    name: str
    #: Part of the samples whose critical path visits it, 0 to 1.
    samples: float
    #: Its share of the critical path, mean over all samples.
    share: float


class _Report(TypedDict):
    #: Name of the workload.
    workload: str
    #: Name of the machine.
    topology: str
    #: The time of the step.
    step_time_s: float
    #: Tokens that one step trains on.
    tokens_per_step: int
    #: Tokens of all steps over their time.
    tokens_per_s: float
    #: Model FLOP utilisation: a fraction of the devices' dense peak. Attention counts in full, as Megatron and PaLM do.
    mfu: float
    #: Hardware FLOP utilisation: recomputation counts as work, attention in full as in `mfu`.
    hfu: float
    #: Model FLOPs per device and second, in 10¹².
    model_tflops_per_device: float
    #: Devices.
    devices: int
    #: Op executions of the step on all ranks.
    ops: int
    #: Completions that the event loop handled.
    events: int
    #: How many ranks were simulated for all.
    classes: FoldedRanks
    #: Where the time went: mean over all ranks.
    mean: Breakdown
    #: Where the time went: mean over the ranks of each pipeline stage.
    stages: list[StageReport]
    #: Each rank of the job, or (of more than 64) one of each group of ranks that are alike.
    ranks: list[RankReport]
    #: By kind of communication: means over all ranks.
    communication: dict[str, CommunicationReport]
    #: By name of the tier: the fullest instance.
    memory: dict[str, TierReport]
    #: The busiest links, ports and tier bandwidths.
    links: list[LinkReport]
    #: The critical path, which decides the step's length.
    critical_path: CriticalPathReport
    #: How FLOPs are counted.
    conventions: list[str]


class Report(_Report, total=False):
    """All readings of one run."""

    #: How the run ended; a run without a result has a `FailedReport` instead.
    status: RunStatus
    #: The head of the run.
    run: Head
    #: The answer, which every screen, page and file says.
    answer: Answer
    #: The sentence of the answer.
    hangs_on: str
    #: From its start until the last op of the last rank has ended.
    run_time_s: float
    #: The same with attention by half where its mask is causal, as Llama 3 counts.
    mfu_causal: float
    #: The same with what a causal mask skips left out, as in `mfu_causal`: the FLOPs executed.
    hfu_causal: float
    #: Wall-clock seconds of the simulation, unless the output is to be reproducible.
    simulation_wall_s: Optional[float]
    #: Turns of the schedule that were counted and not played; absent where all were played.
    jumped: Optional[JumpedReport]
    #: Documents with a degree of context parallelism of their own, where they have one.
    dynamic_context: Optional[DynamicContextReport]
    #: From the peak to MFU; absent where kernels have no FLOPs of their own.
    waterfall: Optional[WaterfallReport]
    #: Kernels by class, longest first: means over all ranks.
    kernels: list[KernelClassReport]
    #: Time of ops by layer of the model and kind: means over all ranks.
    layers: list[LayerReport]
    #: Idle gaps of compute streams by their length: means over all ranks.
    gaps: dict[str, GapReport]
    #: The possible changes, dearest first, by the step played with each: all faults and unevenness, and as many limits and
    #: choices as were asked for.
    candidates: list[Candidate]
    #: Limits and choices that were not played.
    candidates_left_out: int
    #: Ranks whose kernels take longer than the device needs, slowest first.
    slow_ranks: list[SlowRanks]
    #: Dollars and energy; absent where devices state neither a price nor their power.
    cost: Optional[CostReport]
    #: For each layer that waits for copies to the device: how far ahead they were issued, and should have been.
    prefetch: list[PrefetchReport]
    #: How much later ops could end without moving the step, by kind.
    slack: dict[str, SlackReport]
    #: How the step time spreads over seeds, if samples were asked for.
    samples: Optional[SamplesReport]
    #: Sections of readings that have no field here, as a caller's own, by name.
    own: dict[str, Any]


#: How a run ended.
RowRunStatus = Literal["ok", "invalid", "out_of_memory", "deadlock", "failed"]


class _Row(TypedDict):
    #: Hash of the resolved inputs, of how the point is valued, and of the program's version.
    key: str
    #: The settings of the point.
    settings: dict[str, Any]
    #: How it ended.
    status: RowRunStatus


class Row(_Row, total=False):
    """One point and what became of it."""

    #: Number of the point in its study, from 0.
    point: int
    #: Why there is no result.
    message: Optional[str]
    #: Seconds of the step.
    step_time_s: Optional[float]
    #: Tokens per second and device.
    tokens_per_s_per_device: Optional[float]
    #: Model FLOP utilisation.
    mfu: Optional[float]
    #: The fullest device memory.
    memory_peak_bytes: Optional[int]
    #: Of a simulated step: four in five steps like it lie between these two; absent where none is known.
    range_s: Optional[list[float]]
    #: Seconds of a mean rank that stood still for communication, by its kind (`tp`, `cp`, `ep`, `pp`, `dp`, `h2d`, ...).
    exposed_s: dict[str, float]
    #: The requested fields of the step's report, by path.
    columns: dict[str, Any]


#: The aim of a search.
SearchObjective = Literal["time", "tokens_per_device", "cost", "energy", "devices", "memory"]


class SearchStoppedSearch(TypedDict):
    """How far a search came that ended before it was done: the best is the best among the layouts that it saw."""

    #: Layouts of the space.
    points: int
    #: Of these, bounded: memory and the least time, by sums.
    bounded: int
    #: Of these, estimated in closed form.
    estimated: int
    #: Of these, simulated.
    simulated: int


class SearchSimulating(TypedDict):
    """Closed form and simulation of the layouts that were simulated."""

    #: The simulated step less the closed form's, in parts of the latter: least, mean and most.
    longer: list[float]
    #: By how much the layout that is best in closed form is worse, simulated, than the best; 0: both choose the same.
    choice_costs: float


class _SearchProof(TypedDict):
    #: Layouts that were simulated: all but those that are invalid or do not fit for certain.
    simulated: int
    #: Of these, how many have a result that counts.
    counted: int
    #: Layouts that the search simulates by itself.
    searched: int
    #: By how much of the best the search's best is worse.
    regret: float


class SearchProof(_SearchProof, total=False):
    """A search beside the truth."""

    #: Rank correlation of closed form and simulation by what is best (Kendall's tau; 1: the same order).
    kendall_tau: Optional[float]


class _SearchRankedLayout(TypedDict):
    #: The settings that the search chose.
    settings: dict[str, Any]
    #: All that turns the workload into this one: arguments of `--set`.
    sets: list[str]
    #: Seconds of the step in closed form.
    closed_form_s: float
    #: Peak of device memory in closed form.
    closed_form_memory_bytes: float
    #: The certain part: the state that stays, and kept activations at their most.
    least_memory_bytes: float
    #: Devices of the machine.
    devices: int
    #: How it ended.
    status: SearchRunStatus


class SearchRankedLayout(_SearchRankedLayout, total=False):
    """A simulated layout."""

    #: Dollars for 10⁶ tokens, where the machine has a price.
    cost_USD_per_million_tokens: Optional[float]
    #: Energy of a token, by what the devices draw: as in a report's `cost`.
    energy_J_per_token: Optional[float]
    #: Why there is no result.
    message: Optional[str]
    #: Seconds of the step.
    step_time_s: Optional[float]
    #: Tokens per second and device.
    tokens_per_s_per_device: Optional[float]
    #: Model FLOP utilisation.
    mfu: Optional[float]
    #: The fullest device memory.
    memory_peak_bytes: Optional[int]
    #: Of a simulated step: four in five steps like it lie between these two; absent where none is known.
    range_s: Optional[list[float]]
    #: Seconds of a mean rank that stood still for communication, by its kind (`tp`, `cp`, `ep`, `pp`, `dp`, `h2d`, ...).
    exposed_s: dict[str, float]
    #: The requested fields of the step's report, by path.
    columns: dict[str, Any]
    #: Of the first, and of the two unlike it: how far to trust it.
    advice: Optional[SearchAdvice]
    #: Of one beside the first whose step is shorter: why it is not first.
    behind: Optional[str]
    #: Of the first: from the peak to MFU, mean of all ranks.
    waterfall: Optional[SearchBarsReport]
    #: Of the first: why it is slower than the best, largest difference first.
    slower_by: list[SearchReason]


#: How a run ended.
SearchRunStatus = Literal["ok", "invalid", "out_of_memory", "deadlock", "failed"]


class _SearchAdvice(TypedDict):
    #: The answer about its step.
    answer: SearchAnswer
    #: The overlap that has to go right for the step to be as short.
    bets_on: str


class SearchAdvice(_SearchAdvice, total=False):
    """Why a layout is worth measuring, and how far to trust it."""

    #: Part of device memory that it fills.
    memory_share: Optional[float]
    #: Words that give a run of the software this layout and ten steps, where they are known.
    measure: Optional[str]


class SearchAnswer(TypedDict, total=False):
    """The answer about a step."""

    #: The time of the step: the simulated one, on every screen.
    step_time_s: float
    #: Model FLOP utilisation.
    mfu: float
    #: Four in five steps like it lie between these two; absent where none is known.
    range_s: Optional[list[float]]
    #: The measured steps that the range rests on, or why there is none.
    range: str
    #: The doubts about its description: words that were not read, lengths and formats that nobody says.
    doubts: list[str]
    #: The dearest choice, with the step otherwise.
    set: Optional[SearchCandidate]
    #: The remedy: a fault to heal, work to even out, or else a limit to move, with the step then.
    heal: Optional[SearchCandidate]
    #: The part that was not asked, and the command that asks it.
    not_asked: Optional[str]
    #: Both in one sentence; where neither costs anything, where the critical path runs.
    hangs_on: str
    #: The fullest device memory, in bytes.
    memory_peak_bytes: Optional[int]
    #: Device memory, in bytes.
    memory_capacity_bytes: Optional[int]
    #: Dollars and energy, where devices state a price or their power.
    cost: Optional[SearchCostReport]


class _SearchCandidate(TypedDict):
    #: Its description: `rank 3 (×2.85)`, `nic, 12.5 GB/s`, `recomputation: full`.
    what: str
    #: How it would be otherwise: `as the others`, `25 GB/s`, `none`.
    otherwise: str
    #: The sort of change.
    kind: SearchCandidateKind
    #: The step with it otherwise.
    step_s: float
    #: The work or wait that a mean rank itself loses then: kernels, its own communication, its host.
    own_s: float
    #: The wait that ranks lose for one another then. Both sum to the gain of the step.
    induced_s: float


class SearchCandidate(_SearchCandidate, total=False):
    """Something that could be otherwise, and the step with it otherwise, played."""

    #: The settings that make it so, as `--set` takes them; none where no field does.
    sets: list[str]
    #: Where no field does: its name, as `--without` of `stepsim whatif` takes it.
    without: Optional[str]
    #: The fullest device memory then.
    memory_peak_bytes: Optional[int]


#: The sort of a possible change.
SearchCandidateKind = Literal["fault", "uneven", "limit", "choice"]


class SearchCostReport(TypedDict, total=False):
    """The cost of a step."""

    #: Dollars for a step, where the devices have a price (`device.price_USD_per_h`).
    step_cost_USD: Optional[float]
    #: Dollars for 10⁶ tokens.
    cost_USD_per_million_tokens: Optional[float]
    #: Joules of a step on all devices, where they state their power (`device.power_W`).
    step_energy_J: Optional[float]
    #: Joules a token: as many as megajoules for 10⁶ tokens.
    energy_J_per_token: Optional[float]
    #: Mean power of a device in watts.
    power_W_per_device: Optional[float]
    #: By what the devices do: a mean device in a step.
    uses: list[SearchUseReport]


class SearchUseReport(TypedDict):
    """One use of a mean device."""

    #: The use.
    use: SearchUse
    #: How long in a step.
    time_s: float
    #: Watts that it draws meanwhile.
    power_W: float


#: The use of devices.
SearchUse = Literal["products", "memory_bound", "otherwise"]


class SearchBarsReport(TypedDict):
    """One waterfall: `mfu` and the shares of all bars sum to 1, the peak."""

    #: The rest of the peak.
    mfu: float
    #: The losses, in the order of the waterfall.
    bars: list[SearchBarReport]


class _SearchBarReport(TypedDict):
    #: `kernel efficiency`, `memory-bound kernels`, `recomputation`, `interference`, `stragglers`, `host`, `exposed
    #: communication`, `bubble`, `optimizer`, `tail`, `beyond the model`, `attention as counted`.
    group: str
    #: Seconds of a rank. Negative where MFU counts more than ran.
    time_s: float
    #: Of the peak over the step, and so of the step.
    share: float


class SearchBarReport(_SearchBarReport, total=False):
    """One bar."""

    #: Class of kernels, kind of communication, sort of bubble; empty where the group says all.
    what: str
    #: Of communication: `bandwidth`, `latency`, `contention`, `late peer`.
    part: str


class SearchReason(TypedDict):
    """The time or memory that a layout spends beyond the best one's (or saves)."""

    #: Group of the waterfall, and what of it.
    what: str
    #: Seconds of a mean rank more than the best layout; negative: less.
    more_s: float


class _SearchReport(TypedDict):
    #: The workload.
    workload: str
    #: The machine.
    topology: str
    #: Its devices; of several sizes, the best one's.
    devices: int
    #: The aim.
    objective: SearchObjective
    #: Layouts of the space.
    points: int
    #: Layouts that were not simulated, by reason: `invalid` (the workload's checks refuse them), `memory` (in closed form,
    #: over the limit by the state that stays and the kept activations alone), `floor` (worse than all that are ranked by
    #: what its step takes at least), `time` (in closed form, worse than the best simulated by more than the margin),
    #: `deadline` (in closed form, longer than the deadline by more than the margin), `limit` (not refuted, but no more
    #: simulations were allowed, or in a plan as full as one that ran out of memory).
    pruned: dict[str, int]
    #: Layouts that were simulated.
    simulated: int
    #: Of these, how many have no result that counts, by reason: `out_of_memory` (or over the limit), `deadlock`, ...
    unfit: dict[str, int]
    #: How far the closed form's time was trusted.
    margin: float
    #: The margin of time that holds for what was simulated: smaller where simulations ran out.
    time_margin_reached: float
    #: By how much of itself the closed form was longer than the simulation at most, of all that were simulated.
    closed_form_longest: float
    #: The same of what a step takes at least: 0, or the floor is none.
    floor_longest: float
    #: The assumptions.
    assumed: list[str]
    #: The best layouts, shortest first.
    ranking: list[SearchRankedLayout]


class SearchReport(_SearchReport, total=False):
    """The result of a search."""

    #: Longest step that counts.
    deadline_s: Optional[float]
    #: How far it came, where its time was over or it was stopped before it was done.
    stopped: Optional[SearchStoppedSearch]
    #: The differences of the simulated layouts from the closed form; absent where nothing fits.
    simulating: Optional[SearchSimulating]
    #: The layouts that the search would have missed, where every layout was simulated to know it.
    proof: Optional[SearchProof]
    #: Two that differ from the first in kind: worth measuring beside it.
    unlike: list[SearchRankedLayout]


class WhatIf(TypedDict):
    """A step with changes."""

    #: The change: `matrix × 1.1`, `without tp`.
    what: str
    #: The step, simulated.
    step_time_s: float
    #: Over the step without changes, less 1: negative where it is faster.
    change: float


class WhatIfAnswer(TypedDict, total=False):
    """The answer about a step."""

    #: The time of the step: the simulated one, on every screen.
    step_time_s: float
    #: Model FLOP utilisation.
    mfu: float
    #: Four in five steps like it lie between these two; absent where none is known.
    range_s: Optional[list[float]]
    #: The measured steps that the range rests on, or why there is none.
    range: str
    #: The doubts about its description: words that were not read, lengths and formats that nobody says.
    doubts: list[str]
    #: The dearest choice, with the step otherwise.
    set: Optional[WhatIfCandidate]
    #: The remedy: a fault to heal, work to even out, or else a limit to move, with the step then.
    heal: Optional[WhatIfCandidate]
    #: The part that was not asked, and the command that asks it.
    not_asked: Optional[str]
    #: Both in one sentence; where neither costs anything, where the critical path runs.
    hangs_on: str
    #: The fullest device memory, in bytes.
    memory_peak_bytes: Optional[int]
    #: Device memory, in bytes.
    memory_capacity_bytes: Optional[int]
    #: Dollars and energy, where devices state a price or their power.
    cost: Optional[WhatIfCostReport]


class _WhatIfCandidate(TypedDict):
    #: Its description: `rank 3 (×2.85)`, `nic, 12.5 GB/s`, `recomputation: full`.
    what: str
    #: How it would be otherwise: `as the others`, `25 GB/s`, `none`.
    otherwise: str
    #: The sort of change.
    kind: WhatIfCandidateKind
    #: The step with it otherwise.
    step_s: float
    #: The work or wait that a mean rank itself loses then: kernels, its own communication, its host.
    own_s: float
    #: The wait that ranks lose for one another then. Both sum to the gain of the step.
    induced_s: float


class WhatIfCandidate(_WhatIfCandidate, total=False):
    """Something that could be otherwise, and the step with it otherwise, played."""

    #: The settings that make it so, as `--set` takes them; none where no field does.
    sets: list[str]
    #: Where no field does: its name, as `--without` of `stepsim whatif` takes it.
    without: Optional[str]
    #: The fullest device memory then.
    memory_peak_bytes: Optional[int]


#: The sort of a possible change.
WhatIfCandidateKind = Literal["fault", "uneven", "limit", "choice"]


class WhatIfCostReport(TypedDict, total=False):
    """The cost of a step."""

    #: Dollars for a step, where the devices have a price (`device.price_USD_per_h`).
    step_cost_USD: Optional[float]
    #: Dollars for 10⁶ tokens.
    cost_USD_per_million_tokens: Optional[float]
    #: Joules of a step on all devices, where they state their power (`device.power_W`).
    step_energy_J: Optional[float]
    #: Joules a token: as many as megajoules for 10⁶ tokens.
    energy_J_per_token: Optional[float]
    #: Mean power of a device in watts.
    power_W_per_device: Optional[float]
    #: By what the devices do: a mean device in a step.
    uses: list[WhatIfUseReport]


class WhatIfUseReport(TypedDict):
    """One use of a mean device."""

    #: The use.
    use: WhatIfUse
    #: How long in a step.
    time_s: float
    #: Watts that it draws meanwhile.
    power_W: float


#: The use of devices.
WhatIfUse = Literal["products", "memory_bound", "otherwise"]


class _WhatIfs(TypedDict):
    #: The workload.
    workload: str
    #: The machine.
    topology: str
    #: The step without changes.
    step_time_s: float


class WhatIfs(_WhatIfs, total=False):
    """A step and what changes make of it."""

    #: Each change that was asked for, the largest gain first.
    changes: list[WhatIf]
    #: Where none was asked for: the answer.
    answer: Optional[WhatIfAnswer]
    #: The same: all that could be otherwise, dearest first.
    candidates: list[WhatIfCandidate]
    #: Choices that were not played, since their closed form is far longer.
    candidates_left_out: int


class Line(TypedDict):
    """One quantity in both reports; zero where a report does not have it."""

    #: Its section: `step`, `mean of a rank`, `from peak to MFU`, `communication`, `kernels`, `memory`, `stage 3`,
    #: `layers`.
    section: str
    #: Its name.
    what: str
    #: In which unit.
    unit: Measure
    #: In the first report.
    a: float
    #: In the second.
    b: float


#: The unit of a comparison's line.
Measure = Literal["seconds", "bytes", "tokens_per_second", "fraction", "count", "dollars", "joules", "watts"]


class ComparisonTerm(TypedDict):
    """One term on both sides, in seconds."""

    #: Its name.
    name: str
    #: In closed form.
    closed_form_s: float
    #: On the simulated rank that is read: what its compute stream did or waited for.
    simulated_s: float


class ComparisonOwnError(TypedDict):
    """The closed form's errors in effects that it claims to cover."""

    #: The sum of its terms over the closed form's step: below zero where the form is too long.
    fraction: float
    #: The sum of the sizes of its terms, whatever their sign, over the closed form's step.
    gross_fraction: float
    #: The sum of its terms in picoseconds.
    picoseconds: int
    #: The same in seconds.
    seconds: float
    #: Term by term.
    terms: list[ComparisonDifference]


class ComparisonDifference(TypedDict):
    """One switch, and what it adds to simulation minus closed form."""

    #: Its name: `link contention`.
    name: str
    #: The switch.
    switch: str
    #: The time that it adds, in picoseconds.
    picoseconds: int
    #: The same in seconds.
    seconds: float
    #: The same in percent of the closed form's step.
    percent: float


class ComparisonRemainder(TypedDict):
    """The rest that no switch explains by itself."""

    #: In picoseconds.
    picoseconds: int
    #: The same in seconds.
    seconds: float
    #: The same over the closed form's step.
    fraction: float


class _ComparisonFormulaReading(TypedDict):
    #: Its name.
    name: str
    #: Where it is published.
    source: str
    #: Seconds of the step.
    total_s: float
    #: The same over the simulated step, less one.
    off: float
    #: Term by term.
    terms: list[ComparisonFormulaTerm]
    #: The quantities of this step that its expressions may name.
    quantities: dict[str, float]


class ComparisonFormulaReading(_ComparisonFormulaReading, total=False):
    """A formula's result for a step."""

    #: The term that is farthest from the closed form's; none where all are equal.
    farthest: Optional[str]


class ComparisonFormulaTerm(TypedDict):
    """One term of a formula beside others' of it, in seconds."""

    #: Its name.
    name: str
    #: By the formula.
    formula_s: float
    #: In closed form.
    closed_form_s: float
    #: On the simulated rank that is read.
    simulated_s: float
    #: Formula less closed form, in percent of the closed form's step.
    percent: float


class _Comparison(TypedDict):
    #: The subject of the comparison.
    what: str
    #: The rank whose time is read term by term.
    rank: str
    #: Seconds of the step in closed form.
    closed_form_s: float
    #: Seconds of the step as simulated.
    simulated_s: float
    #: Both sides term by term; the columns sum to the two step times.
    terms: list[ComparisonTerm]
    #: Effects of the step that the closed form has no term for: own error is not claimed.
    not_claimed: list[str]
    #: The closed form's errors in effects that it claims to cover.
    own_error: ComparisonOwnError
    #: The effects that the closed form does not claim.
    effects: list[ComparisonDifference]
    #: The rest that no switch explains by itself.
    rest: ComparisonRemainder
    #: Own error, effects and rest: simulation minus closed form, in picoseconds.
    sum_picoseconds: int
    #: The same in seconds.
    sum_s: float


class Comparison(_Comparison, total=False):
    """Closed form and simulation of one step."""

    #: The result of the user's formula for the step.
    formula: Optional[ComparisonFormulaReading]


#: The device events that count.
ProfileWindow = Literal["all", "linked"]


class _ProfileRankProfile(TypedDict):
    #: Number in the job; of files that do not say, their place in the order given.
    rank: int
    #: The file.
    file: str
    #: One step: the median of the steps marked in the file, else the window.
    step_s: float
    #: The steps that are marked.
    steps: list[ProfileStepProfile]
    #: From the first start to the last end of a device event.
    window_s: float
    #: Computing kernels ran.
    compute_s: float
    #: Copies and fills of the driver ran.
    copies_s: float
    #: Communication ran.
    communication_s: float
    #: Communication ran and no computing kernel; of a simulated step, that stood still for it.
    exposed_communication_s: float
    #: Communication by kind. Kinds that run at the same time each count.
    communication: dict[str, ProfileKindProfile]
    #: Nothing ran, by cause; sums to the idle time.
    idle_s: dict[str, float]
    #: Device events by class.
    kernels: dict[str, ProfileClassProfile]
    #: The same times as integers, over both windows.
    ns: ProfileWindows
    #: The streams.
    streams: list[ProfileStreamProfile]
    #: The longest stretches without computing kernels and copies.
    gaps: list[ProfileIdleGap]
    #: Device events whose launch is not in the file.
    without_launch: int
    #: Device events that start before an earlier one on the same stream has ended.
    same_stream_overlaps: int
    #: `cpu_op` events with a stream argument, which are no device events.
    cpu_ops_with_stream_arg: int


class ProfileRankProfile(_ProfileRankProfile, total=False):
    """The reading of one rank. Times are of the whole window, which may hold several steps."""

    #: Name of the device.
    device: Optional[str]
    #: Ranks of the job.
    world_size: Optional[int]
    #: Model FLOPs over what the device could have done in a step, where a model is given.
    mfu: Optional[float]
    #: From the peak to MFU, where a model is given.
    waterfall: Optional[ProfileMeasuredWaterfall]
    #: Of a file with several devices: each.
    devices_ns: dict[str, ProfileDeviceBreakdown]
    #: The kinds of events passed over, and their numbers.
    skipped: dict[str, int]


class _ProfileStepProfile(TypedDict):
    #: `ProfilerStep#N`.
    name: str
    #: Start, in nanoseconds of the file's clock.
    start_ns: int
    #: Length of the mark.
    duration_ns: int
    #: Device events launched during it.
    events: int
    #: Their times, in nanoseconds.
    device_ns: ProfileDeviceBreakdown


class ProfileStepProfile(_ProfileStepProfile, total=False):
    """A step as its mark on the host says, and the device events that were launched during it."""

    #: True if they overlap a neighbouring step's (a loop that works ahead): then `device_ns` is of all that ran in the
    #: step's period, up to the first device event of the next step.
    overlaps: bool


class ProfileDeviceBreakdown(TypedDict):
    """Times of a set of device events, in nanoseconds."""

    #: From the first start to the last end.
    window: int
    #: Anything ran.
    busy: int
    #: Nothing ran.
    idle: int
    #: Kernels that are no communication ran.
    compute: int
    #: Communication ran.
    comm: int
    #: Copies and fills of the driver ran.
    mem: int
    #: Communication ran under computing kernels.
    comm_hidden: int
    #: Communication ran and no computing kernel.
    comm_exposed: int


class _ProfileKindProfile(TypedDict):
    #: Device events.
    count: int
    #: Time in which one ran.
    ran_s: float
    #: The part under computing kernels.
    under_kernels_s: float
    #: The rest; of a simulated step the part of it for which the compute stream stood still for it.
    exposed_s: float


class ProfileKindProfile(_ProfileKindProfile, total=False):
    """Communication of a kind."""

    #: And the part for which that stood still for something else, which a profile does not tell apart.
    while_idle_s: float


class _ProfileClassProfile(TypedDict):
    #: The resource that they take.
    family: ProfileFamily
    #: How many.
    count: int
    #: Sum of their durations.
    total_s: float


class ProfileClassProfile(_ProfileClassProfile, total=False):
    """Device events of a class."""

    #: The kind of their work.
    work: str


#: The resource that a device event takes: compute units, links, or the memory of the device.
ProfileFamily = Literal["compute", "communication", "memory"]


class ProfileMeasuredWaterfall(TypedDict):
    """The way from the peak to MFU: `mfu` and all shares sum to 1."""

    #: Model FLOPs of all steps in the window over what the device could have done in it.
    mfu: float
    #: The bars below it, largest first.
    bars: list[ProfileMeasuredBar]


class ProfileMeasuredBar(TypedDict):
    """One bar."""

    #: `gemm below the peak`, `attention below the peak`, another work of kernels, `exposed communication`, `idle: …`.
    what: str
    #: Of the window; negative where MFU counts more than ran, or kernels ran side by side.
    time_s: float
    #: Over the window.
    share: float


class _ProfileWindows(TypedDict):
    #: Of all device events.
    all: ProfileDeviceBreakdown


class ProfileWindows(_ProfileWindows, total=False):
    """Times in nanoseconds over both windows."""

    #: Of those whose launch is in the file; left out where that is all or none of them.
    linked: Optional[ProfileDeviceBreakdown]


class ProfileStreamProfile(TypedDict):
    """A stream of a device."""

    #: The device, as the file writes it.
    device: str
    #: The stream, as the file writes it.
    stream: str
    #: Device events.
    events: int
    #: Those that are communication.
    comm_events: int
    #: Time in which one ran, in nanoseconds.
    busy_ns: int


class ProfileIdleGap(TypedDict):
    """A stretch without computing kernels and copies."""

    #: When it begins, from the start of the window.
    at_s: float
    #: How long it is.
    length_s: float
    #: The part in which communication ran.
    communication_s: float
    #: The rest by cause.
    idle_s: dict[str, float]
    #: The event that ended it: `launch late`, `communication`, `event wait`, `queue`, `queued, cause not in the file`
    #: where no kernel queued behind another waits so long, or `unknown` where the launch is not in the file.
    ended_by: str
    #: The kernel before.
    before: str
    #: The kernel after.
    after: str


class ProfileSkew(TypedDict):
    """Collectives of several ranks, matched."""

    #: Collectives that were matched over all given ranks of their group.
    matched: int
    #: Collectives without counterpart or without arguments.
    unmatched: int
    #: By rank: how it came to collectives.
    ranks: list[ProfileRankSkew]
    #: The matched ones in order of time.
    rows: list[ProfileSkewedCollective]


class _ProfileRankSkew(TypedDict):
    #: Number in the job.
    rank: int
    #: Collectives to which it came last.
    last: int
    #: Time by which it came after the last of the others, in all.
    waited_for_s: float
    #: Time that it waited for the last one, in all.
    waits_s: float


class ProfileRankSkew(_ProfileRankSkew, total=False):
    """How a rank came to collectives."""

    #: The lead of its clock over the first rank's, where the clocks differ.
    clock_offset_s: Optional[float]


class _ProfileSkewedCollective(TypedDict):
    #: As the profiler names it.
    name: str
    #: Its process group.
    group: str
    #: Its first start, from the start of the first row.
    first_s: float
    #: Last start − first start.
    skew_s: float
    #: First end − last start: the time with all ranks in, an estimate of the transfer from below.
    active_s: float
    #: The rank that came last.
    last_rank: int


class ProfileSkewedCollective(_ProfileSkewedCollective, total=False):
    """A matched collective."""

    #: Bytes of the whole buffer of a rank.
    bytes: Optional[int]


class _ProfileCandidate(TypedDict):
    #: Its description: `rank 3 (×2.85)`, `nic, 12.5 GB/s`, `recomputation: full`.
    what: str
    #: How it would be otherwise: `as the others`, `25 GB/s`, `none`.
    otherwise: str
    #: The sort of change.
    kind: ProfileCandidateKind
    #: The step with it otherwise.
    step_s: float
    #: The work or wait that a mean rank itself loses then: kernels, its own communication, its host.
    own_s: float
    #: The wait that ranks lose for one another then. Both sum to the gain of the step.
    induced_s: float


class ProfileCandidate(_ProfileCandidate, total=False):
    """Something that could be otherwise, and the step with it otherwise, played."""

    #: The settings that make it so, as `--set` takes them; none where no field does.
    sets: list[str]
    #: Where no field does: its name, as `--without` of `stepsim whatif` takes it.
    without: Optional[str]
    #: The fullest device memory then.
    memory_peak_bytes: Optional[int]


#: The sort of a possible change.
ProfileCandidateKind = Literal["fault", "uneven", "limit", "choice"]


class _ProfileReport(TypedDict):
    #: The device events of the times in seconds.
    window: ProfileWindow
    #: One a rank, in order of their numbers.
    ranks: list[ProfileRankProfile]


class ProfileReport(_ProfileReport, total=False):
    """Everything that is said of some profiles."""

    #: Collectives of several ranks beside each other.
    collectives: Optional[ProfileSkew]
    #: Ranks of the job whose profile was not given.
    missing_ranks: list[int]
    #: The candidates that count most in one sentence, as reports of `run` have it.
    hangs_on: str
    #: Candidates: the step played again with each otherwise; those of the sentence first, then the dearest.
    candidates: list[ProfileCandidate]
    #: The step as it is played unchanged, where candidates were.
    played_s: Optional[float]
    #: Why it was not played.
    not_played: Optional[str]
    #: Files that held nothing to read, with why.
    unread: list[str]
