//! Orders: the list of slots of every rank, and where the stages sit.

use std::fmt;

/// A pass of one micro-batch through one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// Forward.
    Forward,
    /// Backward, both gradients.
    Backward,
    /// Backward, gradient of the inputs only.
    InputGrad,
    /// Backward, gradient of the weights only.
    WeightGrad,
}

impl Pass {
    /// Its letter in pipeline diagrams.
    pub fn letter(self) -> char {
        match self {
            Pass::Forward => 'F',
            Pass::Backward => 'B',
            Pass::InputGrad => 'I',
            Pass::WeightGrad => 'W',
        }
    }
    /// What other stages receive from it.
    pub fn makes(self) -> Option<Data> {
        match self {
            Pass::Forward => Some(Data::Activations),
            Pass::Backward | Pass::InputGrad => Some(Data::Gradients),
            Pass::WeightGrad => None,
        }
    }
}

/// What crosses a border between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Data {
    /// Output of a forward pass, towards the next stage.
    Activations,
    /// Gradient with respect to a stage's input, towards the stage before.
    Gradients,
}

/// One pass of one micro-batch through one chunk of a rank. Shown as `F3` or, on chunk 1, `F3.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Which pass.
    pub pass: Pass,
    /// Which of the rank's chunks.
    pub chunk: u16,
    /// Which micro-batch.
    pub micro_batch: u32,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.pass.letter(), self.micro_batch)?;
        if self.chunk > 0 { write!(f, ".{}", self.chunk) } else { Ok(()) }
    }
}

/// What a rank does at one place of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// One pass.
    Single(Part),
    /// A forward pass and a full backward pass of another micro-batch at the same time; both end together.
    Overlapped {
        /// The forward pass.
        forward: Part,
        /// The backward pass.
        backward: Part,
    },
}

impl Slot {
    /// Its one or two parts.
    pub fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let (a, b) = match *self {
            Slot::Single(part) => (part, None),
            Slot::Overlapped { forward, backward } => (forward, Some(backward)),
        };
        std::iter::once(a).chain(b)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Single(part) => part.fmt(f),
            Slot::Overlapped { forward, backward } => write!(f, "{forward}&{backward}"),
        }
    }
}

/// A chunk of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The pipeline rank.
    pub rank: u32,
    /// Its chunk.
    pub chunk: u16,
}

/// A stage of the model as one direction of micro-batches passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageAt {
    /// Which direction: 0, or 1 for the second one of DualPipe.
    pub direction: u16,
    /// The model's stage: 0 is next to the data, the last one computes the loss.
    pub stage: u32,
}

/// Where the stages sit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    paths: Vec<Vec<Seat>>,
    stages_at: Vec<Vec<StageAt>>,
}

impl Placement {
    /// Chunk c of rank r is stage c·p + r.
    pub fn looped(ranks: u32, chunks: u16) -> Placement {
        let path = (0..chunks).flat_map(|chunk| (0..ranks).map(move |rank| Seat { rank, chunk })).collect();
        Self::of_paths(vec![path])
    }
    /// Two chunks per rank: stages r and 2p−1−r.
    pub fn v_shape(ranks: u32) -> Placement {
        let down = (0..ranks).map(|rank| Seat { rank, chunk: 0 });
        let up = (0..ranks).rev().map(|rank| Seat { rank, chunk: 1 });
        Self::of_paths(vec![down.chain(up).collect()])
    }
    /// Two directions: stage r of direction 0 as chunk 0, stage p−1−r of direction 1 as chunk 1.
    pub fn two_directions(ranks: u32) -> Placement {
        let down = (0..ranks).map(|rank| Seat { rank, chunk: 0 }).collect();
        let up = (0..ranks).rev().map(|rank| Seat { rank, chunk: 1 }).collect();
        Self::of_paths(vec![down, up])
    }
    /// From the seats of the stages, for each direction.
    ///
    /// # Errors
    /// If the directions differ in length, or the seats are not exactly the chunks 0, 1, … of ranks 0, 1, ….
    pub fn from_paths(paths: Vec<Vec<Seat>>) -> Result<Placement, OrderFault> {
        let bad = |what: String| Err(OrderFault::Placement(what));
        let stages = paths.first().map_or(0, Vec::len);
        if stages == 0 || paths.iter().any(|p| p.len() != stages) {
            return bad("every direction must pass the same number of stages, at least 1".to_owned());
        }
        let mut seats: Vec<Seat> = paths.iter().flatten().copied().collect();
        seats.sort();
        if let Some(w) = seats.windows(2).find(|w| w[0] == w[1]) {
            return bad(format!("chunk {} of rank {} holds two stages", w[0].chunk, w[0].rank));
        }
        let mut next = Seat { rank: 0, chunk: 0 };
        for seat in seats {
            let opens_next_rank = next.chunk > 0 && seat == Seat { rank: next.rank + 1, chunk: 0 };
            if seat != next && !opens_next_rank {
                return bad(format!(
                    "chunk {} of rank {} holds a stage, but chunk {} of rank {} holds none",
                    seat.chunk, seat.rank, next.chunk, next.rank
                ));
            }
            next = Seat { rank: seat.rank, chunk: seat.chunk + 1 };
        }
        Ok(Self::of_paths(paths))
    }

