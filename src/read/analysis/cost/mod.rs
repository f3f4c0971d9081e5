//! The cost of a step: dollars, and energy by the use of devices.
//!
//! ```text
//! energy = Σ over uses  time of a mean device × watts of the use × devices
//! dollars = devices × time × price of an hour
//! ```
//! Uses are matrix products, kernels that memory bounds, and the rest of the step: a device that waits or
//! communicates draws as if idle, and communication under kernels adds nothing. Kernels without a class count as
//! products. `spec::power` has the watts and where they come from; it is the board alone, without host,
//! network, cooling.

mod reading;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::kernel_classes::KernelClassReport;
pub use reading::{StepCost, joules_in_words};
use stepsim_core::declare::named;
use stepsim_core::kernel_class::KernelKind;
use stepsim_core::power::{PowerAndPrice, usd};

named! {
    /// The use of devices.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Use {
        /// Kernels on matrix units.
        Products = "matrix products",
        /// Kernels that device memory bounds.
        MemoryBound = "memory-bound kernels",
        /// Communication, and nothing.
        Otherwise = "communication and idle",
    }
}

/// The cost of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostReport {
    /// Dollars for a step, where the devices have a price (`device.price_USD_per_h`).
    #[serde(default, rename = "step_cost_USD", skip_serializing_if = "Option::is_none")]
    pub step_usd: Option<f64>,
    /// Dollars for 10⁶ tokens.
    #[serde(default, rename = "cost_USD_per_million_tokens", skip_serializing_if = "Option::is_none")]
    pub usd_per_million_tokens: Option<f64>,
    /// Joules of a step on all devices, where they state their power (`device.power_W`).
    #[serde(default, rename = "step_energy_J", skip_serializing_if = "Option::is_none")]
    pub step_joules: Option<f64>,
    /// Joules a token: as many as megajoules for 10⁶ tokens.
    #[serde(default, rename = "energy_J_per_token", skip_serializing_if = "Option::is_none")]
    pub joules_per_token: Option<f64>,
    /// Mean power of a device in watts.
    #[serde(default, rename = "power_W_per_device", skip_serializing_if = "Option::is_none")]
    pub watts_per_device: Option<f64>,
    /// By what the devices do: a mean device in a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<UseReport>,
}

/// One use of a mean device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseReport {
    /// The use.
    #[serde(rename = "use")]
    pub what: Use,
    /// How long in a step.
    pub time_s: f64,
    /// Watts that it draws meanwhile.
    #[serde(rename = "power_W")]
    pub watts: f64,
}

/// A step, as far as its cost hangs on it.
#[derive(Clone, Copy, Debug)]
pub struct CostBasis<'r> {
    /// Its length.
    pub seconds: f64,
    /// Seconds of a mean device in kernels.
    pub busy_s: f64,
    /// Kernels by class.
    pub kernels: &'r [KernelClassReport],
    /// Tokens that it trains on.
    pub tokens: u64,
    /// Devices.
    pub devices: u64,
}

/// The cost of a step; nothing where neither a price nor the power is known.
pub fn cost(step: CostBasis<'_>, rates: &PowerAndPrice) -> Option<CostReport> {
    if *rates == PowerAndPrice::default() {
        return None;
    }
    let of_tokens = |amount: f64| (step.tokens > 0).then(|| amount / step.tokens as f64);
    let devices = step.devices as f64;
    let step_usd = rates.usd_per_h.map(|price| usd(devices * step.seconds, price));
    let uses = rates.watts.map_or(Vec::new(), |watts| uses(step, watts));
    let of_device = rates.watts.map(|_| uses.iter().map(|u| u.time_s * u.watts).sum::<f64>());
    let step_joules = of_device.map(|joules| devices * joules);
    Some(CostReport {
        step_usd,
        usd_per_million_tokens: step_usd.and_then(of_tokens).map(|usd| 1e6 * usd),
        step_joules,
        joules_per_token: step_joules.and_then(of_tokens),
        watts_per_device: of_device.map(|joules| joules / step.seconds.max(f64::MIN_POSITIVE)),
        uses,
    })
}

/// Times of a mean device by use.
fn uses(step: CostBasis<'_>, watts: [f64; 3]) -> Vec<UseReport> {
    let bound = step.kernels.iter().filter(|k| matches!(k.class.kind(), KernelKind::MemoryBound(_)));
    let memory_bound = bound.map(|k| k.time_s).sum::<f64>();
    let times = [step.busy_s - memory_bound, memory_bound, step.seconds - step.busy_s];
    let of_use =
        |((what, time_s), watts): ((Use, f64), f64)| UseReport { what, time_s: time_s.max(0.0), watts };
    [Use::Products, Use::MemoryBound, Use::Otherwise].into_iter().zip(times).zip(watts).map(of_use).collect()
}
