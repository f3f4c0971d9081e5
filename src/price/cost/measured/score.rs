//! How far prices are off.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{MeasuredRow, sources};
use crate::cost::{Cost, DeviceCost};

/// A row that was priced.
#[derive(Clone, Debug, Serialize)]
pub struct PricedRow {
    /// The row's name.
    pub id: String,
    /// Device of the catalogue.
    pub device: String,
    /// The kernel that was timed.
    pub op: String,
    /// Number format.
    pub dtype: String,
    /// Who measured it.
    pub source: String,
    /// Measured seconds.
    pub measured_s: f64,
    /// Priced seconds.
    pub priced_s: f64,
    /// FLOPs of the matrix kernel.
    pub flops: f64,
    /// Priced over measured, less one.
    pub error: f64,
}

/// Rows that were left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRows {
    /// Why.
    pub why: String,
    /// How many.
    pub rows: usize,
}

/// Errors of the rows of one device, op and format.
#[derive(Clone, Debug, Serialize)]
pub struct PriceErrors {
    /// Device of the catalogue.
    pub device: String,
    /// The kernel that was timed.
    pub op: String,
    /// Number format.
    pub dtype: String,
    /// How many rows.
    pub rows: usize,
    /// Mean of the absolute errors.
    pub mean_abs_error: f64,
    /// Mean of the errors.
    pub bias: f64,
    /// 90 % of the absolute errors are not above it.
    pub p90_abs_error: f64,
    /// The largest absolute error.
    pub max_abs_error: f64,
    /// The row that has it.
    pub worst: String,
}

/// Rows against prices.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// By device, op and format.
    pub groups: Vec<PriceErrors>,
    /// Why rows were left out.
    pub skipped: Vec<SkippedRows>,
    /// Every row that was priced.
    pub rows: Vec<PricedRow>,
}

/// GEMMs of less are bound by their start; they are left out of the score.
const LEAST_FLOPS: f64 = 1e9;

/// Prices rows at a level; `device` looks a device of the catalogue up, `only` keeps the rows of one.
pub fn score(
    rows: &[MeasuredRow],
    cost: &dyn Cost,
    device: impl Fn(&str) -> Option<DeviceCost>,
    only: Option<&str>,
) -> Score {
    let mut devices: BTreeMap<String, Option<DeviceCost>> = BTreeMap::new();
    let (mut scored, mut skipped) = (Vec::new(), BTreeMap::<String, usize>::new());
    for row in rows {
        let mut price = || -> Result<Option<PricedRow>, String> {
            let written = row.device.as_deref().unwrap_or("");
            let name = sources::device(written).unwrap_or(written);
            let known = devices.entry(name.to_string()).or_insert_with(|| device(name)).as_ref();
            let known = known.ok_or_else(|| format!("no such device: `{written}`"))?;
            if only.is_some_and(|only| only != name) {
                return Ok(None);
            }
            let measured = row.read()?;
            let flops = measured.kernels[0].flops;
            if row.op == "gemm" && flops < LEAST_FLOPS {
                return Err("a GEMM of less than 1 GFLOP".into());
            }
            let priced_s = measured.priced(known, cost);
            Ok(Some(PricedRow {
                id: row.id.clone(),
                device: name.into(),
                op: row.op.clone(),
                dtype: row.dtype.clone().unwrap_or_else(|| "bf16".into()),
                source: row.source.clone(),
                measured_s: measured.seconds,
                priced_s,
                flops,
                error: priced_s / measured.seconds - 1.0,
            }))
        };
        match price() {
            Ok(Some(row)) => scored.push(row),
            Ok(None) => {}
            Err(why) => *skipped.entry(why).or_default() += 1,
        }
    }
    let skipped = skipped.into_iter().map(|(why, rows)| SkippedRows { why, rows }).collect();
    Score { groups: groups(&scored), skipped, rows: scored }
}

fn groups(rows: &[PricedRow]) -> Vec<PriceErrors> {
    let mut by: BTreeMap<(&str, &str, &str), Vec<&PricedRow>> = BTreeMap::new();
    for row in rows {
        by.entry((&row.device, &row.op, &row.dtype)).or_default().push(row);
    }
    by.into_iter()
        .map(|((device, op, dtype), mut rows)| {
            rows.sort_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
            let n = rows.len();
            let mean = |f: fn(f64) -> f64| rows.iter().map(|r| f(r.error)).sum::<f64>() / n as f64;
            PriceErrors {
                device: device.into(),
                op: op.into(),
                dtype: dtype.into(),
                rows: n,
                mean_abs_error: mean(f64::abs),
                bias: mean(|e| e),
                p90_abs_error: rows[((n * 9).div_ceil(10)).max(1) - 1].error.abs(),
                max_abs_error: rows[n - 1].error.abs(),
                worst: rows[n - 1].id.clone(),
            }
        })
        .collect()
}
