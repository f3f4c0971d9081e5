//! The power draw of a device, the price of its hour, and the clock that a power cap leaves it.
//!
//! ```text
//! draw of a device = its board power × share of what it does       (never more than its cap)
//! board power      = idle + (1 − idle) · activity · clock³,  as shares
//! ```
//! A matrix product that reaches the rate that the board power allows has activity 1; one that reaches a part of that
//! rate has that part of it. Under a cap the clock falls until the second line meets the cap; what memory and links
//! bound keeps its time.
//!
//! A large product has activity 1: it runs at the power limit (A100 and H100: thonking.ai, "Strangely, matrix
//! multiplications on GPUs run faster when given predictable data"). The other shares are facts of one kind of device
//! each and stand for all ([`super::facts`]). Doubt: published pairs of powers (`a_cap_is_held_to_published_rates` and
//! `tests/power.rs`) are of two boards with one chip, not of one board; a cap below the power of kernels that memory
//! bounds would slow those too.

use stepsim_core::power::PowerAndPrice;

use super::SpecError;
use super::device::Device;
use super::facts::facts;

/// The mean of classes of devices, each with how many there are.
pub fn mean<'d>(classes: impl Iterator<Item = (&'d Device, f64)> + Clone) -> PowerAndPrice {
    let all: f64 = classes.clone().map(|(_, count)| count).sum();
    let mean = |of: &dyn Fn(&Device) -> Option<f64>| {
        let sums = classes.clone().map(|(device, count)| Some(of(device)? * count / all));
        sums.sum::<Option<f64>>()
    };
    let shares = [1.0, *facts().memory_bound_power, *facts().idle_power];
    let [products, memory, idle] = shares.map(|share| mean(&|d| d.draw_w(share)));
    PowerAndPrice {
        watts: products.zip(memory.zip(idle)).map(|(products, (memory, idle))| [products, memory, idle]),
        usd_per_h: mean(&|device| device.price_usd_per_h),
    }
}

impl Device {
    /// Watts at a share of the board power, at most the cap.
    pub fn draw_w(&self, share: f64) -> Option<f64> {
        let drawn = self.power_w? * share;
        Some(self.power_cap_w.map_or(drawn, |cap| drawn.min(cap)))
    }

    /// The share of clock-bound power that a cap leaves: 1 without one.
    pub fn dynamic_power_left(&self) -> f64 {
        let share = self.power_cap_w.zip(self.power_w).map_or(1.0, |(cap, power)| cap / power);
        let idle = *facts().idle_power;
        ((share - idle) / (1.0 - idle)).clamp(0.0, 1.0)
    }

    /// Refuses a cap that no device can keep, and one without the power that it caps.
    pub(super) fn check_cap(&self) -> Result<(), SpecError> {
        let Some(cap) = self.power_cap_w else { return Ok(()) };
        let wrong = |problem: String| SpecError::at("power_cap_W", problem);
        let Some(power) = self.power_w else {
            return Err(wrong(format!("{} has a power cap and no power", self.name))
                .allowed("a cap of a device with `power_W`")
                .hint("give its largest board power: \"power_W\": 700"));
        };
        let idle = *facts().idle_power;
        if cap > idle * power && cap <= power {
            return Ok(());
        }
        let why = if cap > power { "above the largest board power" } else { "not above what it draws idle" };
        Err(wrong(format!("{cap} W is {why}"))
            .allowed(format!("watts above {:.0} (idle), at most {power} (`power_W`)", idle * power))
            .hint("leave it out for no cap"))
    }
}

/// The factor on the time of a kernel that takes `activity` of an uncapped device's dynamic power, where a cap leaves
/// `left` of it.
pub fn slower(activity: f64, left: f64) -> f64 {
    (activity / left).max(1.0).powf(1.0 / *facts().power_by_clock)
}
