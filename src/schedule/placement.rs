//! Where the stages sit.

use super::{Data, OrderFault};

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
    /// The direction: 0, or 1 for the second one of DualPipe.
    pub direction: u16,
    /// The model's stage: 0 is next to the data, the last one computes the loss.
    pub stage: u32,
}

/// Where the stages sit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlacement {
    paths: Vec<Vec<Seat>>,
    stages_at: Vec<Vec<StageAt>>,
    /// By micro-batch: the rank whose side makes the input of the first stage; none without sides.
    sides: Vec<u32>,
    /// True if gradients of that input go back to it.
    sides_back: bool,
}

impl StagePlacement {
    /// The same with a side on every rank: a chunk behind its others that makes the first stage's input for the
    /// micro-batches that it owns. Sides are stages of their own numbers, behind the model's.
    pub(super) fn with_sides(mut self, owners: Vec<u32>, back: bool) -> StagePlacement {
        let stages = self.stages();
        for (stage, at) in (stages..).zip(&mut self.stages_at) {
            at.push(StageAt { direction: 0, stage });
        }
        (self.sides, self.sides_back) = (owners, back);
        self
    }
    /// True if ranks have sides.
    pub fn has_sides(&self) -> bool {
        !self.sides.is_empty()
    }
    /// True if a stage is a rank's side.
    pub fn is_side(&self, at: StageAt) -> bool {
        at.stage >= self.stages()
    }
    /// Stages of the model, and sides.
    pub fn all_stages(&self) -> u32 {
        self.stages() + if self.has_sides() { self.ranks() } else { 0 }
    }
    /// Micro-batches whose input the side of a rank makes.
    pub fn owned(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.sides).filter(move |(_, owner)| **owner == rank).map(|(micro_batch, _)| micro_batch)
    }
    /// The side that makes the input of a micro-batch, where ranks have sides.
    fn side_of(&self, micro_batch: u32) -> Option<StageAt> {
        let owner = self.sides.get(micro_batch as usize)?;
        Some(StageAt { direction: 0, stage: self.stages() + owner })
    }
    /// As [`StagePlacement::source`], of a micro-batch, sides among the stages.
    pub fn source_of(&self, at: StageAt, needs: Data, micro_batch: u32) -> Option<(StageAt, Data)> {
        match (self.side_of(micro_batch), needs) {
            (Some(_), Data::Activations) if self.is_side(at) => None,
            (Some(_), Data::Gradients) if self.is_side(at) => {
                self.sides_back.then_some((StageAt { stage: 0, ..at }, needs))
            }
            (Some(side), Data::Activations) if at.stage == 0 => Some((side, needs)),
            _ => self.source(at, needs),
        }
    }
    /// As [`StagePlacement::consumer`], of a micro-batch, sides among the stages.
    pub fn consumer_of(&self, at: StageAt, made: Data, micro_batch: u32) -> Option<StageAt> {
        match (self.side_of(micro_batch), made) {
            (Some(_), Data::Activations) if self.is_side(at) => Some(StageAt { stage: 0, ..at }),
            (Some(_), Data::Gradients) if self.is_side(at) => None,
            (Some(side), Data::Gradients) if at.stage == 0 => self.sides_back.then_some(side),
            _ => self.consumer(at, made),
        }
    }

    /// Chunk c of rank r is stage c·p + r.
    pub fn looped(ranks: u32, chunks: u16) -> StagePlacement {
        let path = (0..chunks).flat_map(|chunk| (0..ranks).map(move |rank| Seat { rank, chunk })).collect();
        Self::of_paths(vec![path])
    }
    /// Two chunks per rank: stages r and 2p−1−r.
    pub fn v_shape(ranks: u32) -> StagePlacement {
        let down = (0..ranks).map(|rank| Seat { rank, chunk: 0 });
        let up = (0..ranks).rev().map(|rank| Seat { rank, chunk: 1 });
        Self::of_paths(vec![down.chain(up).collect()])
    }
    /// Two directions: stage r of direction 0 as chunk 0, stage p−1−r of direction 1 as chunk 1.
    pub fn two_directions(ranks: u32) -> StagePlacement {
        let down = (0..ranks).map(|rank| Seat { rank, chunk: 0 }).collect();
        let up = (0..ranks).rev().map(|rank| Seat { rank, chunk: 1 }).collect();
        Self::of_paths(vec![down, up])
    }
    /// From the seats of the stages, for each direction.
    ///
    /// # Errors
    /// If there are more than two directions, if they differ in length, or the seats are not exactly the chunks 0, 1,
    /// … of ranks 0, 1, ….
    pub fn from_paths(paths: Vec<Vec<Seat>>) -> Result<StagePlacement, OrderFault> {
        let bad = |what: String| Err(OrderFault::Placement(what));
        if paths.len() > 2 {
            return bad(format!("{} directions are too many: there are two ends to enter at", paths.len()));
        }
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

    fn of_paths(paths: Vec<Vec<Seat>>) -> StagePlacement {
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
        StagePlacement { paths, stages_at, sides: Vec::new(), sides_back: false }
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
    /// Chunks of a rank, its side among them.
    pub fn chunks(&self, rank: u32) -> u16 {
        self.stages_at[rank as usize].len() as u16
    }
    /// Stages that one micro-batch meets on a rank, which is into how many parts the rank's share is cut; for uneven
    /// placements the largest such number.
    pub fn parts(&self) -> u32 {
        let most = self.stages_at.iter().map(Vec::len).max().unwrap_or(1);
        ((most - usize::from(self.has_sides())) / self.paths.len()).max(1) as u32
    }
    /// Where a stage sits.
    pub fn seat(&self, at: StageAt) -> Seat {
        if self.is_side(at) {
            let rank = at.stage - self.stages();
            return Seat { rank, chunk: self.chunks(rank) - 1 };
        }
        self.paths[at.direction as usize][at.stage as usize]
    }
    /// The stage of a chunk.
    pub fn stage(&self, seat: Seat) -> StageAt {
        self.stages_at[seat.rank as usize][seat.chunk as usize]
    }
    /// True if every stage lies on ranks r and p−1−r, once for each of two directions.
    pub fn is_mirrored(&self) -> bool {
        let p = self.ranks();
        let [one, other] = self.paths.as_slice() else { return false };
        p.is_multiple_of(2) && one.iter().zip(other).all(|(one, other)| one.rank + other.rank + 1 == p)
    }
    /// True if a rank with the last stage is without stage `first`, where the model begins: of whatever direction, so
    /// that two directions and a V have both ends on one rank.
    pub fn ends_apart(&self, first: u32) -> bool {
        let begins = |rank: u32| self.stages_at[rank as usize].iter().any(|at| at.stage == first);
        self.paths.iter().any(|path| path.last().is_some_and(|last| !begins(last.rank)))
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
    /// The stage that takes what a stage makes; `None` at the end of its way.
    pub fn consumer(&self, at: StageAt, made: Data) -> Option<StageAt> {
        match made {
            Data::Activations => {
                (at.stage + 1 < self.stages()).then_some(StageAt { stage: at.stage + 1, ..at })
            }
            Data::Gradients => at.stage.checked_sub(1).map(|stage| StageAt { stage, ..at }),
        }
    }
}
