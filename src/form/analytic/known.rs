//! The results that closed forms share: layouts that differ in one thing share all that the others make of it.
//!
//! | what | goes by |
//! |--|--|
//! | plans of layers | model, share of a rank, recomputation, training, modules, loads on experts |
//! | prices of units | the plan, class of device, groups inside the layer, overlap |
//! | groups of a rank, ways between stages | its grid, sizes and order of the axes |
//! | times of transfers | what the group looks like, and the transfer |
//! | walks of orders | order, passes, messages between stages, gathers |
//! | orders of passes | the pipeline, and as few micro-batches as show all of it |
//! | updates | what is updated, how, on which class of device; not of whole matrices |
//!
//! Each by value, never by name. The rest is one for a store: the machine, how it carries out collectives, the prices
//! and the host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::pipe::Pipe;
use super::unit_passes::UnitPasses;
use super::walk_key::{RankEnd, WalkKey};
use stepsim_fabric::collective::{Geometry, Transfer};
use stepsim_plan::step::groups::{Degrees, Group};
use stepsim_plan::step::{FullRecompute, Layers, PlanError, Unit};
use stepsim_price::model::flops::StepFlops;
use stepsim_price::model::optimizer::Update;
use stepsim_price::model::{ParameterCount, Shard};
use stepsim_schedule::Order;
use stepsim_schedule::sharding::Cuts;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::stack::UpdateSpec;
use stepsim_spec::workload::{
    BytesPerParameter, Dtype, ExpertOverlap, GroupAxis, ModuleUseSpec, OptimizerKind, PipelineSpec,
    RecomputeSpec, TensorOverlap, TrainingSpec, WorkloadSpec,
};

/// The results of closed forms on one machine, with one list of prices and one host.
#[derive(Debug, Default)]
pub struct ClosedFormCache {
    layers: RefCell<Memo<LayersKey, PricedLayers>>,
    places: RefCell<Memo<GroupsKey, RankPlaces>>,
    geometries: RefCell<FxHashMap<Geometry, u32>>,
    seconds: RefCell<FxHashMap<(u32, Transfer), f64>>,
    orders: RefCell<Memo<(PipelineSpec, ExpertOverlap, u32), Order>>,
    pub(super) walks: RefCell<Memo<WalkKey, Vec<RankEnd>>>,
    updates: RefCell<Memo<UpdateKey, f64>>,
}

/// An update but for its matrices, and the class of its device.
#[derive(Clone, Debug, PartialEq)]
struct UpdateKey {
    spec: UpdateSpec,
    amounts: [u64; 2],
    state: BytesPerParameter,
    kinds: (OptimizerKind, Dtype, [bool; 2]),
    class: u32,
}

/// Things of a kind that are kept at once: a study of more begins anew.
const MOST: usize = 1024;

/// Layers with their prices are large, some 300 kB; neighbours in a space of layouts share them.
const MOST_LAYERS: usize = 256;

/// Slots of all orders that are kept.
const MOST_SLOTS: usize = 1 << 21;

/// Things by what they go by.
#[derive(Debug)]
pub(super) struct Memo<K, V>(FxHashMap<u64, Vec<(K, Arc<V>)>>, usize);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo(FxHashMap::default(), 0)
    }
}

impl<K, V> Memo<K, V> {
    pub(super) fn get(&self, digest: u64, same: impl Fn(&K) -> bool) -> Option<Arc<V>> {
        self.0.get(&digest)?.iter().find(|(key, _)| same(key)).map(|(_, value)| Arc::clone(value))
    }
    pub(super) fn put(&mut self, digest: u64, key: K, value: V) -> Arc<V> {
        self.put_among((1, MOST), digest, key, value)
    }
    /// The same of a weight; what is kept weighs at most so much.
    fn put_among(&mut self, (weight, most): (usize, usize), digest: u64, key: K, value: V) -> Arc<V> {
        if self.1 + weight > most {
            *self = Memo::default();
        }
        let value = Arc::new(value);
        self.0.entry(digest).or_default().push((key, Arc::clone(&value)));
        self.1 += weight;
        value
    }
}

