//! Dynamic context parallelism: ranks make passes of their own, and wait for others of the group of each.
//!
//! Passes run in one order. A pass begins when the last rank of its group has come to it, and lasts as long as among
//! others like it; the step's passes end with the last rank. The work of ranks is their mean, the rest is
//! waiting. Gradients are reduced behind the last pass of the rank that ends last.

use rustc_hash::FxHashMap;

use super::form::{StageUnits, StepForm};
use super::memory::MemoryBytes;
use super::pass_time::{PassTime, UnitTime};
use super::terms::Terms;
use stepsim_plan::step::{Forming, PlanError};
use stepsim_price::documents::{DynamicContext, PackedPass};
use stepsim_price::model::Shard;

/// The times of ranks that make passes of their own.
pub(super) struct OwnPasses {
    /// Passes of the rank that ends last.
    pub passes: u32,
    /// Device memory, with room for the largest pass.
    pub memory: Vec<MemoryBytes>,
    /// Seconds of a rank's passes on average.
    mean: UnitTime,
    /// When the last rank has made all of its passes.
    end: f64,
    /// Seconds in which groups are formed.
    forming: f64,
}

impl OwnPasses {
    /// The passes of a step whose form has the units of the largest pass; leaves it with the units of the last pass of
    /// the rank that ends last. `share` gives a rank's share of a pass, `units` its units of the model.
    ///
    /// # Errors
    /// A group cannot communicate.
    pub fn new(
        form: &mut StepForm<'_>,
        dynamic: &DynamicContext,
        share: impl Fn(&PackedPass) -> Shard,
        units: impl Fn(&Shard) -> StageUnits,
    ) -> Result<OwnPasses, PlanError> {
        let memory = form.held()?.memory;
        let ranks = dynamic.loads.len();
        let mut known: FxHashMap<&PackedPass, UnitTime> = FxHashMap::default();
        let (mut ends, mut mean) = (vec![0.0_f64; ranks], UnitTime::default());
        for (first, pass) in &dynamic.passes {
            if !known.contains_key(pass) {
                form.with_stages(units(&share(pass)))?;
                known.insert(pass, form.ranks[0].sum);
            }
            let time = known[pass];
            mean += time.times(pass.degree as f64 / ranks as f64);
            let group = &mut ends[*first as usize..(*first + pass.degree) as usize];
            let begin = group.iter().copied().fold(0.0, f64::max);
            group.fill(begin + both(&time).total());
        }
        let end = ends.iter().copied().fold(0.0, f64::max);
        let last = ends.iter().position(|rank| *rank == end).unwrap_or(0) as u64;
        let own: Vec<&PackedPass> = dynamic.of_rank(last).collect();
        if let Some(pass) = own.last() {
            form.with_stages(units(&share(pass)))?;
        }
        let mut forming = 0.0;
        for (_, group, op, bytes) in Forming::of(dynamic).into_iter().flat_map(Forming::messages) {
            forming += form.parts.links.time(group, op, bytes as f64)?;
        }
        Ok(OwnPasses { passes: own.len() as u32, memory, mean, end, forming })
    }

    /// Puts these passes in place of equal ones.
    pub fn replace(&self, terms: &mut Terms, form: &StepForm<'_>) {
        let all = both(&self.mean);
        terms.forward = self.mean.forward.compute + form.ranks[0].sum.weight_casts;
        terms.recompute = self.mean.recompute.compute;
        terms.backward = self.mean.backward.compute;
        terms.tensor = all.tensor;
        terms.context = all.context + self.forming;
        terms.host = all.host + form.host_reads;
        terms.bubble = self.end - all.total();
    }
}

/// There and back.
fn both(time: &UnitTime) -> PassTime {
    let mut both = time.forward;
    both += time.recompute;
    both += time.backward;
    both
}
