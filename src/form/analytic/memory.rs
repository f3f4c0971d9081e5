//! The peak of one rank's device memory: its order walked through, visit by visit.
//!
//! The level during a visit is the sum of the bytes that stay, the tensors that micro-batches carry from their forward
//! to their backward passes, the policies' bytes of just this visit, its recomputed tensors, and its short-lived ones.
//! Overlapped passes are walked side by side.
//!
//! Not seen: copies and reductions of other ranks on the same links, behind which more waits than alone.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use rustc_hash::FxHashMap;

use stepsim_plan::step::residency::{ClassBytes, PolicyInputs};
use stepsim_plan::step::{FullRecompute, Unit};
use stepsim_price::model::{CommGroup, CommOp, Item, LayerKind};
use stepsim_schedule::{Pass, Slot};

/// Bytes in device memory, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryBytes {
    /// Weights that stay.
    pub weights: f64,
    /// Gradients, also those that wait for their reduction.
    pub gradients: f64,
    /// Optimizer state that stays.
    pub optimizer: f64,
    /// Activations of all micro-batches in flight, also those that are computed again.
    pub activations: f64,
    /// Weights gathered or copied in for the units in work.
    pub gathered: f64,
    /// Short-lived tensors of the unit in work.
    pub workspace: f64,
    /// Of all these, what is held at one moment for certain: the state that stays, and the kept activations at their
    /// most.
    pub certain: f64,
    /// The allocator's cache at its fullest: blocks freed by one tensor and too small for the next.
    pub cached: f64,
}

impl MemoryBytes {
    /// Every class with its name.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("weights", self.weights),
            ("gradients", self.gradients),
            ("optimizer state", self.optimizer),
            ("activations", self.activations),
            ("gathered weights", self.gathered),
            ("workspace", self.workspace),
        ]
    }
    /// All of them.
    pub fn total(&self) -> f64 {
        self.weights + self.gradients + self.optimizer + self.activations + self.gathered + self.workspace
    }
    /// The bytes of passes: neither state nor gradients.
    fn working(&self) -> f64 {
        self.activations + self.gathered + self.workspace
    }
    fn fuller(self, other: MemoryBytes) -> MemoryBytes {
        if other.total() > self.total() { other } else { self }
    }
}

impl AddAssign for MemoryBytes {
    fn add_assign(&mut self, other: MemoryBytes) {
        self.weights += other.weights;
        self.gradients += other.gradients;
        self.optimizer += other.optimizer;
        self.activations += other.activations;
        self.gathered += other.gathered;
        self.workspace += other.workspace;
    }
}

fn sum(a: MemoryBytes, b: MemoryBytes) -> MemoryBytes {
    let mut sum = a;
    sum += b;
    sum
}

/// One pass of a chunk: the level during each of its visits, over that at its start, and what it leaves behind.
#[derive(Clone, Debug, Default)]
struct Course {
    levels: Vec<MemoryBytes>,
    change: MemoryBytes,
}

impl Course {
    /// The level during the `i`-th visit, and after the last.
    fn at(&self, i: usize) -> MemoryBytes {
        self.levels.get(i).copied().unwrap_or(self.change)
    }
    /// Both at once.
    fn beside(&self, other: &Course) -> Course {
        let visits = self.levels.len().max(other.levels.len());
        let levels = (0..visits).map(|i| sum(self.at(i), other.at(i))).collect();
        Course { levels, change: sum(self.change, other.change) }
    }
    fn fullest(&self) -> MemoryBytes {
        self.levels.iter().fold(MemoryBytes::default(), |most, level| most.fuller(*level))
    }
}

/// A pass of a chunk.
type ChunkPass = (Pass, u16);

/// The bytes of a slot over the level at its start, and the bytes that it leaves behind.
#[derive(Clone, Copy)]
struct Visited {
    fullest: MemoryBytes,
    fullest_bytes: f64,
    /// The most of what passes hold.
    working: f64,
    /// The most of weights that are gathered.
    gathered: f64,
    change: MemoryBytes,
}

/// A rank: what its policies hold of weights, gradients, optimizer state and activations.
struct PolicyRank<'a> {
    given: PolicyInputs<'a>,
    held: [ClassBytes; 4],
    /// True if the host launches a forward pass faster than the device runs it.
    host_ahead: bool,
}