/// A few numbers that usually tell things apart, as one.
pub(super) fn digest(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, n| (sum ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

/// The key of the plans of layers.
#[derive(Debug)]
struct LayersKey {
    shard: Shard,
    policy: RecomputeSpec,
    training: TrainingSpec,
    modules: BTreeMap<String, ModuleUseSpec>,
    /// Replicas whose images a module on devices of its own has.
    served: Option<u64>,
    loads: Vec<f64>,
    cut: bool,
    model: ModelSpec,
}

/// Plans of layers with the prices that were asked for.
#[derive(Debug)]
pub(super) struct PricedLayers {
    pub layers: Layers,
    /// Parameters of the model.
    pub parameters: ParameterCount,
    /// FLOP of a sequence, where all are alike.
    pub flops: StepFlops,
    times: Mutex<Vec<(PassPriceKey, Arc<UnitPasses>)>>,
}

/// A layout's part in the price of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// The geometries of the groups inside layers: numbers from 1, 0 for a group of one.
    pub inside: Vec<u32>,
    /// True if the pipeline leaves the node.
    pub crosses: bool,
    /// True if shards of weights are copied.
    pub copies: bool,
}

/// The key of a unit's price, beside its layers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PassPriceKey {
    /// Where its plan is kept.
    plan: usize,
    recompute: FullRecompute,
    class: u32,
    overlap: TensorOverlap,
    around: Surroundings,
}

impl PricedLayers {
    /// The passes of one of the units, `made` unless they have been asked for; the layout gives them these
    /// surroundings.
    pub fn passes<E>(
        &self,
        unit: &Unit,
        class: u32,
        overlap: TensorOverlap,
        around: Surroundings,
        made: impl FnOnce() -> Result<UnitPasses, E>,
    ) -> Result<Arc<UnitPasses>, E> {
        let plan = Arc::as_ptr(&unit.plan) as usize;
        let asked = PassPriceKey { plan, recompute: unit.recompute, class, overlap, around };
        // A thread that panicked while it held the lock has left a whole list.
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, time)) = times.iter().find(|(known, _)| *known == asked) {
            return Ok(Arc::clone(time));
        }
        let time = Arc::new(made()?);
        times.push((asked, Arc::clone(&time)));
        Ok(time)
    }
}

/// Sizes of groups with true for the front's, the order of axes, and true where images are exchanged.
type GroupsKey = ((Degrees, bool), Vec<GroupAxis>, bool);

/// The groups of a rank with more than one member, what each looks like, and the number of that.
pub(super) type Groups = Vec<(Group, Geometry, u32)>;

/// Where a rank stands among others: its groups, and the ways from each stage to the next.
#[derive(Debug)]
pub(super) struct RankPlaces {
    pub groups: Groups,
    pub borders: Vec<Pipe>,
}

impl ClosedFormCache {
    /// Seconds of an update on a class of device, `made` unless they are known.
    pub(super) fn update(&self, update: &Update<'_>, class: u32, made: impl FnOnce() -> f64) -> f64 {
        if !update.matrices.is_empty() {
            return made();
        }
        let (amounts, state) = ([update.parameters, update.held], update.state);
        let kinds = (update.kind, update.compute, [update.clips, update.scales_loss]);
        let digest = digest(&[amounts[0], amounts[1], u64::from(class)]);
        let same = |key: &UpdateKey| {
            key.spec == *update.spec
                && (key.amounts, key.state, key.kinds, key.class) == (amounts, state, kinds, class)
        };
        if let Some(known) = self.updates.borrow().get(digest, same) {
            return *known;
        }
        let key = UpdateKey { spec: update.spec.clone(), amounts, state, kinds, class };
        *self.updates.borrow_mut().put(digest, key, made())
    }
    /// The layers of a model as one rank has them. Arguments as of [`Layers::new`].
    pub(super) fn layers(
        &self,
        model: &ModelSpec,
        shard: &Shard,
        workload: &WorkloadSpec,
        loads: &[f64],
        cut: bool,
    ) -> Arc<PricedLayers> {
        let (policy, training) = (&workload.recompute, &workload.training);
        let digest = digest(&[
            shard.tensor,
            shard.micro_batch,
            shard.sequence,
            shard.context.size,
            shard.expert,
            policy.granularity as u64,
        ]);
        let served = workload.module_devices().and(workload.parallelism.data);
        let same = |key: &LayersKey| {
            key.cut == cut
                && key.shard == *shard
                && key.policy == *policy
                && key.training == *training
                && key.modules == workload.modules
                && key.served == served
                && key.loads == loads
                && key.model == *model
        };
        if let Some(known) = self.layers.borrow().get(digest, same) {
            return known;
        }
        let priced = PricedLayers {
            layers: Layers::new(model, shard, workload, loads, cut),
            parameters: ParameterCount::of(model),
            flops: StepFlops::of_step(workload, model, 1, None),
            times: Mutex::default(),
        };
        let key = LayersKey {
            shard: shard.clone(),
            policy: policy.clone(),
            training: training.clone(),
            modules: workload.modules.clone(),
            served,
            loads: loads.to_vec(),
            cut,
            model: model.clone(),
        };
        self.layers.borrow_mut().put_among((1, MOST_LAYERS), digest, key, priced)
    }

