//! Elementary costs: how long an engine, a memory tier and a network take (restatement §2.1).

use stepsim_bring::calculon::{Calculon, EfficiencyTable, NetworkTier, ProcessingMode};

/// A peak rate with an efficiency that depends on the size of the operation: T(S) = S / (peak · eff(S)).
#[derive(Clone, Copy, Debug)]
pub struct EfficientRate<'a> {
    peak: f64,
    table: &'a [(f64, f64)],
    unit: f64,
}

impl<'a> EfficientRate<'a> {
    fn new(peak: f64, table: &'a EfficiencyTable, unit: f64) -> EfficientRate<'a> {
        EfficientRate { peak, table, unit }
    }
    /// Units per second at efficiency 1.
    pub fn peak(&self) -> f64 {
        self.peak
    }
    /// Seconds for an operation of `size` FLOP or bytes; a size of zero takes none.
    pub fn time(&self, size: f64) -> f64 {
        if size == 0.0 {
            return 0.0;
        }
        let row = self.table.iter().find(|row| size >= row.0 * self.unit);
        size / (self.peak * row.map_or(1.0, |row| row.1))
    }
}

/// The operations that a network tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetOp {
    /// One sender, one receiver.
    P2p,
    /// Sum over the group, each member keeps a share.
    ReduceScatter,
    /// Every member gets every share.
    AllGather,
    /// Sum over the group, every member gets all of it.
    AllReduce,
}

impl NetOp {
    /// True if members add up the data that they receive.
    pub fn reduces(self) -> bool {
        matches!(self, NetOp::ReduceScatter | NetOp::AllReduce)
    }
}

/// Traffic factor of an operation: (scalar, offset).
pub fn factor(net: &NetworkTier, op: NetOp) -> (f64, f64) {
    let (scalar, offset) = match op {
        NetOp::P2p => net.ops.p2p,
        NetOp::ReduceScatter => net.ops.reduce_scatter,
        NetOp::AllGather => net.ops.all_gather,
        NetOp::AllReduce => net.ops.all_reduce,
    };
    (scalar, offset.unwrap_or(0.0))
}

/// T_net = latency + S · scalar · (1 + offset / k) / (bandwidth · efficiency), in seconds, for a message of `bytes`
/// in a group of `k`. The latency is paid once, whatever the group, and even for no bytes.
pub fn net_time(net: &NetworkTier, op: NetOp, bytes: f64, k: u64) -> f64 {
    let (scalar, offset) = factor(net, op);
    net.latency + bytes * scalar * (1.0 + offset / k as f64) / (net.bandwidth * 1e9 * net.efficiency)
}

/// Everything that turns FLOPs and bytes of one processor into seconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a> {
    /// Matrix engine, FLOP.
    pub matrix: EfficientRate<'a>,
    /// Vector engine, FLOP.
    pub vector: EfficientRate<'a>,
    /// HBM, bytes.
    pub memory: EfficientRate<'a>,
    /// Offload link, bytes.
    pub offload: EfficientRate<'a>,
    /// Networks of tensor, pipeline and data parallelism.
    pub nets: [&'a NetworkTier; 3],
    mode: ProcessingMode,
}

impl<'a> Costs<'a> {
    /// The costs of the machine that `case` describes, in its number format.
    pub fn new(case: &'a Calculon) -> Costs<'a> {
        let sys = &case.sys;
        let (matrix, vector) = case.engines();
        Costs {
            matrix: EfficientRate::new(matrix.tflops * 1e12, &matrix.gflops_efficiency, 1e9),
            vector: EfficientRate::new(vector.tflops * 1e12, &vector.gflops_efficiency, 1e9),
            memory: EfficientRate::new(sys.mem1.bandwidth_gbps * 1e9, &sys.mem1.mb_efficiency, 1e6),
            offload: EfficientRate::new(sys.mem2.bandwidth_gbps * 1e9, &sys.mem2.mb_efficiency, 1e6),
            nets: case.networks(),
            mode: sys.processing_mode,
        }
    }
    /// Compute and memory time of one layer and stage together: their maximum (roofline) or their sum.
    pub fn combine(&self, compute: f64, memory: f64) -> f64 {
        if self.roofline() { compute.max(memory) } else { compute + memory }
    }
    /// True if memory time hides behind compute time.
    pub fn roofline(&self) -> bool {
        self.mode == ProcessingMode::Roofline
    }
}
