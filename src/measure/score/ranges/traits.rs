//! The classes and sizes by which measured steps are compared with a step.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use stepsim_core::ids::DeviceId;
use stepsim_simulate::Inputs;
use stepsim_step::spec::model::Mixer;
use stepsim_step::spec::workload::{Dtype, WorkloadSpec};
use stepsim_step::spec::{Device, Kind, ModelSpec, StackSpec, catalog, load};

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
            model: ModelSort::of(&inputs.model),
            layout: LayoutFamily::of(workload),
            format: format(workload),
            devices: inputs.machine.devices(),
            hidden: inputs.model.hidden,
            tokens: workload.tokens_per_rank(&inputs.model),
        })
    }
}

impl StepTraits {
    /// Who makes the device.
    pub fn maker(&self) -> &str {
        self.generation.split(' ').next().unwrap_or_default()
    }

    /// The classes that ranges are made wide enough for, each with the name of what it is a class of.
    pub fn classes(&self) -> [String; 7] {
        let size = SIZES.iter().find(|(most, _)| self.devices <= *most).map_or(LARGEST, |(_, name)| name);
        [
            format!("maker {}", self.maker()),
            format!("generation {}", self.generation),
            format!("stack {}", self.stack),
            format!("model {}", self.model.name()),
            format!("layout {}", self.layout.name()),
            format!("format {}", self.format),
            format!("devices {size}"),
        ]
    }
}

/// Sizes of jobs, by the most devices.
const SIZES: [(u32, &str); 3] = [(8, "1 to 8"), (64, "9 to 64"), (512, "65 to 512")];
const LARGEST: &str = "more than 512";

impl ModelSort {
    fn name(self) -> &'static str {
        match self {
            ModelSort::Dense => "dense",
            ModelSort::Experts => "experts",
            ModelSort::Hybrid => "hybrid",
        }
    }
    fn of(model: &ModelSpec) -> ModelSort {
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
