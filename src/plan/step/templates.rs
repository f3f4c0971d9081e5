//! Programs that are written once for many steps: steps of a study often differ in prices alone.
//!
//! Workload, model and the places of ranks ([`ProgramOrigin`]) decide the ops of a rank, their order, partners and
//! bytes; prices of kernels only say how long they take. A [`Template`] keeps programs as they were written, with the
//! kernel behind each description of an op. A step of the same origin gets them with prices of its own
//! ([`Program::priced`]), or, where its prices equal the prices of the step before, the very same ones.
//! Hazard: whatever decides what is written stands in the origin. Orders that are searched by prices and
//! micro-batches that differ from one another are always written anew.

use std::sync::{Arc, Mutex, PoisonError};

use super::groups::Degrees;
use super::setup::Variant;
use super::{PlanError, Prices};
use crate::launch::{HostWait, Setting, launch};
use crate::pipeline::Pipeline;
use stepsim_core::ids::TransferId;
use stepsim_core::program::{Program, ProgramFacts};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_fabric::collective::{Lowering, Transfer};
use stepsim_fabric::topology::Layout;
use stepsim_price::model::Kernel;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::stack::HostSpec;
use stepsim_spec::workload::WorkloadSpec;

/// By pipeline rank, in it by group: the transfers that programs ask for.
pub(super) type TransfersByRank = Vec<Vec<Vec<TransferId>>>;

/// Remembers the programs of the last origins.
#[derive(Debug, Default)]
pub struct Templates(Mutex<Vec<OriginStep>>);

/// So many: short steps that are tried in vain come between whole ones.
const ORIGINS: usize = 2;

/// Programs of more ops than these are not kept beside those that are played: about 200 MB.
const MOST_OPS: usize = 1 << 22;

/// The step of an origin before.
#[derive(Clone, Debug)]
struct OriginStep {
    origin: Arc<ProgramOrigin>,
    /// From the second step of an origin on: most steps of a search are alone of theirs.
    template: Option<Template>,
}

/// All that programs follow from, but for prices.
#[derive(Debug, PartialEq)]
pub(super) struct ProgramOrigin {
    pub workload: WorkloadSpec,
    pub model: ModelSpec,
    pub devices: u64,
    pub steps: u32,
    pub degrees: Degrees,
    pub layout: Layout,
    pub domains: u64,
    /// Names of a device's memory tiers.
    pub tiers: Vec<String>,
    pub variants: Vec<Variant>,
}

/// Programs as they were written, and as the step before ran them.
#[derive(Clone, Debug)]
struct Template {
    /// All transfers in the order of their numbers.
    transfers: Arc<[Transfer]>,
    written: Arc<[VariantPrograms]>,
    finished: Arc<[RankPrograms]>,
}

/// The programs of a variant before launches.
#[derive(Debug)]
pub(super) struct VariantPrograms {
    pub variant: Variant,
    pub pipeline: Pipeline,
    pub used: TransfersByRank,
    /// By pipeline rank: ops whose results the host reads.
    pub reads: Vec<Vec<HostWait>>,
    /// By pipeline rank: the kernels of its program, each behind the number of its description.
    pub kernels: Vec<Vec<(u32, Kernel)>>,
}

/// The programs of a variant as ranks run them, and what they were made with.
#[derive(Debug)]
struct RankPrograms {
    programs: Vec<Arc<Program>>,
    prices: Vec<Vec<(Time, u16)>>,
    setting: Option<Setting>,
    bandwidth: Bandwidth,
}

/// The delays that the devices of a variant add to a written program.
pub(super) struct OnDevice<'a> {
    pub prices: &'a dyn Prices,
    /// The host and what is added to it, where launches are simulated.
    pub launches: Option<(&'a HostSpec, Setting)>,
    /// Bandwidth of the device's memory.
    pub bandwidth: Bandwidth,
}

/// The programs of a step, variant by variant.
pub(super) struct Programs {
    /// The written programs; its own may have been taken out.
    pub written: Arc<[VariantPrograms]>,
    /// By variant and pipeline rank.
    pub of: Vec<Vec<Arc<Program>>>,
}

impl Programs {
    /// Of what was written for a step with its own prices.
    pub fn of<'a>(mut written: Vec<VariantPrograms>, on: &dyn Fn(u32) -> OnDevice<'a>) -> Programs {
        let of = written.iter_mut().map(|variant| {
            let programs = std::mem::take(&mut variant.pipeline.programs);
            variant.finish(programs.into_iter(), &on(variant.variant.class))
        });
        let of = of.collect();
        Programs { written: written.into(), of }
    }
}

