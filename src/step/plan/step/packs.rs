//! Ranks whose micro-batches hold different documents run programs of their own.

use std::rc::Rc;
use std::sync::Arc;

use super::layers::units_of_stages;
use super::unit::Unit;
use crate::core::ids::RankId;
use crate::step::documents::{Dealt, Work, Works};
use crate::step::model::Shard;
use crate::step::model::flops::StepFlops;
use crate::step::schedule::{Placement, Seat};
use crate::step::spec::SpecError;
use crate::step::spec::model::ModelSpec;
use crate::step::spec::workload::WorkloadSpec;
use crate::step::topology::{Axis, Layout};

/// The documents of a step, as ranks see them.
#[derive(Debug, Default)]
pub struct Packs {
    dealt: Option<Dealt>,
    usual: Option<Arc<Work>>,
    /// Work by micro-batch: the lists that differ.
    lists: Vec<Vec<Arc<Work>>>,
    /// By data-parallel rank, in it by context-parallel rank: which list is its own.
    of: Vec<u32>,
    context: u32,
}

/// Units of every stage, by micro-batch.
pub(super) type Packed = Vec<Rc<Stages>>;
/// The units of all stages, a list for each.
type Stages = Vec<Vec<Unit>>;

impl Packs {
    /// Of a workload on so many devices; no list where sequences hold no documents.
    ///
    /// # Errors
    /// Documents that cannot be read or are too many.
    pub fn new(workload: &WorkloadSpec, model: &ModelSpec, devices: u64) -> Result<Packs, SpecError> {
        let Some(dealt) = Dealt::new(workload, model, devices)? else { return Ok(Packs::default()) };
        let context = &workload.parallelism.context;
        let works = Works::new(&dealt, model, context).ok_or_else(|| {
            SpecError::at("documents", "their shares over context-parallel ranks take minutes to count")
                .allowed("about 1e9 pieces of documents, squared by document")
                .hint("longer documents, a smaller batch.global, or per_document off")
        })?;
        let mut packs = Packs { context: context.size as u32, ..Packs::default() };
        let mut known: Vec<Vec<&Work>> = Vec::new();
        for (d, c) in (0..dealt.ranks()).flat_map(|d| (0..context.size as usize).map(move |c| (d, c))) {
            let list = works.of_rank(d, c, context);
            let number = known.iter().position(|k| *k == list).unwrap_or(known.len());
            packs.of.push(number as u32);
            if number == known.len() {
                known.push(list);
            }
        }
        packs.lists = known.iter().map(|list| shared(list)).collect();
        packs.usual = works.usual().map(Arc::new);
        packs.dealt = Some(dealt);
        Ok(packs)
    }

    /// The documents, dealt.
    pub fn dealt(&self) -> Option<&Dealt> {
        self.dealt.as_ref()
    }
    /// What attention has to do in a usual micro-batch.
    pub fn usual(&self) -> Option<Arc<Work>> {
        self.usual.clone()
    }
    /// How many lists there are; one of none without documents.
    pub fn count(&self) -> u32 {
        self.lists.len().max(1) as u32
    }
    /// The list of a rank.
    pub fn of(&self, layout: &Layout, rank: RankId) -> u32 {
        let (d, c) = (layout.coordinate(rank, Axis::Dp), layout.coordinate(rank, Axis::Cp));
        self.of.get((d * self.context + c) as usize).copied().unwrap_or(0)
    }
    /// The units of a list's micro-batches; empty without documents.
    pub(super) fn units(
        &self,
        list: u32,
        model: &ModelSpec,
        shard: &Shard,
        workload: &WorkloadSpec,
        split: &[std::ops::Range<u32>],
        loads: &[f64],
    ) -> Packed {
        let mut known: Vec<(&Arc<Work>, Rc<Stages>)> = Vec::new();
        let mut units = Vec::new();
        for work in self.lists.get(list as usize).into_iter().flatten() {
            let old = known.iter().find(|k| Arc::ptr_eq(k.0, work)).map(|k| k.1.clone());
            let of_work = old.unwrap_or_else(|| {
                let shard = Shard { documents: Some(work.clone()), ..shard.clone() };
                let stages = Rc::new(units_of_stages(model, &shard, workload, split, loads));
                known.push((work, stages.clone()));
                stages
            });
            units.push(of_work);
        }
        units
    }
    /// FLOPs of `sequences` sequences as MFU counts them; of those that hold documents, those that were dealt.
    pub fn flops(&self, workload: &WorkloadSpec, model: &ModelSpec, sequences: u64) -> StepFlops {
        let Some(dealt) = &self.dealt else { return StepFlops::of_step(workload, model, sequences) };
        let (training, below) = (&workload.training, workload.trains_modules());
        let mut sum = StepFlops::of_documents(model, training, below, &dealt.sequences);
        sum += StepFlops::of_modules(workload, model, sequences);
        sum
    }
}

/// Equal works once.
fn shared(list: &[&Work]) -> Vec<Arc<Work>> {
    let mut shared: Vec<Arc<Work>> = Vec::new();
    for work in list {
        let old = shared.iter().find(|s| ***s == **work).cloned();
        shared.push(old.unwrap_or_else(|| Arc::new((*work).clone())));
    }
    shared
}

/// The units of one pipeline rank, chunk after chunk, by micro-batch.
pub(super) fn on_rank(packed: &Packed, placement: &Placement, rank: u32) -> Vec<Vec<Unit>> {
    let stages: Vec<usize> = (0..placement.chunks(rank))
        .map(|chunk| placement.stage(Seat { rank, chunk }).stage as usize)
        .collect();
    let of_micro_batch = |all: &Rc<Stages>| stages.iter().flat_map(|s| all[*s].iter().cloned()).collect();
    packed.iter().map(of_micro_batch).collect()
}
