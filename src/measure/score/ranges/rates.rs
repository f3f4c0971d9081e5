//! The rates that a step is priced with: those of the machine that it runs on, whatever its name.

use serde::{Deserialize, Serialize};

use stepsim_core::ids::DeviceId;
use stepsim_fabric::topology::Machine;
use stepsim_simulate::Inputs;

/// Rates are rounded to so many digits: the last one of a quotient is not the same on every machine.
const DIGITS: i32 = 4;

/// What a machine does in a second for a step, and how long its host takes for a launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRates {
    /// Matrix products in the step's narrowest format, in 10¹² FLOP/s.
    #[serde(rename = "products_TFLOPs")]
    pub products: f64,
    /// Device memory, in 10⁹ B/s; none where it is free.
    #[serde(rename = "memory_GBps", default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// From a device to the next, in 10⁹ B/s; none where there is one.
    #[serde(rename = "near_GBps", default, skip_serializing_if = "Option::is_none")]
    pub near: Option<f64>,
    /// From a node to the next, in 10⁹ B/s a device; none where there is one.
    #[serde(rename = "far_GBps", default, skip_serializing_if = "Option::is_none")]
    pub far: Option<f64>,
    /// A launch of a matrix product, in microseconds; none where launches are free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_us: Option<f64>,
}

impl StepRates {
    /// The rates of a step.
    pub fn of(inputs: &Inputs) -> StepRates {
        let (machine, workload) = (&inputs.machine, &inputs.workload.value);
        let device = machine.device(DeviceId(0));
        let cost = device.cost.clone().unwrap_or_default();
        let other_node = (1..machine.devices()).map(DeviceId).find(|d| machine.node_of(*d) != 0);
        let next = (machine.devices() > 1 && machine.node_of(DeviceId(1)) == 0).then_some(DeviceId(1));
        let link = |to: Option<DeviceId>| Some(rounded(slowest_link(machine, to?)? / 1e9));
        let memory = device.memory_bandwidth().0 * cost.memory_fraction * cost.sustained_memory / 1e9;
        let launch = |us: f64, slowness: f64| rounded(us * slowness * cost.host_slowness);
        StepRates {
            products: rounded(inputs.peak().0 * cost.matrix_fraction * cost.sustained / 1e12),
            memory: memory.is_finite().then(|| rounded(memory)),
            near: link(next),
            far: link(other_node),
            launch_us: workload.stack().host.as_ref().map(|host| launch(host.launch_us.gemm, host.slowness)),
        }
    }

    /// Each rate with its name and unit, in one order.
    pub fn named(&self) -> [(&'static str, &'static str, Option<f64>); 5] {
        [
            ("matrix products", "TFLOP/s", Some(self.products)),
            ("device memory", "GB/s", self.memory),
            ("links within a node", "GB/s", self.near),
            ("links between nodes", "GB/s", self.far),
            ("launches", "us", self.launch_us),
        ]
    }

    /// How many doublings the rates of two steps lie apart, those that both have.
    pub fn doublings(&self, other: &StepRates) -> f64 {
        let pairs = self.named().into_iter().zip(other.named());
        let apart = pairs.filter_map(|((.., a), (.., b))| Some((a? / b?).log2().abs()));
        apart.filter(|doublings| doublings.is_finite()).sum()
    }
}

/// The least bandwidth on the way from the first device to another.
fn slowest_link(machine: &Machine, to: DeviceId) -> Option<f64> {
    let mut links = Vec::new();
    machine.route(DeviceId(0), to, &mut links).ok()?;
    links.into_iter().map(|link| machine.capacity(link).0).reduce(f64::min).filter(|rate| rate.is_finite())
}

fn rounded(rate: f64) -> f64 {
    let scale = 10f64.powi(DIGITS - 1 - rate.abs().max(f64::MIN_POSITIVE).log10().floor() as i32);
    (rate * scale).round() / scale
}
