//! How fast a device's kernels really are: the optional `cost` object of a device file.
//!
//! The defaults are what GEMM and attention measurements of all devices have in common (see `cost`); a device file
//! gives its own fractions and where they come from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_core::declare::{defaults, one_long};
use stepsim_core::kernel_class::KernelClass;

use super::kernel::{AttentionGeneration, Format};
use super::problem::{Problem, Problems};

defaults! {
    /// Parameters of kernel times on one device; fractions are of the catalogue's dense peaks.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct CostSpec {
        /// Where the figures come from.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub source: String,
        /// Nothing was measured of this device's kernels: figures are other devices', or what devices have in common.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub estimated: bool = false,
        /// Compute units, where the catalogue does not say.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub compute_units: Option<u32>,
        /// Fraction of the 16-bit matrix peak that a GEMM's inner loop reaches in a short run.
        pub matrix_fraction: f64 = 0.8,
        /// The same of other formats, each of its own peak; default: `matrix_fraction`.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub formats: BTreeMap<Format, f64>,
        /// Rate of weight gradients over the rate of the other GEMMs, by format; default 1.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub weight_grad: BTreeMap<Format, f64>,
        /// Rate of grouped GEMMs over the rate of plain ones.
        pub grouped_fraction: f64 = 1.0,
        /// Rate of weight gradients over the rate of the other grouped GEMMs, in all formats.
        pub grouped_weight_grad: f64 = 0.8,
        /// Most of the inner loop's rate that power and heat leave matrix kernels in a training step. A kernel that
        /// reaches less by itself keeps its clock. Steps are priced with it.
        pub sustained: f64 = 1.0,
        /// Power of kernels that memory bounds, as a share of the device's limit: a step that holds few products keeps
        /// its clock (`cost`, `clock.rs`). Counts in full in a step on one device, in part up to seven, and no more
        /// from eight on, where all run at `sustained`. Default: not known, and all steps run at `sustained`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub power_beside_products: Option<f64>,
        /// The same as `sustained` by format, where formats draw power differently; default: `sustained`.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub sustained_formats: BTreeMap<Format, f64>,
        /// Standard deviation of that rate between devices of this kind, as a share: they wait for each other, so a
        /// step goes at the pace of the slowest, and `sustained` is the rate of the slowest of eight. 0 where clocks
        /// are fixed.
        pub spread: f64,
        /// Share of a short run's bandwidth that is left in a training step to kernels bound by memory: cold caches,
        /// and neighbours that use the memory too. Steps are priced with it.
        pub sustained_memory: f64 = 1.0,
        /// How slow the hosts are that this device usually comes with: a factor on all host times of the stack.
        pub host_slowness: f64 = 1.0,
        /// Time of kernels of a class in a step over what all other figures say, as it was measured
        /// (`stepsim learn`); default 1. It takes no product beyond the peak.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub slowness: BTreeMap<KernelClass, f64>,
        /// Fraction of the memory bandwidth that a copy reaches.
        pub memory_fraction: f64 = 0.85,
        /// Filling and draining a tile's pipeline costs as much as this many more elements of k (16 bits).
        pub fill_k: f64 = 100.0,
        /// Share of the idle units of a last, partly filled wave that is lost (1: all of it; less where the library
        /// cuts the rest finer).
        pub last_wave: f64 = 0.15,
        /// The two above in formats whose kernels differ in them.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub shapes: BTreeMap<Format, ShapeCost>,
        /// Share of a GEMM's memory time that its products do not hide.
        pub exposed_memory: f64,
        /// Share of the time to read and write the sums that a weight gradient is added to which its products do not
        /// hide: tensor cores wait while a tile's sums are fetched and written back.
        pub exposed_sums: f64,
        /// The first of the two for grouped GEMMs, whose small groups hide less.
        pub grouped_exposed_memory: f64 = 0.4,
        /// Adding up the parts of a product whose k is cut over several units, in microseconds.
        pub split_us: f64 = 4.3,
        /// Setting up one group of a grouped GEMM, in microseconds.
        pub group_us: f64 = 0.5,
        /// Fused attention by generation of kernels. A generation that is not listed runs as the one before it.
        pub attention: BTreeMap<AttentionGeneration, AttentionCost> =
            BTreeMap::from([(AttentionGeneration::Flash2, AttentionCost {
                forward: 0.6, backward: 0.5, forward_fp8: None, backward_fp8: None, narrow: None,
            })]),
        /// Scans in chunks of state spaces and linear attention.
        pub scan: ScanCost,
        /// Query (backward: key) rows that one unit works on at a time.
        pub attention_rows: u64 = 128,
        /// Starting and ending a block of rows costs as much as this many more keys.
        pub attention_fill: f64 = 384.0,
        /// Part of the longest block that the last units run alone, forward.
        pub attention_tail: f64 = 0.5,
        /// Rate of 16-bit products with a width that is a multiple of 1, 2 or 4 elements and of no more, over the rate
        /// of aligned ones; counts where the stack launches kernels. Default: not known, and all are as fast.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub unaligned: BTreeMap<u64, f64>,
        /// Start and ramp of a GEMM, in microseconds.
        pub gemm_floor_us: f64 = 2.0,
        /// Start and ramp of a fused attention kernel, in microseconds.
        pub attention_floor_us: f64 = 10.0,
        /// From the end of a kernel to the start of the next one on its stream, where that was launched long before,
        /// in microseconds; counts where the stack launches kernels. The default is measured on H100 in PyTorch
        /// profiles (medians 1.2 to 1.6 over thousands of kernels).
        pub kernel_gap_us: f64 = 1.4,
        /// Kernels that memory bounds, by class, where they differ from what devices have in common.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub classes: BTreeMap<KernelClass, ClassCost>,
        /// Level `constant`: fraction of the matrix peak of all GEMMs and attention; default: `matrix_fraction`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub constant_fraction: Option<f64>,
        /// Level `calculon`: fraction of the matrix peak by size, as pairs of least GFLOP and fraction, largest first.
        /// The default is the curve of Calculon's shipped A100 and H100 systems.
        pub matrix_by_gflop: Vec<(f64, f64)> = vec![(128.0, 0.95), (16.0, 0.9), (1.0, 0.6), (0.0, 0.1)],
        /// Level `calculon`: fraction of the memory bandwidth by size, as pairs of least MB and fraction, largest
        /// first.
        pub memory_by_mb: Vec<(f64, f64)> = vec![(100.0, 0.9), (10.0, 0.75), (1.0, 0.6), (0.0, 0.3)],
        /// Level `calculon`: how computing and moving bytes combine in one kernel.
        #[serde(skip_serializing_if = "Processing::is_roofline")]
        pub processing: Processing = Processing::Roofline,
        /// Level `table`: measured GEMMs.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub table: Vec<MeasuredGemm>,
    }
}

