//! Closed forms of many workloads: each takes what those before it have found out on its machine.

use std::sync::{Arc, Mutex, PoisonError};

use crate::analytic::{ClosedForm, ClosedFormCache, Estimate};
use stepsim_fabric::collective::Chooser;
use stepsim_fabric::topology::Machine;
use stepsim_simulate::{Inputs, MachinePrices, OwnPrices, SimulationError};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::stack::{HostSpec, StackSpec};
use stepsim_spec::workload::{FidelitySpec, KernelFusion, PrecisionSpec, TrainingSpec};

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
    /// The mix of kernels goes by these, and prices by the mix (`stepsim_price::cost::KernelMix`).
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
            && self.model == inputs.model
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

    /// Forgets all results, for the memory that they take.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
