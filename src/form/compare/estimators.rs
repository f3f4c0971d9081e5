//! Closed forms of many workloads: each takes what those before it have found out on its machine.

use std::sync::{Arc, Mutex, PoisonError};

use crate::analytic::{ClosedForm, ClosedFormCache, Estimate};
use stepsim_simulate::{Inputs, MachinePrices, OwnPrices, SimulationError};
use stepsim_step::collective::Chooser;
use stepsim_step::spec::model::ModelSpec;
use stepsim_step::spec::stack::{HostSpec, StackSpec};
use stepsim_step::spec::workload::{FidelitySpec, KernelFusion, PrecisionSpec, TrainingSpec};
use stepsim_step::topology::Machine;

/// Results that closed forms share, for any number of threads: each takes a part out and brings it back.
#[derive(Default)]
pub struct Estimators(Mutex<Vec<Estimator>>);

impl std::fmt::Debug for Estimators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Estimators").finish_non_exhaustive()
    }
}

/// Parts that nobody uses and that are kept: enough for each thread to have a few machines.
const MOST: usize = 64;

/// One machine with one list of prices, and what is known there.
struct Estimator {
    machine: Arc<Machine>,
    chooser: Arc<Chooser>,
    fidelity: FidelitySpec,
    fusion: KernelFusion,
    host: Option<HostSpec>,
    own_prices: Option<Arc<dyn OwnPrices>>,
    /// The mix of kernels goes by these, and prices by the mix (`stepsim_step::cost::KernelMix`).
    model: Arc<ModelSpec>,
    training: TrainingSpec,
    precision: PrecisionSpec,
    stack: StackSpec,
    sequence: u64,
    prices: MachinePrices,
    known: ClosedFormCache,
}

impl Estimator {
    fn new(inputs: &Inputs) -> Estimator {
        let workload = &inputs.workload.value;
        Estimator {
            machine: Arc::clone(&inputs.machine),
            chooser: Arc::clone(&inputs.chooser),
            fidelity: workload.fidelity,
            fusion: workload.fusion,
            host: workload.host().cloned(),
            own_prices: inputs.own_prices.clone(),
            model: Arc::clone(&inputs.model),
            training: workload.training.clone(),
            precision: workload.precision.clone(),
            stack: workload.stack().clone(),
            sequence: workload.sequence(&inputs.model),
            prices: inputs.prices(),
            known: ClosedFormCache::default(),
        }
    }
    /// True if it belongs to the machine and the prices of these inputs.
    fn suits(&self, inputs: &Inputs) -> bool {
        let workload = &inputs.workload.value;
        Arc::ptr_eq(&self.machine, &inputs.machine)
            && Arc::ptr_eq(&self.chooser, &inputs.chooser)
            && self.fidelity == workload.fidelity
            && self.fusion == workload.fusion
            && self.host.as_ref() == workload.host()
            && Arc::ptr_eq(&self.model, &inputs.model)
            && self.sequence == workload.sequence(&inputs.model)
            && self.training == workload.training
            && self.precision == workload.precision
            && self.stack == *workload.stack()
            && match (&self.own_prices, &inputs.own_prices) {
                (Some(mine), Some(its)) => Arc::ptr_eq(mine, its),
                (mine, its) => mine.is_none() && its.is_none(),
            }
    }
}

impl Estimators {
    /// The closed form of a workload on its machine.
    ///
    /// # Errors
    /// The workload does not fit the machine.
    pub fn closed_form(&self, inputs: &Inputs) -> Result<Estimate, SimulationError> {
        self.of_any_batch(inputs, &mut |form| Ok(form.with_batch(inputs.workload.value.batch.global)?))?
    }