    /// The groups of a rank, of the front or not, and the borders of stages, `made` unless they are known; not kept
    /// where ranks have a map.
    pub(super) fn places<E>(
        &self,
        workload: &WorkloadSpec,
        (degrees, front): (&Degrees, bool),
        made: impl FnOnce() -> Result<RankPlaces, E>,
    ) -> Result<Arc<RankPlaces>, E> {
        let p = &workload.parallelism;
        if p.rank_map.is_some() {
            return made().map(Arc::new);
        }
        // Kinds of sharding that gather and sum among the same ranks share what is known.
        let [dense, experts, front_dense] =
            [degrees.dense, degrees.experts, degrees.front_dense].map(Cuts::of_groups);
        let d = Degrees { dense, experts, front_dense, ..*degrees };
        let digest =
            digest(&[d.tensor, d.context, d.data, d.pipeline, d.expert, d.dense.summed].map(u64::from));
        let exchanges = workload.exchanges_images();
        let same = |key: &GroupsKey| key.0 == (d, front) && key.1 == p.order && key.2 == exchanges;
        if let Some(known) = self.places.borrow().get(digest, same) {
            return Ok(known);
        }
        Ok(self.places.borrow_mut().put(digest, ((d, front), p.order.clone(), exchanges), made()?))
    }

    /// The number of what a group looks like.
    pub(super) fn number(&self, geometry: &Geometry) -> u32 {
        let mut geometries = self.geometries.borrow_mut();
        let next = geometries.len() as u32;
        *geometries.entry(geometry.clone()).or_insert(next)
    }

    /// Seconds of a transfer in a group that looks like number `geometry`.
    pub(super) fn seconds<E>(
        &self,
        geometry: u32,
        transfer: &Transfer,
        made: impl FnOnce() -> Result<f64, E>,
    ) -> Result<f64, E> {
        if let Some(seconds) = self.seconds.borrow().get(&(geometry, *transfer)) {
            return Ok(*seconds);
        }
        let seconds = made()?;
        let mut known = self.seconds.borrow_mut();
        if known.len() == 64 * MOST {
            known.clear();
        }
        known.insert((geometry, *transfer), seconds);
        Ok(seconds)
    }

    /// The order of `micro_batches`, `made` unless it is known.
    pub(super) fn order(
        &self,
        workload: &WorkloadSpec,
        micro_batches: u32,
        made: impl FnOnce() -> Result<Order, PlanError>,
    ) -> Result<Arc<Order>, PlanError> {
        if workload.side_ranks() > 0 {
            // It goes by the encoder too.
            return Ok(Arc::new(made()?));
        }
        let (pipeline, overlap) = (&workload.parallelism.pipeline, workload.expert.overlap);
        let digest =
            digest(&[pipeline.size, pipeline.chunks.unwrap_or(0), u64::from(micro_batches), overlap as u64]);
        let same = |key: &(PipelineSpec, ExpertOverlap, u32)| {
            key.2 == micro_batches && key.1 == overlap && key.0 == *pipeline
        };
        if let Some(known) = self.orders.borrow().get(digest, same) {
            return Ok(known);
        }
        let order = made()?;
        let slots: usize = order.ranks.iter().map(Vec::len).sum();
        if slots > MOST_SLOTS || order.micro_batches != micro_batches {
            return Ok(Arc::new(order));
        }
        let key = (pipeline.clone(), overlap, micro_batches);
        Ok(self.orders.borrow_mut().put_among((slots, MOST_SLOTS), digest, key, order))
    }
}