impl Templates {
    /// The programs of a step: by what is remembered of another one of its origin, or as `write` writes them.
    ///
    /// # Errors
    /// Those of `write`.
    pub(super) fn programs<'a>(
        &self,
        origin: ProgramOrigin,
        lowering: &mut Lowering<'_>,
        on: &dyn Fn(u32) -> OnDevice<'a>,
        write: impl FnOnce(&mut Lowering<'_>) -> Result<Vec<VariantPrograms>, PlanError>,
    ) -> Result<Programs, PlanError> {
        let Some(OriginStep { origin, template }) = self.last(&origin) else {
            let programs = Programs::of(write(lowering)?, on);
            self.remember(OriginStep { origin: Arc::new(origin), template: None });
            return Ok(programs);
        };
        let mut template = match template {
            Some(template) => {
                for transfer in template.transfers.iter() {
                    lowering.transfer(*transfer);
                }
                template
            }
            None => {
                let written = write(lowering)?;
                if written.iter().map(VariantPrograms::ops).sum::<usize>() > MOST_OPS {
                    return Ok(Programs::of(written, on));
                }
                Template::of(written, lowering)
            }
        };
        template.finished = template.priced(on).into();
        let of = template.finished.iter().map(|variant| variant.programs.clone()).collect();
        let programs = Programs { written: Arc::clone(&template.written), of };
        self.remember(OriginStep { origin, template: Some(template) });
        Ok(programs)
    }

    fn last(&self, origin: &ProgramOrigin) -> Option<OriginStep> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|last| *last.origin == *origin).cloned()
    }

    fn remember(&self, last: OriginStep) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|before| *before.origin != *last.origin);
        known.truncate(ORIGINS - 1);
        known.insert(0, last);
    }
}

impl Template {
    /// Of what was written last with a lowering; its programs will have others of their shapes.
    fn of(mut written: Vec<VariantPrograms>, lowering: &Lowering<'_>) -> Template {
        let programs = written.iter_mut().flat_map(|variant| &mut variant.pipeline.programs);
        programs.for_each(|program| program.facts = ProgramFacts::shared());
        Template { transfers: lowering.transfers().into(), written: written.into(), finished: Arc::default() }
    }

    /// The programs with other prices.
    fn priced<'a>(&self, on: &dyn Fn(u32) -> OnDevice<'a>) -> Vec<RankPrograms> {
        let before = self.finished.iter().map(Some).chain(std::iter::repeat(None));
        self.written
            .iter()
            .zip(before)
            .map(|(variant, before)| variant.priced(before, &on(variant.variant.class)))
            .collect()
    }
}

impl VariantPrograms {
    fn ops(&self) -> usize {
        self.pipeline.programs.iter().map(|program| program.ops.len()).sum()
    }

    /// The programs with other prices: the ones of the step before where they are the same.
    fn priced(&self, before: Option<&RankPrograms>, on: &OnDevice<'_>) -> RankPrograms {
        let price = |(_, kernel): &(u32, Kernel)| (on.prices.time(kernel), on.prices.slowdown(kernel));
        let prices: Vec<Vec<_>> = self.kernels.iter().map(|all| all.iter().map(price).collect()).collect();
        let (setting, bandwidth) = (on.launches.as_ref().map(|(_, setting)| setting.clone()), on.bandwidth);
        let same = |before: &&RankPrograms| {
            before.setting == setting && before.bandwidth == bandwidth && before.prices == prices
        };
        let programs = match before.filter(same) {
            Some(before) => before.programs.clone(),
            None => {
                let all = self.pipeline.programs.iter().zip(&self.kernels).zip(&prices);
                let priced = all.map(|((program, kernels), prices)| {
                    let mut of_infos = vec![None; program.infos.len()];
                    for ((info, _), price) in kernels.iter().zip(prices) {
                        of_infos[*info as usize] = Some(*price);
                    }
                    program.priced(&of_infos)
                });
                self.finish(priced, on)
            }
        };
        RankPrograms { programs, prices, setting, bandwidth }
    }

    /// Programs with their launches, bounded by the memory of their device.
    fn finish(&self, programs: impl Iterator<Item = Program>, on: &OnDevice<'_>) -> Vec<Arc<Program>> {
        let launched = programs.enumerate().map(|(rank, program)| match &on.launches {
            Some((host, setting)) => launch(&program, host, setting, &self.reads[rank]),
            None => program,
        });
        let finished = launched.map(|mut program| {
            program.bound_memory_rates(on.bandwidth);
            program.inputs = self.variant.documents;
            Arc::new(program)
        });
        finished.collect()
    }
}