/// The walk of a rank, or of several that hold the same: slots alike but for their micro-batches hold alike.
pub(super) struct RankWalk<'a> {
    rank: PolicyRank<'a>,
    single: Vec<[Option<Visited>; Pass::COUNT]>,
    paired: FxHashMap<(ChunkPass, ChunkPass), Visited>,
}

impl<'a> RankWalk<'a> {
    pub fn new(given: PolicyInputs<'a>, held: [ClassBytes; 4], host_ahead: bool) -> RankWalk<'a> {
        let single = vec![[None; Pass::COUNT]; given.chunks.len()];
        RankWalk { rank: PolicyRank { given, held, host_ahead }, single, paired: FxHashMap::default() }
    }

    /// The fullest moment of `slots`.
    pub fn fullest(&mut self, slots: &[Slot]) -> MemoryBytes {
        let RankWalk { rank, single, paired } = self;
        let [weights, gradients, optimizer, activations] = rank.held.each_ref().map(|held| held.stays);
        let workload = rank.given.shares.workload();
        let workspace = workload.context_bytes() as f64;
        let mut level =
            MemoryBytes { weights, gradients, optimizer, activations, workspace, ..MemoryBytes::default() };
        let update = MemoryBytes {
            weights: if rank.given.shares.copies_weights() { 0.0 } else { weights },
            gradients: gradients + rank.held[1].update,
            workspace: workspace + rank.held[2].update,
            ..level
        };
        let mut most = level;
        let idle = level.working();
        let (state, mut kept, mut working, mut gathered) = (level.total(), 0.0_f64, 0.0_f64, 0.0_f64);
        for slot in slots {
            let visited = || rank.visited(slot);
            let at = match *slot {
                Slot::Single(part) => {
                    single[usize::from(part.chunk)][part.pass as usize].get_or_insert_with(visited)
                }
                Slot::Overlapped { forward, backward } => {
                    let kinds = ((forward.pass, forward.chunk), (backward.pass, backward.chunk));
                    paired.entry(kinds).or_insert_with(visited)
                }
            };
            if level.total() + at.fullest_bytes > most.total() {
                most = sum(level, at.fullest);
            }
            working = working.max(level.working() + at.working - idle);
            gathered = gathered.max(at.gathered);
            level += at.change;
            kept = kept.max(level.activations - activations);
        }
        most = most.fuller(update);
        most.certain = state + kept;
        if workload.stack().memory.caches {
            let sets = rank.working_sets();
            let apart = most.certain + sets.values().sum::<f64>() + most.gathered;
            // Blocks of the update's short-lived tensors, as large as a weight each, are too small for most
            // activations: both stay cached.
            let beside_update = update.total() + working;
            // A layer gives its tensors back in another order than it takes them: as much as half of them are holes.
            let layers = [LayerKind::Dense, LayerKind::Moe].iter().filter_map(|kind| sets.get(kind));
            let holes = most.total() + 0.5 * layers.copied().fold(0.0, f64::max);
            // Blocks of the stream that gathers serve no other.
            let gathers = gathered - most.gathered;
            most.cached = gathers
                + rank.unsummed(slots)
                + (apart.max(beside_update).max(holes) - most.total()).max(0.0);
        }
        most
    }
}

impl PolicyRank<'_> {
    /// Outputs that tensor-parallel ranks sum and scatter: freed as soon as that is launched, cached until it has run.
    /// They pile up in the forward passes before the first backward one, where the host is ahead: everywhere, or else
    /// behind the second micro-batch, when the message to a stage that works on the first holds the device.
    fn unsummed(&self, slots: &[Slot]) -> f64 {
        let workload = self.given.shares.workload();
        if !workload.stack().memory.collective_inputs_wait {
            return 0.0;
        }
        let scattered = |item: &Item| match item.comm() {
            Some(comm) if (comm.group, comm.op) == (CommGroup::Tensor, CommOp::ReduceScatter) => comm.bytes,
            _ => 0,
        };
        let of_chunk = |chunk: u16| -> u64 {
            let units = &self.given.chunks[usize::from(chunk)].0;
            units.iter().flat_map(|u| &u.unit.plan.forward).map(scattered).sum()
        };
        let forward = |slot: &Slot| match slot {
            Slot::Single(part) if part.pass == Pass::Forward => Some(of_chunk(part.chunk)),
            _ => None,
        };
        let in_step = if self.host_ahead || workload.parallelism.pipeline.size == 1 { 0 } else { 2 };
        slots.iter().map_while(forward).skip(in_step).sum::<u64>() as f64
    }
    /// Short-lived tensors of the largest unit of each kind, together: a layer's blocks are too small for logits and
    /// stay cached.
    fn working_sets(&self) -> BTreeMap<LayerKind, f64> {
        let mut sets: BTreeMap<LayerKind, f64> = BTreeMap::new();
        for unit in self.given.units().map(|u| u.unit) {
            let again = unit.saved_bytes.saturating_sub(unit.kept_bytes) + unit.plan.workspace_bytes;
            let set = sets.entry(unit.plan.kind).or_default();
            *set = set.max(again as f64);
        }
        sets
    }
    fn visited(&self, slot: &Slot) -> Visited {
        let courses = slot.parts().map(|part| self.course((part.pass, part.chunk)));
        let course = courses.reduce(|a, b| a.beside(&b)).unwrap_or_default();
        let fullest = course.fullest();
        let most = |of: fn(&MemoryBytes) -> f64| course.levels.iter().map(of).fold(0.0, f64::max);
        Visited {
            fullest,
            fullest_bytes: fullest.total(),
            working: most(MemoryBytes::working),
            gathered: most(|level| level.gathered),
            change: course.change,
        }
    }

