//! The aims of a search.

use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::PointOutcome;
use stepsim_core::power::usd;
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;
use stepsim_spec::device::Device;

/// The aim of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The shortest step.
    #[default]
    Time,
    /// Most tokens per second and device (differs from time where batch, sequence or machine vary).
    TokensPerDevice,
    /// Cheapest tokens: devices × time × the device's `price_USD_per_h`.
    Cost,
    /// Tokens of least energy. Layouts are ranked by devices × time × the device's `power_W` or its cap; the ranked
    /// ones then by their power draw.
    Energy,
    /// Fewest devices, and among these the shortest step.
    Devices,
    /// Least device memory.
    Memory,
}

impl Objective {
    /// All objectives with their names.
    pub const NAMED: [(&str, Objective); 6] = [
        ("time", Objective::Time),
        ("tokens_per_device", Objective::TokensPerDevice),
        ("cost", Objective::Cost),
        ("energy", Objective::Energy),
        ("devices", Objective::Devices),
        ("memory", Objective::Memory),
    ];

    /// The order of a ranking, in words.
    pub fn order(self) -> &'static str {
        match self {
            Objective::Time => "shortest first; within 2 %, one that bets on nothing unmeasured",
            Objective::TokensPerDevice => "most tokens a device first",
            Objective::Cost => "cheapest tokens first",
            Objective::Energy => "tokens of least energy first",
            Objective::Devices => "fewest devices first",
            Objective::Memory => "least memory first",
        }
    }

    /// The objective of that name.
    pub fn named(name: &str) -> Option<Objective> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, objective)| objective)
    }

    /// Refuses a machine whose device does not say what the objective needs.
    pub(super) fn check(self, device: &Device) -> Result<(), SpecError> {
        let (field, known, example) = match self {
            Objective::Cost => ("price_USD_per_h", device.price_usd_per_h, 2.5),
            Objective::Energy => ("power_W", device.power_w, 700.0),
            _ => return Ok(()),
        };
        if known.is_some() {
            return Ok(());
        }
        Err(SpecError::at(format!("device.{field}"), format!("{} does not say it", device.name))
            .allowed("a number above 0")
            .hint(format!("give it: --fix topology.device.{field}={example}")))
    }
}

/// The cost of a layout, in closed form or simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// The step.
    pub seconds: f64,
    /// The most that a device holds.
    pub memory_bytes: f64,
    /// Tokens of the step.
    pub tokens: f64,
    /// Devices that it takes.
    pub devices: f64,
    /// Of one device.
    pub price_usd_per_h: f64,
    /// Of one device.
    pub power_w: f64,
}

impl Measures {
    /// Of a layout of some inputs.
    pub fn new(inputs: &Inputs, tokens: f64, seconds: f64, memory_bytes: f64) -> Measures {
        let machine = &inputs.machine;
        let device = machine.device(stepsim_core::ids::DeviceId(0));
        Measures {
            seconds,
            memory_bytes,
            tokens,
            devices: f64::from(machine.devices()),
            price_usd_per_h: device.price_usd_per_h.unwrap_or_default(),
            power_w: device.draw_w(1.0).unwrap_or_default(),
        }
    }
    /// Those that a simulation found, with the rest as it was.
    pub fn simulated(self, outcome: &PointOutcome) -> Option<Measures> {
        Some(Measures {
            seconds: outcome.step_time_s?,
            memory_bytes: outcome.memory_peak_bytes.unwrap_or_default() as f64,
            ..self
        })
    }
    /// With time and memory shorter by a part of them.
    pub fn less(self, margin: f64) -> Measures {
        let left = 1.0 - margin;
        Measures { seconds: self.seconds * left, memory_bytes: self.memory_bytes * left, ..self }
    }
    /// Less is better.
    pub fn score(&self, objective: Objective) -> f64 {
        let device_seconds = self.devices * self.seconds;
        match objective {
            Objective::Time => self.seconds,
            Objective::TokensPerDevice => device_seconds / self.tokens,
            Objective::Cost => usd(device_seconds, self.price_usd_per_h) / self.tokens,
            Objective::Energy => device_seconds * self.power_w / self.tokens,
            // Time decides between equal counts: it moves the score by less than one device.
            Objective::Devices => self.devices + self.seconds / (1.0 + self.seconds),
            Objective::Memory => self.memory_bytes,
        }
    }
    /// Dollars for 10⁶ tokens, where the machine has a price.
    pub fn usd_per_million_tokens(&self) -> Option<f64> {
        (self.price_usd_per_h > 0.0).then(|| 1e6 * self.score(Objective::Cost))
    }
}