    fn of_paths(paths: Vec<Vec<Seat>>) -> Placement {
        let ranks = paths.iter().flatten().map(|s| s.rank + 1).max().unwrap_or(0);
        let mut stages_at = vec![Vec::new(); ranks as usize];
        let mut seats: Vec<(Seat, StageAt)> = Vec::new();
        for (direction, path) in paths.iter().enumerate() {
            for (stage, seat) in path.iter().enumerate() {
                seats.push((*seat, StageAt { direction: direction as u16, stage: stage as u32 }));
            }
        }
        seats.sort();
        for (seat, at) in seats {
            stages_at[seat.rank as usize].push(at);
        }
        Placement { paths, stages_at }
    }

    /// Pipeline ranks.
    pub fn ranks(&self) -> u32 {
        self.stages_at.len() as u32
    }
    /// Stages of the model.
    pub fn stages(&self) -> u32 {
        self.paths[0].len() as u32
    }
    /// Directions in which micro-batches pass: 1, or 2 for DualPipe.
    pub fn directions(&self) -> u16 {
        self.paths.len() as u16
    }
    /// Chunks of a rank.
    pub fn chunks(&self, rank: u32) -> u16 {
        self.stages_at[rank as usize].len() as u16
    }
    /// Stages that one micro-batch meets on a rank, which is into how many parts the rank's share is cut; for uneven
    /// placements the largest such number.
    pub fn parts(&self) -> u32 {
        let most = self.stages_at.iter().map(Vec::len).max().unwrap_or(1);
        (most / self.paths.len()).max(1) as u32
    }
    /// Where a stage sits.
    pub fn seat(&self, at: StageAt) -> Seat {
        self.paths[at.direction as usize][at.stage as usize]
    }
    /// Which stage a chunk is.
    pub fn stage(&self, seat: Seat) -> StageAt {
        self.stages_at[seat.rank as usize][seat.chunk as usize]
    }
    /// The seats of a direction, from the first stage to the last.
    pub fn path(&self, direction: u16) -> &[Seat] {
        &self.paths[direction as usize]
    }
    /// The stage whose data a pass of this stage needs, and which data; `None` at the start of the pipeline.
    /// The backward pass of the last stage needs the activations of its own forward pass.
    pub fn source(&self, at: StageAt, needs: Data) -> Option<(StageAt, Data)> {
        match needs {
            Data::Activations => at.stage.checked_sub(1).map(|stage| (StageAt { stage, ..at }, needs)),
            Data::Gradients if at.stage + 1 < self.stages() => {
                Some((StageAt { stage: at.stage + 1, ..at }, needs))
            }
            Data::Gradients => Some((at, Data::Activations)),
        }
    }
}

/// The order of every rank, and where the stages sit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Where the stages sit.
    pub placement: Placement,
    /// Micro-batches, of all directions together; those of direction d are the d-th of equal parts of 0..m.
    pub micro_batches: u32,
    /// The slots of each rank.
    pub ranks: Vec<Vec<Slot>>,
}

impl Order {
    /// Live micro-batch chunks at the worst moment on each rank: one more from the start of a forward pass, one less
    /// from the end of the backward pass or weight gradient.
    pub fn peak(&self) -> Vec<u32> {
        let peak_of = |slots: &Vec<Slot>| {
            let (mut live, mut peak) = (0u32, 0u32);
            for slot in slots {
                live += slot.parts().filter(|p| p.pass == Pass::Forward).count() as u32;
                peak = peak.max(live);
                let freed =
                    slot.parts().filter(|p| matches!(p.pass, Pass::Backward | Pass::WeightGrad)).count();
                live = live.saturating_sub(freed as u32);
            }
            peak
        };
        self.ranks.iter().map(peak_of).collect()
    }

    /// Micro-batches of each direction.
    pub fn per_direction(&self) -> u32 {
        self.micro_batches / u32::from(self.placement.directions())
    }

