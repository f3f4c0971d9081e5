//! Measured collectives: time by size, between which one interpolates.
//!
//! Between two sizes, log time is linear in log size. Below the first size the first time holds (latency); above the
//! last, time grows in proportion to size (bandwidth).

use thiserror::Error;

use super::Op;

/// Times of one op on groups of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredTable {
    op: Op,
    ranks: u32,
    nodes: u32,
    /// ln(bytes), ln(seconds), growing.
    points: Vec<(f64, f64)>,
}

/// A table that cannot be interpolated.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TableError {
    /// Fewer than two points.
    #[error("a table needs at least two sizes to interpolate between; this one has {0}")]
    TooShort(usize),
    /// A size or a time that is no positive number.
    #[error("row {row}: {bytes} bytes in {time_s} s; both must be above zero")]
    NotPositive {
        /// Counted from 0.
        row: usize,
        /// Its size.
        bytes: u64,
        /// Its time.
        time_s: f64,
    },
    /// Sizes must grow, and times must not fall.
    #[error(
        "row {row}: {bytes} bytes in {time_s} s after {before} bytes in {before_s} s; sizes must grow and times \
         must not fall: average repeated measurements first"
    )]
    NotMonotone {
        /// Counted from 0.
        row: usize,
        /// Its size.
        bytes: u64,
        /// Its time.
        time_s: f64,
        /// The size before.
        before: u64,
        /// The time before.
        before_s: f64,
    },
}

impl MeasuredTable {
    /// A table of (bytes, seconds) for an op on groups of `ranks` ranks over `nodes` nodes.
    ///
    /// # Errors
    /// [`TableError`]: fewer than two points, or not monotone.
    pub fn new(op: Op, ranks: u32, nodes: u32, rows: &[(u64, f64)]) -> Result<MeasuredTable, TableError> {
        if rows.len() < 2 {
            return Err(TableError::TooShort(rows.len()));
        }
        for (row, &(bytes, time_s)) in rows.iter().enumerate() {
            if bytes == 0 || !time_s.is_finite() || time_s <= 0.0 {
                return Err(TableError::NotPositive { row, bytes, time_s });
            }
            if row > 0 {
                let (before, before_s) = rows[row - 1];
                if bytes <= before || time_s < before_s {
                    return Err(TableError::NotMonotone { row, bytes, time_s, before, before_s });
                }
            }
        }
        let points = rows.iter().map(|&(bytes, time_s)| ((bytes as f64).ln(), time_s.ln())).collect();
        Ok(MeasuredTable { op, ranks, nodes, points })
    }

    /// Whether it speaks of this op on such groups.
    pub fn covers(&self, op: Op, ranks: u32, nodes: u32) -> bool {
        (self.op, self.ranks, self.nodes) == (op, ranks, nodes)
    }

    /// Time of a size in seconds.
    pub fn time(&self, bytes: u64) -> f64 {
        let x = (bytes.max(1) as f64).ln();
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        if x <= first.0 {
            return first.1.exp();
        }
        if x >= last.0 {
            return (last.1 + x - last.0).exp();
        }
        let after = self.points.partition_point(|p| p.0 <= x);
        let ((x0, y0), (x1, y1)) = (self.points[after - 1], self.points[after]);
        (y0 + (y1 - y0) * (x - x0) / (x1 - x0)).exp()
    }
}
