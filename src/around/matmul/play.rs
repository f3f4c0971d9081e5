//! A product on the machine: its groups, the algorithms that could carry it out, and the run of it.

use std::sync::Arc;

use super::plan::{ProductCollective, ShardedProduct};
use stepsim_core::engine::{self, EngineError, Record};
use stepsim_core::ids::{OpId, ProgramId, RankId};
use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_fabric::collective::{
    ALGORITHMS, AlgorithmChoice, Chooser, CollectiveBound, CollectiveError, Fidelity, Geometry, Lowering,
    Transfer, bound,
};
use stepsim_fabric::topology::{Machine, Mesh};

/// One collective of a product on the machine.
#[derive(Clone, Debug)]
pub struct TimedCollective {
    /// The collective.
    pub step: ProductCollective,
    /// The group's geometry.
    pub geometry: Geometry,
    /// Its time by rule.
    pub bound: CollectiveBound,
    /// Closed form of every algorithm that can do it, fastest first.
    pub algorithms: Vec<(&'static str, f64)>,
    /// The one that the machine takes.
    pub chosen: AlgorithmChoice,
    /// Start and end in the run, of the first device.
    pub span: (Time, Time),
}

/// A product, run.
#[derive(Debug)]
pub struct ProductRun {
    /// Its collectives in order.
    pub steps: Vec<TimedCollective>,
    /// Start and end of the local product.
    pub product: (Time, Time),
    /// All ranks.
    pub world: World,
    /// The record of the run.
    pub record: Record,
}

/// Why a product does not run.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// A group cannot do a collective.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ProductRun {
    /// Runs the collectives before the product one after the other, the product, which takes `product_s`, and those
    /// after it.
    ///
    /// # Errors
    /// A group that cannot do what is asked.
    pub fn run(
        plan: &ShardedProduct,
        mesh: &Mesh,
        machine: &Machine,
        chooser: &Chooser,
        product_s: f64,
    ) -> Result<ProductRun, PlayError> {
        let mut lowering = Lowering::new(machine, Fidelity::Fluid, chooser.clone());
        let mut world = machine.world();
        let mut program = ProgramBuilder::new();
        let (compute, data) = (program.stream(StreamKind::Compute), program.stream(StreamKind::Data));
        let mut last: Option<OpId> = None;
        let mut ops = Vec::new();
        let mut transfers = Vec::new();
        let comm = |program: &mut ProgramBuilder,
                    last: Option<OpId>,
                    slot: usize,
                    step: &ProductCollective,
                    id| {
            let info = program.info(OpInfo::of(
                format!("{} {} over {}", step.op.name(), step.array, step.axes.iter().collect::<String>()),
                Phase::Forward,
                step.bytes as f64,
            ));
            let waits: Vec<OpId> = last.into_iter().collect();
            program.op(data, Work::Comm { slot: slot as u16, transfer: id }, &waits, info, NO_MICRO_BATCH)
        };
        for step in plan.steps() {
            transfers.push(lowering.transfer(Transfer::new(step.op, step.bytes)));
        }
        for (i, step) in plan.before.iter().enumerate() {
            last = Some(comm(&mut program, last, i, step, transfers[i]));
            ops.extend(last);
        }
        let product = OpInfo::of("product", Phase::Forward, plan.memory_bytes());
        let info = program.info(OpInfo { flops: plan.flops, ..product });
        let waits: Vec<OpId> = last.into_iter().collect();
        let time = Time::from_s(product_s);
        let product = program.op(compute, Work::Compute { time }, &waits, info, NO_MICRO_BATCH);
        last = Some(product);
        for (i, step) in (plan.before.len()..).zip(&plan.after) {
            last = Some(comm(&mut program, last, i, step, transfers[i]));
            ops.extend(last);
        }
        world.programs.push(Arc::new(program.finish()));
        for _ in 0..mesh.size() {
            world.add_rank(ProgramId(0), plan.steps().count() as u32);
        }
        for (slot, (step, id)) in (0u16..).zip(plan.steps().zip(&transfers)) {
            for devices in mesh.groups(&step.axes) {
                let ranks: Vec<RankId> = devices.iter().map(|d| RankId(d.0)).collect();
                let comm = lowering.comm(&mut world, &ranks, &devices, &[*id])?;
                ranks.iter().for_each(|&r| world.bind(r, slot, comm));
            }
        }
        let record = engine::run(&world)?;
        let steps = plan
            .steps()
            .zip(&ops)
            .map(|(step, op)| timed(step, mesh, &lowering, record.span(RankId(0), *op)));
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(ProductRun { steps, product: record.span(RankId(0), product), world, record })
    }
}

fn timed(
    step: &ProductCollective,
    mesh: &Mesh,
    lowering: &Lowering<'_>,
    span: (Time, Time),
) -> Result<TimedCollective, CollectiveError> {
    let transfer = Transfer::new(step.op, step.bytes);
    let devices = &mesh.groups(&step.axes)[0];
    let (geometry, chosen) = lowering.explain(&transfer, devices)?;
    let can = ALGORITHMS.iter().filter(|a| a.supports(step.op, &geometry).is_ok());
    let mut algorithms: Vec<(&'static str, f64)> = can
        .map(|a| (a.name(), a.closed_form(&transfer, &geometry, a.chunks(&transfer, &geometry))))
        .collect();
    algorithms.sort_by(|a, b| a.1.total_cmp(&b.1));
    let bound = bound(step.op, step.bytes as f64, &geometry);
    Ok(TimedCollective { step: step.clone(), geometry, bound, algorithms, chosen, span })
}