/// The cost of a product's shape in one format; fields left out are as in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShapeCost {
    /// In place of `fill_k`: larger where sums are promoted, or results are written before the next tile begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill_k: Option<f64>,
    /// In place of `last_wave`: 1 where the library does not cut the rest finer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_wave: Option<f64>,
    /// In place of `gemm_floor_us`, in microseconds: larger where a product waits for scales.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_us: Option<f64>,
    /// True if kernels cut k over several units where tiles are few; default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
}

/// Fractions of the dense peak that fused attention of one generation reaches in a short run on long sequences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionCost {
    /// Forward, of the 16-bit peak.
    pub forward: f64,
    /// Backward, of the 16-bit peak.
    pub backward: f64,
    /// Forward in 8 bits, of the 8-bit peak; default: as fast as in 16 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_fp8: Option<f64>,
    /// Backward in 8 bits, of the 8-bit peak; default: as fast as in 16 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_fp8: Option<f64>,
    /// Time of a FLOP in heads of 64 over that in heads of 128; default 1.5 (exponentials set the pace of narrow
    /// heads on Hopper and Blackwell).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrow: Option<f64>,
}

defaults! {
    /// Fractions of the 16-bit peak that the products of a scan in chunks reach: compiled kernels of small tiles that
    /// exponentials, masks and states in 32 bits keep from the matrix units.
    ///
    /// The defaults are measured on Mamba-2's Triton kernels on H100: 65,536 tokens of 64 and of 128 heads of 64,
    /// states of 64 and chunks of 256 take 3.6 and 7.1 ms forward, 24.4 and 37.3 ms backward, convolution and gate
    /// included (NX-AI/mlstm_kernels, notebooks/plots_mlstm_kernel_benchmark_tfla_paper at 39d3c61).
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ScanCost {
        /// Forward.
        pub forward: f64 = 0.075,
        /// Backward.
        pub backward: f64 = 0.024,
    }
}

/// A class of kernels that memory bounds on one device; what is left out is as on other devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClassCost {
    /// Bandwidth of a tuned kernel over the bandwidth of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuned: Option<f64>,
    /// The same of a compiled one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiled: Option<f64>,
    /// The same of an eager one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eager: Option<f64>,
    /// Start and ramp, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_us: Option<f64>,
}

/// How the time to compute and the time to move bytes combine in one kernel (Calculon's `processing_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Processing {
    /// The longer of the two.
    #[default]
    Roofline,
    /// Their sum, as in all systems that Calculon ships.
    NoOverlap,
}

impl Processing {
    fn is_roofline(&self) -> bool {
        *self == Processing::Roofline
    }
}

/// A measured GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredGemm {
    /// Rows of the output.
    pub m: u64,
    /// Columns of the output.
    pub n: u64,
    /// Length of the inner products.
    pub k: u64,
    /// Products in one launch (experts); 1 for a plain GEMM.
    #[serde(default = "one_long")]
    pub groups: u64,
    /// True if it is added to a gradient.
    #[serde(default)]
    pub accumulate: bool,
    /// Measured rate in 10¹² FLOP/s.
    #[serde(rename = "rate_TFLOPs")]
    pub rate_tflops: f64,
}

