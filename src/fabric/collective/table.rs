//! Measured collectives: time by size, between which one interpolates.
//!
//! Between two sizes, log time is linear in log size. Below the first size the first time holds (latency); above the
//! last, time grows in proportion to size (bandwidth).

use super::Op;
use stepsim_spec::collectives::OpTimes;

/// Times of one op on groups of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredTable {
    op: Op,
    ranks: u32,
    nodes: u32,
    /// ln(bytes), ln(seconds), growing; at least two.
    points: Vec<(f64, f64)>,
}

impl MeasuredTable {
    /// From a file's table, which is validated as it is read.
    pub fn new(table: &OpTimes) -> MeasuredTable {
        let points = table.points.iter().map(|p| (p.bytes.ln(), (p.time_us * 1e-6).ln())).collect();
        MeasuredTable { op: table.op, ranks: table.ranks, nodes: table.nodes, points }
    }

    /// True if it covers this op on such groups.
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
