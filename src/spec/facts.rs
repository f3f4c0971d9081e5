//! Facts of kernels, chips and boards that are taken for all devices (`topologies/tuning/kernels.json`): each with its
//! unit, its source, and what it was measured on.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::Deserialize;

use super::catalog;

const PATH: &str = "topologies/tuning/kernels.json";

/// A value with what stands behind it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    value: T,
    /// Its unit, and what it means.
    pub unit: String,
    /// Where it comes from.
    pub source: String,
    /// The devices that showed it.
    pub measured_on: String,
    /// When it was taken down.
    pub date: String,
}

impl<T> Deref for Fact<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// All of them; the file says what each is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "units stand in the file")]
pub struct Facts {
    pub description: String,
    pub tiles: Fact<Vec<(u64, u64, f64)>>,
    pub thin_tiles: Fact<Vec<(u64, u64, f64)>>,
    pub thin_tiles_fill_k: Fact<f64>,
    pub delta_scans: Fact<[f64; 2]>,
    pub channel_delta_scans: Fact<[f64; 2]>,
    pub attention_by_blocks: Fact<[f64; 2]>,
    pub wider_casts: Fact<f64>,
    pub adam_for_each: Fact<Vec<f64>>,
    pub elements_of_a_list: Fact<u64>,
    pub rms_norm: Fact<[f64; 2]>,
    pub rms_norm_of_fp32: Fact<[f64; 2]>,
    pub cross_entropy: Fact<[f64; 2]>,
    pub chassis_devices: Fact<u64>,
    pub chassis_fills: Fact<f64>,
    pub idle_power: Fact<f64>,
    pub memory_bound_power: Fact<f64>,
    pub power_by_clock: Fact<f64>,
}

/// The shipped facts.
///
/// # Panics
/// No shipped files were handed in ([`catalog::register`]), or the file is wrong.
pub fn facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| {
        let text = catalog::file(PATH).unwrap_or_else(|| panic!("{PATH}: register the shipped files first"));
        stepsim_located::shipped(text).unwrap_or_else(|e| panic!("{PATH}: {e}"))
    })
}