    /// The result of `use_it` on the closed form of a workload on its machine with any batch.
    ///
    /// # Errors
    /// The workload does not fit the machine.
    pub fn of_any_batch<T>(
        &self,
        inputs: &Inputs,
        use_it: &mut dyn FnMut(&mut ClosedForm<'_>) -> T,
    ) -> Result<T, SimulationError> {
        let Estimator { prices, known, .. } = &*self.taken(inputs);
        let (workload, machine) = (&inputs.workload.value, &inputs.machine);
        let peak = prices.peak(workload.precision.compute).0;
        let mut form =
            ClosedForm::new(workload, &inputs.model, machine, prices, &inputs.chooser, peak, known)?;
        Ok(use_it(&mut form))
    }

    /// A part for these inputs, until it is dropped.
    fn taken(&self, inputs: &Inputs) -> Taken<'_> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = parts.iter().rposition(|part| part.suits(inputs));
        let part = found.map(|at| parts.remove(at));
        drop(parts);
        Taken { from: self, part: Some(part.unwrap_or_else(|| Estimator::new(inputs))) }
    }
}

/// A part in use.
struct Taken<'a> {
    from: &'a Estimators,
    part: Option<Estimator>,
}

impl std::ops::Deref for Taken<'_> {
    type Target = Estimator;

    fn deref(&self) -> &Estimator {
        self.part.as_ref().unwrap_or_else(|| unreachable!("it is brought back when this is dropped"))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut parts = self.from.0.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.len() == MOST {
            parts.remove(0);
        }
        parts.extend(self.part.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::workload::closed_form;
    use stepsim_simulate::Site;
    use stepsim_step::spec::{WorkloadSpec, load};

    /// Layouts one after the other, each changed in one or two things: whatever is kept from those before, each is as
    /// it is by itself, to the last bit.
    #[test]
    fn a_layout_is_what_it_is_by_itself() {
        let changes = [
            "batch.micro_batch=1",
            "batch.micro_batch=2",
            "batch.global=256",
            "parallelism.tensor=2",
            "parallelism.sequence_parallel=false",
            "parallelism.tensor_overlap=ring",
            "parallelism.context.size=2",
            "parallelism.pipeline.size=2",
            "parallelism.pipeline.chunks=1",
            "parallelism.pipeline.schedule=zb-h1",
            "parallelism.data=null",
            "parallelism.expert=4",
            "parallelism.order=[\"data\",\"tensor\",\"context\",\"pipeline\"]",
            "parallelism.sharding={\"kind\":\"zero3\"}",
            "parallelism.sharding={\"kind\":\"zero2\"}",
            "recompute.granularity=full",
            "recompute={\"granularity\":\"full\",\"layers\":1}",
            "recompute.granularity=selective",
            "training.frozen_layers=2",
            "training.reference=true",
            "offload.activations=[{\"tier\":\"host\",\"fraction\":0.5}]",
            "offload.optimizer=[{\"tier\":\"host\",\"fraction\":1}]",
            "sequence=1024",
            "model.layers=4",
            "model.ffn=4096",
            "precision.compute=fp16",
            "fusion=none",
            "fidelity.compute=constant",
            "fidelity.interference=false",
            "stack=megatron-te-2024",
            "stack=fsdp2-eager",
        ];
        let mut compared = 0;
        for (name, machine) in [
            ("llama3-70b", "h100-superpod-64"),
            ("gpt2-8", "h100-superpod-8"),
            ("deepseek-v3", "h800-2048"),
            ("llama3-8b-fsdp", "h100-superpod-64"),
        ] {
            let Ok(site) = Site::load(machine, &[]) else { panic!("{machine} is shipped") };
            let estimators = Estimators::default();
            for (i, first) in changes.iter().enumerate() {
                for second in
                    [first, changes[(i * 7 + 3) % changes.len()], changes[(i * 5 + 11) % changes.len()]]
                {
                    let sets = [first.to_string(), second.to_string(), "parallelism.data=null".to_string()];
                    let Ok(workload) = load::<WorkloadSpec>(name, &sets) else { continue };
                    let Ok(inputs) = site.inputs(workload) else { continue };
                    let words = |e: SimulationError| e.to_string();
                    let (got, want) =
                        (estimators.closed_form(&inputs).map_err(words), closed_form(&inputs).map_err(words));
                    assert_eq!(got, want, "{name} with {sets:?}");
                    compared += u32::from(got.is_ok());
                }
            }
        }
        assert!(compared > 120, "{compared}");
    }
}
