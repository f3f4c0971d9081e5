//! Ranks whose micro-batches hold different documents, or unequal numbers of images, run programs of their own.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::layers::units_of_stages;
use super::pass_share::{PassShare, scheduled, shares};
use super::unit::Unit;
use stepsim_core::ids::RankId;
use stepsim_core::known::number_of;
use stepsim_fabric::topology::{Axis, Layout};
use stepsim_price::documents::{AttentionPairs, Dealt, DynamicContext, Images, Mask, PackedPass, Works};
use stepsim_price::model::Shard;
use stepsim_price::model::flops::StepFlops;
use stepsim_schedule::{Seat, StagePlacement};
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::WorkloadSpec;

/// The property that tells one micro-batch from another.
#[derive(Clone, Debug)]
enum Contents {
    /// The attention work in its documents.
    Documents(Arc<AttentionPairs>),
    /// Its images by module.
    Images(Arc<[u64]>),
    /// The rank's share of a pass of dynamic context parallelism.
    Pass(Arc<PassShare>),
}

impl PartialEq for Contents {
    fn eq(&self, other: &Contents) -> bool {
        match (self, other) {
            (Contents::Documents(a), Contents::Documents(b)) => Arc::ptr_eq(a, b),
            (Contents::Images(a), Contents::Images(b)) => a == b,
            (Contents::Pass(a), Contents::Pass(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Contents {
    /// The share of a rank with these in its micro-batch.
    fn onto(&self, shard: &Shard) -> Shard {
        match self {
            Contents::Documents(work) => Shard { documents: Some(work.clone()), ..shard.clone() },
            Contents::Images(images) => Shard { images: Some(images.clone()), ..shard.clone() },
            Contents::Pass(pass) => pass.onto(shard),
        }
    }
}

/// The documents or the uneven images of a step, as ranks see them.
#[derive(Debug, Default)]
pub struct Packs {
    dealt: Option<Dealt>,
    dynamic: Option<DynamicContext>,
    images: Option<Images>,
    usual: Option<Arc<AttentionPairs>>,
    /// Contents by micro-batch: the lists that differ.
    lists: Vec<Vec<Contents>>,
    /// By data-parallel rank, in it by context-parallel rank: which list is its own.
    of: Vec<u32>,
    context: u32,
}

/// Units of every stage, by micro-batch.
pub(super) type PackedStages = Vec<Rc<StageLists>>;
/// The units of all stages, a list for each.
type StageLists = Vec<Vec<Unit>>;

impl Packs {
    /// The packs of a workload on `devices`; no list where all micro-batches are alike.
    ///
    /// # Errors
    /// Documents that cannot be read or are too many.
    pub fn new(workload: &WorkloadSpec, model: &ModelSpec, devices: u64) -> Result<Packs, SpecError> {
        let Some(dealt) = Dealt::new(workload, model, devices)? else {
            let images = Images::new(workload, model, devices);
            return Ok(images.map_or_else(Packs::default, |images| Packs::of_images(images, workload)));
        };
        let context = &workload.parallelism.context;
        if context.dynamic.is_some() {
            return Packs::of_samples(dealt, workload, model, devices);
        }
        let works = Works::new(&dealt, model, context).ok_or_else(|| {
            SpecError::at("documents", "their shares over context-parallel ranks take minutes to count")
                .allowed("about 1e9 pieces of documents, squared by document")
                .hint("longer documents, a smaller batch.global, or per_document off")
        })?;
        let mut packs = Packs { context: context.size as u32, ..Packs::default() };
        let mut known: Vec<Vec<&AttentionPairs>> = Vec::new();
        for (d, c) in (0..dealt.ranks()).flat_map(|d| (0..context.size as usize).map(move |c| (d, c))) {
            packs.of.push(number_of(&mut known, works.of_rank(d, c, context)));
        }
        packs.lists = known.iter().map(|list| shared(list)).collect();
        packs.usual = works.usual().map(Arc::new);
        packs.dealt = Some(dealt);
        Ok(packs)
    }

    /// The documents as samples, on groups of ranks that each is cut over.
    fn of_samples(
        dealt: Dealt,
        workload: &WorkloadSpec,
        model: &ModelSpec,
        devices: u64,
    ) -> Result<Packs, SpecError> {
        let dynamic = scheduled(&dealt, workload, model, devices)?;
        let masks = Mask::of_model(model);
        let mut known: FxHashMap<&PackedPass, Vec<Arc<PassShare>>> = FxHashMap::default();
        for (_, pass) in &dynamic.passes {
            known.entry(pass).or_insert_with(|| shares(pass, &masks));
        }
        let mut packs = Packs { context: workload.parallelism.context.size as u32, ..Packs::default() };
        for rank in 0..dynamic.loads.len() as u64 {
            let share =
                |pass: &PackedPass| Contents::Pass(known[pass][(rank % pass.degree) as usize].clone());
            packs.of.push(number_of(&mut packs.lists, dynamic.of_rank(rank).map(share).collect()));
        }
        (packs.dealt, packs.dynamic) = (Some(dealt), Some(dynamic));
        Ok(packs)
    }

    /// The lists of data-parallel ranks, the same for all context-parallel ranks of one.
    fn of_images(images: Images, workload: &WorkloadSpec) -> Packs {
        let context = workload.parallelism.context.size as u32;
        let mut packs = Packs { context, ..Packs::default() };
        let mut known: Vec<&[Vec<u64>]> = Vec::new();
        for rank in 0..images.ranks() {
            let number = number_of(&mut known, images.of_rank(rank));
            packs.of.extend((0..context).map(|_| number));
        }
        let contents = |counts: &Vec<u64>| Contents::Images(counts.as_slice().into());
        packs.lists = known.iter().map(|list| list.iter().map(contents).collect()).collect();
        packs.images = Some(images);
        packs
    }

    /// The images of micro-batches, where they are uneven.
    pub fn images(&self) -> Option<&Images> {
        self.images.as_ref()
    }
    /// The share of a rank whose micro-batch has usual documents, and most images or tokens: what all of them have
    /// room for.
    pub fn onto(&self, shard: Shard) -> Shard {
        let passes = self.lists.iter().flatten().filter_map(|contents| match contents {
            Contents::Pass(pass) => Some(pass),
            _ => None,
        });
        if let Some(pass) = passes.max_by_key(|pass| pass.tokens()) {
            return pass.onto(&shard);
        }
        let images = self.images.as_ref().map(|images| images.fullest().into());
        Shard { documents: self.usual(), images, ..shard }
    }
    /// The documents, dealt.
    pub fn dealt(&self) -> Option<&Dealt> {
        self.dealt.as_ref()
    }
    /// The documents on groups of ranks, where each has a degree of its own.
    pub fn dynamic(&self) -> Option<&DynamicContext> {
        self.dynamic.as_ref()
    }
    /// The same, and nothing else of it.
    pub(super) fn into_dynamic(self) -> Option<DynamicContext> {
        self.dynamic
    }
    /// Passes of a list, where ranks make unequal numbers of them.
    pub fn passes(&self, list: u32) -> Option<u32> {
        self.dynamic.as_ref().map(|_| self.lists[list as usize].len() as u32)
    }
    /// Passes of the rank that makes most, where ranks make unequal numbers of them.
    pub fn most_passes(&self) -> Option<u32> {
        self.dynamic.as_ref()?;
        self.lists.iter().map(|list| list.len() as u32).max()
    }
    /// The attention work of a usual micro-batch.
    pub fn usual(&self) -> Option<Arc<AttentionPairs>> {
        self.usual.clone()
    }
    /// How many lists there are; one of none where all micro-batches are alike.
    pub fn count(&self) -> u32 {
        self.lists.len().max(1) as u32
    }
    /// True if all micro-batches of all ranks are alike.
    pub(super) fn are_alike(&self) -> bool {
        self.dealt.is_none() && self.images.is_none() && self.lists.is_empty()
    }
    /// The list of a rank.
    pub fn of(&self, layout: &Layout, rank: RankId) -> u32 {
        let (d, c) = (layout.coordinate(rank, Axis::Dp), layout.coordinate(rank, Axis::Cp));
        self.of.get((d * self.context + c) as usize).copied().unwrap_or(0)
    }
    /// The units of a list's micro-batches; empty where all are alike.
    pub(super) fn units(
        &self,
        list: u32,
        model: &ModelSpec,
        shard: &Shard,
        workload: &WorkloadSpec,
        split: (&[std::ops::Range<u32>], bool),
        loads: &[f64],
    ) -> PackedStages {
        let mut known: Vec<(&Contents, Rc<StageLists>)> = Vec::new();
        let mut units = Vec::new();
        for contents in self.lists.get(list as usize).into_iter().flatten() {
            let old = known.iter().find(|k| k.0 == contents).map(|k| k.1.clone());
            let of_work = old.unwrap_or_else(|| {
                let shard = contents.onto(shard);
                let stages = Rc::new(units_of_stages(model, &shard, workload, split, loads));
                known.push((contents, stages.clone()));
                stages
            });
            units.push(of_work);
        }
        units
    }
    /// FLOPs of `sequences` sequences as MFU counts them; of those that hold documents, those that were dealt.
    pub fn flops(&self, workload: &WorkloadSpec, model: &ModelSpec, sequences: u64) -> StepFlops {
        StepFlops::of_step(workload, model, sequences, self.dealt.as_ref())
    }
}

/// Equal works once.
fn shared(list: &[&AttentionPairs]) -> Vec<Contents> {
    let mut shared: Vec<Arc<AttentionPairs>> = Vec::new();
    for work in list {
        let old = shared.iter().find(|s| ***s == **work).cloned();
        shared.push(old.unwrap_or_else(|| Arc::new((*work).clone())));
    }
    shared.into_iter().map(Contents::Documents).collect()
}

/// The units of one pipeline rank, chunk after chunk, by micro-batch.
pub(super) fn on_rank(packed: &PackedStages, placement: &StagePlacement, rank: u32) -> Vec<Vec<Unit>> {
    let stages: Vec<usize> = (0..placement.chunks(rank))
        .map(|chunk| placement.stage(Seat { rank, chunk }).stage as usize)
        .collect();
    let of_micro_batch = |all: &Rc<StageLists>| stages.iter().flat_map(|s| all[*s].iter().cloned()).collect();
    packed.iter().map(of_micro_batch).collect()
}