    /// Checks that every micro-batch passes every stage forwards and backwards exactly once, that weight gradients
    /// come after their input gradients, and that the ranks' orders together can run to their end.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), OrderFault> {
        for rank in 0..self.placement.ranks() {
            self.check_rank(rank)?;
        }
        self.topological().map(|_| ()).map_err(OrderFault::Deadlock)
    }

    fn check_rank(&self, rank: u32) -> Result<(), OrderFault> {
        let (m, chunks) = (self.micro_batches, self.placement.chunks(rank));
        // Per (chunk, micro-batch): bit 1 forward, 2 input gradient, 4 weight gradient.
        let mut seen = vec![0u8; m as usize * chunks as usize];
        for (index, part) in
            self.ranks[rank as usize].iter().enumerate().flat_map(|(i, s)| s.parts().map(move |p| (i, p)))
        {
            let fault = |what: String| Err(OrderFault::Slot { rank, index, part, what });
            if part.chunk >= chunks {
                return fault(format!("the rank has {chunks} chunk(s), numbered from 0"));
            }
            let direction = self.placement.stage(Seat { rank, chunk: part.chunk }).direction;
            let first = u32::from(direction) * self.per_direction();
            if !(first..first + self.per_direction()).contains(&part.micro_batch) {
                let last = first + self.per_direction() - 1;
                return fault(format!("micro-batches {first} to {last} pass this chunk"));
            }
            let (bits, needs) = match part.pass {
                Pass::Forward => (1, 0),
                Pass::Backward => (6, 1),
                Pass::InputGrad => (2, 1),
                Pass::WeightGrad => (4, 3),
            };
            let entry = &mut seen[part.chunk as usize * m as usize + part.micro_batch as usize];
            if *entry & bits != 0 {
                return fault("this pass has been done already".to_owned());
            }
            if *entry & needs != needs {
                let before = if part.pass == Pass::WeightGrad { "input gradient" } else { "forward pass" };
                return fault(format!("its {before} must come before it"));
            }
            *entry |= bits;
        }
        for chunk in 0..chunks {
            let direction = self.placement.stage(Seat { rank, chunk }).direction;
            let first = u32::from(direction) * self.per_direction();
            for micro_batch in first..first + self.per_direction() {
                let missing = match seen[chunk as usize * m as usize + micro_batch as usize] {
                    7 => continue,
                    0 => Pass::Forward,
                    1 => Pass::Backward,
                    _ => Pass::WeightGrad,
                };
                return Err(OrderFault::Missing { rank, part: Part { pass: missing, chunk, micro_batch } });
            }
        }
        Ok(())
    }

    /// All slots as (rank, index in the rank's list) so that each comes after all it needs.
    ///
    /// # Errors
    /// If the ranks wait for each other in a cycle.
    pub fn topological(&self) -> Result<Vec<(u32, u32)>, Deadlock> {
        let mut progress = Progress::new(self);
        let mut sequence = Vec::with_capacity(self.ranks.iter().map(Vec::len).sum());
        let mut woken: std::collections::VecDeque<u32> = (0..self.placement.ranks()).collect();
        while let Some(rank) = woken.pop_front() {
            let slots = &self.ranks[rank as usize];
            while let Some(slot) = slots.get(progress.cursor[rank as usize]) {
                if slot.parts().any(|part| progress.blocker(rank, part).is_some()) {
                    break;
                }
                sequence.push((rank, progress.cursor[rank as usize] as u32));
                progress.cursor[rank as usize] += 1;
                slot.parts().for_each(|part| progress.finish(rank, part, &mut woken));
            }
        }
        match (0..self.placement.ranks())
            .find(|&r| progress.cursor[r as usize] < self.ranks[r as usize].len())
        {
            None => Ok(sequence),
            Some(stuck) => Err(progress.cycle_from(stuck)),
        }
    }
}

/// How far a walk through an order has come.
struct Progress<'a> {
    order: &'a Order,
    cursor: Vec<usize>,
    /// Per (stage of a direction, micro-batch): bit 1 activations, bit 2 gradients.
    made: Vec<u8>,
}