    fn course(&self, (pass, chunk): ChunkPass) -> Course {
        let (chunk, units) = (usize::from(chunk), &self.given.chunks[usize::from(chunk)].0);
        let carried = |i: usize| self.held[3].carried.get(chunk).map_or(0.0, |units| units[i]);
        let all = |u: &Unit| u.saved_bytes.max(u.kept_bytes) as f64;
        let again = |u: &Unit| all(u) - u.kept_bytes as f64;
        let weight_grad = |u: &Unit| u.plan.weight_grad_bytes as f64;
        let stays = |u: &Unit| self.given.shares.staying_bytes(u) as f64;
        let forward = pass == Pass::Forward;
        let order: Vec<usize> =
            if forward { (0..units.len()).collect() } else { (0..units.len()).rev().collect() };
        let mut course = Course::default();
        // Units from here on have been computed again.
        let mut repeated_from = units.len();
        let mut staying = 0.0;
        for i in order {
            let unit = units[i].unit;
            if pass != Pass::Forward && !unit.plan.has_backward() {
                continue;
            }
            let skipped = unit.plan.input_grad.is_empty();
            let mut level = course.change;
            level.workspace += unit.plan.workspace_bytes as f64;
            let behind = match pass {
                Pass::Forward => {
                    level.activations += carried(i);
                    carried(i)
                }
                Pass::WeightGrad => -if skipped { carried(i) } else { weight_grad(unit) },
                Pass::InputGrad if skipped => continue,
                Pass::Backward | Pass::InputGrad => {
                    if i < repeated_from {
                        // All units since the last kept input are recomputed together.
                        let mut from = i;
                        while units[from].unit.recompute == FullRecompute::FromBefore {
                            from -= 1;
                        }
                        let extra: f64 = (from..=i).map(|u| again(units[u].unit)).sum();
                        level.activations += extra;
                        course.change.activations += extra;
                        repeated_from = from;
                    }
                    let left = if pass == Pass::InputGrad { weight_grad(unit) } else { 0.0 };
                    let stays = if pass == Pass::Backward { stays(unit) } else { 0.0 };
                    level.activations += (left - all(unit)).max(0.0) + stays;
                    staying += 2.0 * stays;
                    left + 2.0 * stays - again(unit) - carried(i)
                }
            };
            if pass != Pass::WeightGrad {
                level += self.during(chunk, i, forward, pass == Pass::Backward);
            } else {
                level.gradients += self.of_class(1, chunk, i, false);
            }
            course.levels.push(level);
            course.change.activations += behind;
        }
        course.change.activations -= staying;
        course
    }

    /// The policies' bytes during a visit.
    fn during(&self, chunk: usize, unit: usize, forward: bool, adds_gradient: bool) -> MemoryBytes {
        MemoryBytes {
            gradients: if forward || adds_gradient { self.of_class(1, chunk, unit, forward) } else { 0.0 },
            optimizer: self.of_class(2, chunk, unit, forward),
            activations: self.of_class(3, chunk, unit, forward),
            gathered: self.of_class(0, chunk, unit, forward),
            ..MemoryBytes::default()
        }
    }
    fn of_class(&self, class: usize, chunk: usize, unit: usize, forward: bool) -> f64 {
        let during = &self.held[class].during;
        during.get(chunk).map_or(0.0, |units| units[unit][usize::from(!forward)])
    }
}
