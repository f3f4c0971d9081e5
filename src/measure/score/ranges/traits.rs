//! The classes and sizes by which measured steps are compared with a step.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::rates::StepRates;
use super::shares::StepShares;
use stepsim_core::ids::DeviceId;
use stepsim_simulate::Inputs;
use stepsim_spec::cost::CostSpec;
use stepsim_spec::model::Mixer;
use stepsim_spec::workload::{Dtype, WorkloadSpec};
use stepsim_spec::{Device, Kind, ModelSpec, StackSpec, catalog, load};

/// Years of a generation of devices of one maker.
const GENERATION_YEARS: u32 = 2;

/// The classes of a step, and its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTraits {
    /// Name of the device.
    pub device: String,
    /// Its maker and the first of two years of release: `NVIDIA 2022` is H100, H200, H800.
    pub generation: String,
    /// Software stack.
    pub stack: String,
    /// Sort of model.
    pub model: ModelSort,
    /// Family of layouts.
    pub layout: LayoutFamily,
    /// Narrowest format of matrix products.
    pub format: String,
    /// Devices.
    pub devices: u32,
    /// Width of the model.
    pub hidden: u64,
    /// Tokens of a micro-batch on a rank.
    pub tokens: u64,
    /// The weights that are trained.
    pub training: TrainedWeights,
    /// Sort of device memory, without its generation: `HBM`, `GDDR`.
    pub memory: String,
    /// True if the device's file has rates of its kernels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_rates: bool,
    /// The rates that the step is priced with.
    pub rates: StepRates,
    /// The parts of the step, in closed form.
    pub shares: StepShares,
}

/// The weights that a step trains: each sort has its own kernels, casts and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainedWeights {
    /// All, or all of some layers.
    All,
    /// Adapters beside frozen ones.
    Adapters,
    /// Adapters beside frozen ones that are quantised.
    QuantisedAdapters,
}

/// Sorts of models that simulations miss in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelSort {
    /// Attention and MLPs.
    Dense,
    /// Some layers have experts.
    Experts,
    /// Some layers mix tokens by something else than attention.
    Hybrid,
    /// An encoder works in front of it: T5's, or of images.
    Encoder,
}

/// Families of layouts: each waits for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutFamily {
    /// Replicas alone, or one device.
    Data,
    /// Weights are gathered for each pass (FSDP, ZeRO-3).
    Fsdp,
    /// Tensor parallelism without pipeline.
    Tensor,
    /// A pipeline.
    Pipeline,
    /// Sequences are split over ranks.
    Context,
}

impl StepTraits {
    /// The traits of a step; `None` without software of a name.
    pub fn of(inputs: &Inputs) -> Option<StepTraits> {
        let device = inputs.machine.device(DeviceId(0));
        let workload = &inputs.workload.value;
        Some(StepTraits {
            device: device.name.clone(),
            generation: generation(device),
            stack: stack_name(workload.stack()).filter(|stack| stack != "simple")?,
            model: ModelSort::of(workload, &inputs.model),
            layout: LayoutFamily::of(workload),
            format: format(workload),
            devices: inputs.machine.devices(),
            hidden: inputs.model.hidden,
            tokens: workload.tokens_per_rank(&inputs.model),
            training: TrainedWeights::of(workload),
            memory: memory(device),
            own_rates: has_rates(device),
            rates: StepRates::of(inputs),
            shares: StepShares::of(inputs),
        })
    }
}

impl StepTraits {
    /// Who makes the device.
    pub fn maker(&self) -> &str {
        self.generation.split(' ').next().unwrap_or_default()
    }

    /// The software of the stack, of any release.
    pub fn software(&self) -> &str {
        match self.stack.split('-').next().unwrap_or_default() {
            "fsdp1" | "fsdp2" => "FSDP",
            "maxtext" | "xla" => "XLA",
            other => other,
        }
    }

    /// Bits of the narrowest format of matrix products.
    pub fn bits(&self) -> &str {
        match self.format.trim_start_matches(|c: char| c.is_alphabetic()) {
            bits @ ("4" | "6" | "8" | "16") => bits,
            _ => "32",
        }
    }

    /// The kinds that the step is of, each in words. Two of them that were never measured together are no evidence.
    pub fn kinds(&self) -> [String; 8] {
        [
            self.maker().to_string(),
            format!("{} memory", self.memory),
            self.software().to_string(),
            format!("{} models", self.model.name()),
            format!("the layout {}", self.layout.name()),
            format!("{} bits", self.bits()),
            if self.devices == 1 { "one device" } else { "several devices" }.to_string(),
            self.training.words().to_string(),
        ]
    }

    /// The kind of step, in words: sort of memory and of model, one device or several, weights trained.
    pub fn kind(&self) -> [String; 4] {
        let [_, memory, _, model, _, _, devices, trained] = self.kinds();
        [memory, model, devices, trained]
    }