impl CostSpec {
    /// Everything wrong with it; `at` is its JSON path in the device file.
    pub fn validate(&self, at: &str) -> Vec<Problem> {
        let mut p = Problems::new(at);
        // Cards with coolers of their makers run above the clock of the data sheet.
        p.range("matrix_fraction", self.matrix_fraction, 1e-6, 1.25);
        for (name, value) in [
            ("grouped_fraction", Some(self.grouped_fraction)),
            ("grouped_weight_grad", Some(self.grouped_weight_grad)),
            ("sustained", Some(self.sustained)),
            ("sustained_memory", Some(self.sustained_memory)),
            ("power_beside_products", self.power_beside_products),
            ("memory_fraction", Some(self.memory_fraction)),
            ("constant_fraction", self.constant_fraction),
            ("scan.forward", Some(self.scan.forward)),
            ("scan.backward", Some(self.scan.backward)),
        ] {
            p.range(name, value, 1e-6, 1.0);
        }
        for (map, name) in [
            (&self.formats, "formats"),
            (&self.weight_grad, "weight_grad"),
            (&self.sustained_formats, "sustained_formats"),
        ] {
            map.iter().for_each(|(f, v)| p.range(format!("{name}.{}", f.name()), *v, 1e-6, 1.0));
        }
        for (elements, rate) in &self.unaligned {
            p.range(format!("unaligned.{elements}"), *rate, 1e-6, 1.0);
            if ![1, 2, 4].contains(elements) {
                p.add("unaligned", elements, "1, 2 or 4 elements", "{\"2\": 0.35}");
            }
        }
        for (g, a) in &self.attention {
            for (part, value) in [
                ("forward", Some(a.forward)),
                ("backward", Some(a.backward)),
                ("forward_fp8", a.forward_fp8),
                ("backward_fp8", a.backward_fp8),
            ] {
                p.range(format!("attention.{}.{part}", g.name()), value, 1e-6, 1.0);
            }
            p.range(format!("attention.{}.narrow", g.name()), a.narrow, 0.1, 10.0);
        }
        for (class, c) in &self.classes {
            for (part, value) in [("tuned", c.tuned), ("compiled", c.compiled), ("eager", c.eager)] {
                p.range(format!("classes.{class}.{part}"), value, 1e-6, 1.0);
            }
            p.range(format!("classes.{class}.floor_us"), c.floor_us, 0.0, 1e6);
        }
        if self.attention.is_empty() {
            let hint = "{\"flash-2\": {\"forward\": 0.6, \"backward\": 0.5}}";
            p.add("attention", "{}", "at least one generation", hint);
        }
        for (format, shape) in &self.shapes {
            let at = |field| format!("shapes.{}.{field}", format.name());
            p.range(at("fill_k"), shape.fill_k, 0.0, 1e6);
            p.range(at("last_wave"), shape.last_wave, 0.0, 1.0);
            p.range(at("floor_us"), shape.floor_us, 0.0, 1e6);
        }
        for (name, value) in [
            ("last_wave", self.last_wave),
            ("spread", self.spread),
            ("exposed_memory", self.exposed_memory),
            ("exposed_sums", self.exposed_sums),
            ("grouped_exposed_memory", self.grouped_exposed_memory),
        ] {
            p.range(name, value, 0.0, 1.0);
        }
        p.range("host_slowness", self.host_slowness, 1e-3, 1e3);
        self.slowness.iter().for_each(|(class, s)| p.range(format!("slowness.{class}"), *s, 1e-3, 1e3));
        for (name, value) in [
            ("fill_k", self.fill_k),
            ("split_us", self.split_us),
            ("group_us", self.group_us),
            ("attention_fill", self.attention_fill),
            ("attention_tail", self.attention_tail),
            ("gemm_floor_us", self.gemm_floor_us),
            ("attention_floor_us", self.attention_floor_us),
            ("kernel_gap_us", self.kernel_gap_us),
        ] {
            p.range(name, value, 0.0, 1e6);
        }
        p.size("attention_rows", self.attention_rows, 1 << 20);
        p.size("compute_units", self.compute_units.map(u64::from), 1 << 20);
        for (name, curve) in
            [("matrix_by_gflop", &self.matrix_by_gflop), ("memory_by_mb", &self.memory_by_mb)]
        {
            let falls = curve.windows(2).all(|w| w[0].0 > w[1].0);
            let ends = curve.last().is_some_and(|last| last.0 == 0.0);
            if !(falls && ends && curve.iter().all(|&(_, f)| f > 0.0 && f <= 1.0)) {
                let allowed = "pairs of falling sizes, the last 0, and fractions above 0, at most 1";
                p.add(name, format!("{curve:?}"), allowed, "[[128, 0.95], [16, 0.9], [0, 0.1]]");
            }
        }
        for (i, row) in self.table.iter().enumerate() {
            if row.m.min(row.n).min(row.k).min(row.groups) == 0
                || row.rate_tflops.is_nan()
                || row.rate_tflops <= 0.0
            {
                p.add(format!("table[{i}]"), format!("{row:?}"), "sizes and a rate above 0", "");
            }
        }
        p.into_list()
    }
}