impl<'a> Progress<'a> {
    fn new(order: &'a Order) -> Self {
        let stages = order.placement.stages() as usize * order.placement.directions() as usize;
        let made = vec![0; stages * order.micro_batches as usize];
        Progress { order, cursor: vec![0; order.ranks.len()], made }
    }
    fn entry(&mut self, at: StageAt, micro_batch: u32) -> &mut u8 {
        let stage = usize::from(at.direction) * self.order.placement.stages() as usize + at.stage as usize;
        &mut self.made[stage * self.order.micro_batches as usize + micro_batch as usize]
    }
    /// The seat and data that `part` still waits for.
    fn blocker(&mut self, rank: u32, part: Part) -> Option<(Seat, Data)> {
        let placement = &self.order.placement;
        let at = placement.stage(Seat { rank, chunk: part.chunk });
        // A weight gradient is local: `check` sees to its input gradient.
        let (source, data) = placement.source(at, part.pass.makes()?)?;
        let bit = 1 << data as u8;
        (*self.entry(source, part.micro_batch) & bit == 0).then(|| (placement.seat(source), data))
    }
    fn finish(&mut self, rank: u32, part: Part, woken: &mut std::collections::VecDeque<u32>) {
        let Some(data) = part.pass.makes() else { return };
        let placement = &self.order.placement;
        let at = placement.stage(Seat { rank, chunk: part.chunk });
        *self.entry(at, part.micro_batch) |= 1 << data as u8;
        let consumer = match data {
            Data::Activations => Some(at.stage + 1).filter(|s| *s < placement.stages()),
            Data::Gradients => at.stage.checked_sub(1),
        };
        if let Some(stage) = consumer {
            woken.push_back(placement.seat(StageAt { stage, ..at }).rank);
        }
    }
    /// Follows "waits for" from a stuck rank until a rank comes up again.
    fn cycle_from(mut self, mut rank: u32) -> Deadlock {
        let mut seen: Vec<Wait> = Vec::new();
        loop {
            if let Some(first) = seen.iter().position(|w| w.rank == rank) {
                return Deadlock { cycle: seen.split_off(first) };
            }
            let slot = self.order.ranks[rank as usize][self.cursor[rank as usize]];
            let (part, (seat, data)) = slot
                .parts()
                .find_map(|p| Some((p, self.blocker(rank, p)?)))
                .expect("a stuck rank waits for something");
            let producer = &self.order.ranks[seat.rank as usize];
            let makes = |s: &Slot| {
                s.parts().find(|p| {
                    p.micro_batch == part.micro_batch && p.chunk == seat.chunk && p.pass.makes() == Some(data)
                })
            };
            let made_by = producer.iter().find_map(makes);
            seen.push(Wait { rank, at: slot, for_rank: seat.rank, for_part: made_by });
            if made_by.is_none() {
                return Deadlock { cycle: seen.split_off(seen.len() - 1) };
            }
            rank = seat.rank;
        }
    }
}

/// The ranks' orders wait for each other in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each rank of the cycle waits for the next one, the last for the first.
    pub cycle: Vec<Wait>,
}

/// One rank of a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The rank that waits.
    pub rank: u32,
    /// The slot at which it waits.
    pub at: Slot,
    /// The rank whose result it needs.
    pub for_rank: u32,
    /// The part that makes it; `None` if that rank never does it.
    pub for_part: Option<Part>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock:")?;
        for (i, w) in self.cycle.iter().enumerate() {
            let separator = if i == 0 { "" } else { ";" };
            write!(f, "{separator} rank {} is at {} and waits for ", w.rank, w.at)?;
            match w.for_part {
                Some(part) => write!(f, "{part} of rank {}", w.for_rank)?,
                None => write!(f, "a pass that rank {} never does", w.for_rank)?,
            }
            if let Some(next) = self.cycle.get((i + 1) % self.cycle.len()).filter(|_| w.for_part.is_some()) {
                write!(f, ", which comes after {}", next.at)?;
            }
        }
        Ok(())
    }
}

/// What is wrong with an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderFault {
    /// The seats of the stages.
    #[error("{0}")]
    Placement(String),
    /// A slot that must not stand where it stands.
    #[error("rank {rank}, slot {index}: {part}: {what}")]
    Slot {
        /// The rank.
        rank: u32,
        /// Place in its list, from 0.
        index: usize,
        /// The part at fault.
        part: Part,
        /// Why.
        what: String,
    },
    /// A pass that is nowhere.
    #[error(
        "rank {rank}: {part} is missing: every micro-batch needs F and either B or both I and W on every chunk"
    )]
    Missing {
        /// The rank.
        rank: u32,
        /// What it lacks.
        part: Part,
    },
    /// The ranks wait for each other.
    #[error("{0}")]
    Deadlock(Deadlock),
}

/// Writes a rank's list: what schedules build their orders with.
#[derive(Debug, Default)]
pub(super) struct Lister {
    /// The list so far.
    pub slots: Vec<Slot>,
}

impl Lister {
    /// Appends one pass.
    pub fn push(&mut self, pass: Pass, chunk: u16, micro_batch: u32) {
        self.slots.push(Slot::Single(Part { pass, chunk, micro_batch }));
    }
}