    /// The classes whose coverage is told.
    pub fn classes(&self) -> [String; 9] {
        let size = SIZES.iter().find(|(most, _)| self.devices <= *most).map_or(LARGEST, |(_, name)| name);
        [
            format!("maker {}", self.maker()),
            format!("generation {}", self.generation),
            format!("memory {}", self.memory),
            format!("stack {}", self.stack),
            format!("model {}", self.model.name()),
            format!("layout {}", self.layout.name()),
            format!("format {}", self.format),
            format!("devices {size}"),
            format!("trained {}", self.training.words()),
        ]
    }
}

/// Sizes of jobs, by the most devices.
const SIZES: [(u32, &str); 4] = [(1, "1"), (8, "2 to 8"), (64, "9 to 64"), (512, "65 to 512")];
const LARGEST: &str = "more than 512";

impl TrainedWeights {
    fn words(self) -> &'static str {
        match self {
            TrainedWeights::All => "all weights",
            TrainedWeights::Adapters => "adapters",
            TrainedWeights::QuantisedAdapters => "adapters of quantised weights",
        }
    }
    fn of(workload: &WorkloadSpec) -> TrainedWeights {
        match (&workload.training.adapters, workload.training.frozen_format) {
            (None, _) => TrainedWeights::All,
            (Some(_), None) => TrainedWeights::Adapters,
            (Some(_), Some(_)) => TrainedWeights::QuantisedAdapters,
        }
    }
}

/// The sort of a device's memory, without its generation.
fn memory(device: &Device) -> String {
    let kind = device.hbm.as_ref().and_then(|hbm| hbm.kind.as_deref()).unwrap_or("unknown");
    kind.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().to_string()
}

/// True if something was measured of a device's kernels, by its file, and not of other devices alone.
pub(super) fn has_rates(device: &Device) -> bool {
    let figures = |cost: &CostSpec| CostSpec { source: String::new(), ..cost.clone() };
    device.cost.as_ref().is_some_and(|cost| !cost.estimated && figures(cost) != CostSpec::default())
}

impl ModelSort {
    fn name(self) -> &'static str {
        match self {
            ModelSort::Dense => "dense",
            ModelSort::Experts => "experts",
            ModelSort::Hybrid => "hybrid",
            ModelSort::Encoder => "encoder",
        }
    }
    fn of(workload: &WorkloadSpec, model: &ModelSpec) -> ModelSort {
        if !workload.modules.is_empty() {
            return ModelSort::Encoder;
        }
        let mixers = model.layer_kinds.values().filter_map(|kind| kind.mixer).chain([model.mixer]);
        let other = |mixer: &Mixer| !matches!(mixer, Mixer::Attention | Mixer::None);
        if mixers.into_iter().any(|mixer| other(&mixer)) {
            return ModelSort::Hybrid;
        }
        if model.moe.is_some() { ModelSort::Experts } else { ModelSort::Dense }
    }
}

impl LayoutFamily {
    fn name(self) -> &'static str {
        match self {
            LayoutFamily::Data => "data",
            LayoutFamily::Fsdp => "fsdp",
            LayoutFamily::Tensor => "tensor",
            LayoutFamily::Pipeline => "pipeline",
            LayoutFamily::Context => "context",
        }
    }
    fn of(workload: &WorkloadSpec) -> LayoutFamily {
        let p = &workload.parallelism;
        if p.context.size > 1 {
            LayoutFamily::Context
        } else if p.pipeline.size > 1 {
            LayoutFamily::Pipeline
        } else if p.tensor > 1 {
            LayoutFamily::Tensor
        } else if workload.sharding().dense.weights.is_cut() {
            LayoutFamily::Fsdp
        } else {
            LayoutFamily::Data
        }
    }
}

/// The generation of a device: its maker, and two years that it came out in.
pub(super) fn generation(device: &Device) -> String {
    let maker = device.vendor.as_deref().or_else(|| device.name.split(' ').next()).unwrap_or_default();
    let year = device.year.map_or(String::new(), |year| format!(" {}", year - year % GENERATION_YEARS));
    format!("{maker}{year}")
}

/// The narrowest format in which matrices are multiplied.
fn format(workload: &WorkloadSpec) -> String {
    let precision = &workload.precision;
    let narrow = precision.narrow().map(|_| precision.recipe().map_or(Dtype::Fp8, |recipe| recipe.dtype));
    narrow.unwrap_or(precision.compute).name().to_string()
}

/// The shipped stack that a workload has, told by its description; a stack of the user's own has no name.
fn stack_name(stack: &StackSpec) -> Option<String> {
    static SHIPPED: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
        let described = |name| Some((name, load::<StackSpec>(name, &[]).ok()?.value.description));
        catalog::names(Kind::Stack).filter_map(described).collect()
    });
    let same = |(_, description): &&(&str, String)| *description == stack.description;
    SHIPPED.iter().filter(|_| !stack.description.is_empty()).find(same).map(|(name, _)| (*name).to_string())
}
