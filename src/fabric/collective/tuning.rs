//! NCCL on NVIDIA machines: which algorithm it picks, and what its kernels cost beyond the closed forms.
//!
//! Both come from `topologies/tuning/nccl.json`. They are two models on purpose:
//!
//! * **Choice** restates NCCL's own cost model (`src/graph/tuning.cc`): latency plus size over an algorithm bandwidth
//!   for each algorithm and protocol; the cheapest wins. It is made for choosing and is off by up to a factor of two as
//!   a prediction. Between nodes a ring or tree wins over its pick that costs less by the second model.
//! * **Cost** is a description of each generation of devices, fitted to measured collectives. A kernel runs by one of
//!   two protocols, the cheaper: *low latency* (LL, LL128: flags travel with the data, so that a step is short and
//!   takes more bytes) or *simple* (a step waits for whole chunks and then runs at the full rate):
//!
//!   `time = base + Σ steps·step + (X/link rate + own/copy rate) / rate`
//!
//! X are the bus bytes (size times the bus factor), *own* is the rank's shard, which the same kernel copies from
//!   input to output or sums without a link, and `rate` is 1 for simple. Between nodes a step has a cost of its own
//!   (of the simple protocol, `trips` ways through the network where that is slower than the one NCCL's figures are
//!   for), and a ramp `ramp·√X` is added: what is left of pipelining with the best number of chunks.
//!
//! A reduction in the switch (NVLS) is bound by its kernels, not by the links: its bus bytes flow at `efficiency` times
//! the link rate on 8 and on 72 devices alike, although the switch spares links nearly half of them.
//!
//! NCCL's trees between nodes (chains in the node, one tree for each channel) are not among the algorithms here: its
//! tree is played as the double binary tree of ranks, whose bytes take one network port of a node and not all, so
//! that rings win from smaller sizes on than with NCCL.
//!
//! Efficiency is relative to the machine's link capacity, which should be payload bandwidth: NCCL sees 20, 20.6 and
//! 40.1 GB/s for each link of Ampere, Hopper and Blackwell, of 25 and 50 on the wire.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use stepsim_core::units::Time;
use stepsim_spec::catalog;

use super::algorithm::Algorithm;
use super::choice::{AlgorithmChoice, Why};
use super::geometry::{DomainWiring, Geometry};
use super::registry::offered;
use super::{Op, Transfer, algorithm};

/// The protocols among LL, LL128 and Simple.
const LL128: usize = 1;
const SIMPLE: usize = 2;

const PATH: &str = "topologies/tuning/nccl.json";

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TuningFile {
    #[serde(rename = "description")]
    _description: String,
    choice: ChoiceModel,
    devices: Vec<DeviceTuning>,
}

/// NCCL's cost model. Lists of three are by protocol (LL, LL128, Simple), or by 1, 2 and more nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChoiceModel {
    #[serde(rename = "source")]
    _source: String,
    protocols: [String; 3],
    base_us: BTreeMap<String, [f64; 3]>,
    scale_up_step_us: BTreeMap<String, [f64; 3]>,
    network_step_us: BTreeMap<String, [f64; 3]>,
    network_overhead_us: f64,
    tree_correction_by_log2_of_bytes_over_64: [Vec<f64>; 3],
    generations: BTreeMap<String, Generation>,
}

/// Constants that differ between generations of GPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generation {
    #[serde(rename = "ll_max_GBps")]
    ll_max: [f64; 3],
    #[serde(rename = "ring_ll128_GBps_per_channel")]
    ring_ll128: [f64; 3],
    #[serde(rename = "tree_ll128_GBps_per_channel")]
    tree_ll128: [f64; 3],
    #[serde(rename = "tree_GBps_per_channel")]
    tree: [f64; 3],
    nvls_efficiency: f64,
}

/// NCCL's behaviour on one kind of device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTuning {
    /// A device is of this kind if its name contains one of these.
    #[serde(rename = "match")]
    names: Vec<String>,
    generation: String,
    /// Channels (thread blocks, hence SMs) of a ring or tree kernel.
    channels: u32,
    nvls_channels: u32,
    nvls_chunks: u32,
    /// NCCL builds no NVLS for smaller groups; 0: never.
    nvls_min_ranks: u32,
    /// Rings and trees.
    ring: AlgorithmCost,
    /// Reduction in the switch.
    #[serde(default)]
    nvls: Option<AlgorithmCost>,
    /// Sends and receives, one by one or to everybody at once; absent: as rings.
    #[serde(default)]
    send: Option<AlgorithmCost>,
    network: NetworkCost,
    /// Where the figures come from.
    pub source: String,
}

/// Cost of an algorithm's kernels beyond its closed form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AlgorithmCost {
    /// Absent where no short message was measured.
    #[serde(default)]
    low_latency: Option<ProtocolCost>,
    simple: ProtocolCost,
    /// Bus bandwidth at `rate` 1 over the link capacity.
    efficiency: f64,
    /// Rate at which the kernel copies or sums the rank's own shard; absent: at no cost.
    #[serde(default, rename = "own_shard_GBps")]
    own_shard: Option<f64>,
    /// Part of a device's links that its rings use, by group size, where links join pairs of devices.
    #[serde(default)]
    port_share_by_ranks: BTreeMap<String, f64>,
}

/// Cost of a kernel by one protocol.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProtocolCost {
    /// Once, in microseconds.
    base_us: f64,
    /// For each step within a node.
    step_us: f64,
    /// Part of the full rate.
    #[serde(default = "full")]
    rate: f64,
}

fn full() -> f64 {
    1.0
}

/// Constants of groups over several nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkCost {
    /// For each step between nodes by the low-latency protocols; absent where none was seen to run between nodes.
    #[serde(default)]
    low_latency_step_us: Option<f64>,
    /// For each step between nodes by the simple one.
    step_us: f64,
    /// One way through the network that both are for; over a slower one a step by a low-latency protocol waits for
    /// one way more of the difference.
    latency_us: f64,
    /// As many ways a step by the simple protocol waits for.
    trips: f64,
    #[serde(rename = "ramp_us_per_sqrt_MB")]
    ramp: f64,
    efficiency: f64,
}

/// The shipped file; `None` where none was handed in.
fn file() -> Option<&'static TuningFile> {
    static FILE: OnceLock<Option<TuningFile>> = OnceLock::new();
    let read = |text| stepsim_located::shipped(text).unwrap_or_else(|e| panic!("{PATH}: {e}"));
    FILE.get_or_init(|| catalog::file(PATH).map(read)).as_ref()
}

/// NCCL's own model, for a device that the file has.
fn model() -> &'static ChoiceModel {
    &file().expect("a device's tuning is of this file").choice
}

impl DeviceTuning {
    /// For a device by its name; `None` if nothing is known of it.
    pub fn of(device: &str) -> Option<&'static DeviceTuning> {
        file()?.devices.iter().find(|d| d.names.iter().any(|name| device.contains(name.as_str())))
    }

    /// One way through the network that its steps between nodes were measured over: shorter ones make none shorter.
    pub fn network_way(&self) -> Time {
        Time::from_s(self.network.latency_us * 1e-6)
    }

    /// Compute units that a communication kernel of a ring or tree takes while it runs: one a channel.
    pub fn kernel_units(&self) -> u32 {
        self.channels
    }

    /// NCCL's choice. Between nodes its model, which was made for another network, gives way to a ring or a tree that
    /// is cheaper by the costs here. Ops that its model does not cover, and groups that its algorithms cannot run, get
    /// the algorithm with the best closed form.
    pub fn choose(&self, t: &Transfer, g: &Geometry) -> Option<AlgorithmChoice> {
        let options = self.options(t, g);
        let price = |algorithm: &'static dyn Algorithm| self.price(algorithm, None, t, g, None);
        let Some(best) = options.iter().min_by(|a, b| a.time_us.total_cmp(&b.time_us)) else {
            return Some(AlgorithmChoice { why: Why::BestClosedForm, ..price(fastest(t, g)?) });
        };
        let best = AlgorithmChoice { why: Why::Nccl, ..price(best.algorithm) };
        if g.nodes <= 1 {
            return Some(best);
        }
        let others =
            options.iter().map(|option| option.algorithm).filter(|a| ["ring", "tree"].contains(&a.name()));
        let priced = others.map(|a| AlgorithmChoice { why: Why::Price, ..price(a) });
        // The choice of NCCL's model wins among equals.
        let cheapest = std::iter::once(best).chain(priced);
        cheapest.min_by(|a, b| a.expected_s.total_cmp(&b.expected_s))
    }

    /// A given algorithm with its cost on this device, by a given protocol or the cheaper one.
    pub fn price(
        &self,
        a: &'static dyn Algorithm,
        protocol: Option<&str>,
        t: &Transfer,
        g: &Geometry,
        chunks: Option<u32>,
    ) -> AlgorithmChoice {
        let asked = protocol.and_then(DeviceTuning::protocol);
        let cost = self.cost_of(a.name(), t.op);
        let between = g.nodes <= 1 || self.network.low_latency_step_us.is_some();
        let low = cost.low_latency.as_ref().filter(|_| asked != Some(SIMPLE) && between);
        let simple = Some(&cost.simple).filter(|_| low.is_none() || asked.is_none());
        let by = |kernel: &ProtocolCost, protocol: usize| AlgorithmChoice {
            protocol: DeviceTuning::protocols()[protocol].clone(),
            ..self.by_kernel(a, kernel, t, g, chunks)
        };
        let low = low.map(|kernel| by(kernel, asked.unwrap_or(LL128)));
        let simple = simple.map(|kernel| by(kernel, SIMPLE));
        let both = low.into_iter().chain(simple);
        both.min_by(|a, b| a.expected_s.total_cmp(&b.expected_s)).expect("one of the two protocols is left")
    }

    /// Names of the protocols.
    pub fn protocols() -> &'static [String] {
        &model().protocols
    }
    /// Number of a protocol.
    pub fn protocol(name: &str) -> Option<usize> {
        DeviceTuning::protocols().iter().position(|p| p == name)
    }

    /// The cost of an algorithm's kernels.
    fn cost_of(&self, algorithm: &str, op: Op) -> &AlgorithmCost {
        let own = match (algorithm, op) {
            ("nvls", _) => &self.nvls,
            (_, Op::SendRecv | Op::RingShift | Op::AllToAll) => &self.send,
            _ => &None,
        };
        own.as_ref().unwrap_or(&self.ring)
    }

    fn by_kernel(
        &self,
        a: &'static dyn Algorithm,
        kernel: &ProtocolCost,
        t: &Transfer,
        g: &Geometry,
        chunks: Option<u32>,
    ) -> AlgorithmChoice {
        let in_switch = a.name() == "nvls";
        let cost = self.cost_of(a.name(), t.op);
        let plain = AlgorithmChoice::theory(a, t, g, chunks.or(in_switch.then_some(self.nvls_chunks)));
        let links_s = plain.links_s(t, g);
        let plain_s = a.closed_form(t, &g.instant(), plain.chunks);
        let bus_bytes = t.bytes as f64 * t.op.bus_factor(g.size);
        let share = cost.port_share_by_ranks.get(&g.size.to_string()).copied().unwrap_or(1.0);
        let (inside, between) = steps(t.op, a.name(), g);
        let (ramp, step, efficiency) = match g.nodes {
            0 | 1 => (0.0, 0.0, cost.efficiency * share),
            _ => (self.network.ramp, self.network.step_us(kernel, g), self.network.efficiency),
        };
        let full_s = if in_switch {
            (bus_bytes / (g.intra.bandwidth() * efficiency)).max(plain_s)
        } else {
            plain_s / efficiency
        };
        let wire_s = full_s / kernel.rate;
        let own_s = match (t.op, cost.own_shard) {
            (Op::SendRecv | Op::RingShift, _) | (_, None) => 0.0,
            (_, Some(rate)) => t.bytes as f64 / f64::from(g.size.max(1)) / (rate * 1e9) / kernel.rate,
        };
        // In a ring over several nodes the steps inside hide behind the slower ones between: what is left is their
        // flags.
        let inside_us = match &cost.low_latency {
            Some(low) if g.nodes > 1 && a.name() != "tree" => low.step_us,
            _ => kernel.step_us,
        };
        let kernel_us = kernel.base_us + inside * inside_us + between * step;
        let ramp_us = ramp * (bus_bytes / 1e6).sqrt();
        // Steps include their links' latency, but not the way to another site; only what links lack is added.
        let far_s = links_s - plain.links_s(t, &g.on_one_site());
        let total_s = (kernel_us * 1e-6 + far_s).max(links_s) + ramp_us * 1e-6 + own_s + wire_s;
        let sms = if in_switch { self.nvls_channels } else { self.channels };
        let overhead = if plain_s > 0.0 { wire_s / plain_s } else { 1.0 };
        AlgorithmChoice { sms, overhead, ..plain }.stretched(total_s, t, g)
    }

    /// NCCL's estimate for each algorithm and protocol that could run.
    fn options(&self, t: &Transfer, g: &Geometry) -> Vec<TunerEstimate> {
        let reduces = matches!(t.op, Op::AllReduce | Op::AllGather | Op::ReduceScatter);
        if !reduces || g.per_node == 0 {
            return Vec::new();
        }
        let mut all = Vec::new();
        for protocol in 0..3 {
            all.extend(self.ring_estimate(t, g, protocol));
            all.extend(self.tree_estimate(t, g, protocol));
        }
        all.extend(self.nvls_estimate(t, g));
        all.extend(self.pat_estimate(t, g));
        all.retain(|e| e.algorithm.supports(t.op, g).is_ok());
        all
    }

    fn generation(&self) -> &'static Generation {
        model().generations.get(&self.generation).expect("the tuning file names its generations")
    }

    fn ring_estimate(&self, t: &Transfer, g: &Geometry, protocol: usize) -> Option<TunerEstimate> {
        let (model, of) = (model(), self.generation());
        let at = node_index(g);
        let bus = bus_rate(g);
        let bus = match protocol {
            0 => of.ll_max[at].min(bus * 0.5),
            1 => (bus * 0.92).min(f64::from(self.channels) * of.ring_ll128[at]),
            _ => bus,
        };
        let (inside, between) = steps(t.op, "ring", g);
        let overhead = if g.nodes > 1 { model.network_overhead_us * [1.0, 1.0, 3.0][protocol] } else { 0.0 };
        let mut latency = model.base_us["ring"][protocol]
            + inside * model.scale_up_step_us["ring"][protocol].max(overhead)
            + between * model.network_step_us["ring"][protocol];
        let per_channel = t.bytes / u64::from(self.channels * g.size);
        if protocol == 2 && t.op == Op::AllReduce && g.nodes > 1 && per_channel >= 64 {
            latency *= if self.generation == "volta" { 1.9 } else { 1.4 };
        }
        let rate = bus * f64::from(g.size) / (inside + between);
        TunerEstimate::new("ring", latency, t, rate)
    }

    fn tree_estimate(&self, t: &Transfer, g: &Geometry, protocol: usize) -> Option<TunerEstimate> {
        let (model, of) = (model(), self.generation());
        let (at, channels) = (node_index(g), f64::from(self.channels));
        let bus = (bus_rate(g) * 0.92).min(channels * of.tree[at]);
        let bus = match protocol {
            0 => (bus / 3.8).min(of.ll_max[at]),
            1 => {
                (bus * if g.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 }).min(channels * of.tree_ll128[at])
            }
            _ => bus,
        };
        let correction = &model.tree_correction_by_log2_of_bytes_over_64[protocol];
        let bin = (t.bytes >> 6).max(1).ilog2() as usize;
        let factor = correction[bin.min(correction.len() - 1)];
        let inside = f64::from(g.per_node - 1) * model.scale_up_step_us["tree"][protocol];
        let between = f64::from(g.nodes).log2() * model.network_step_us["tree"][protocol];
        let latency = model.base_us["tree"][protocol] + 2.0 * (inside + between);
        TunerEstimate::new("tree", latency, t, bus * 0.5 * factor)
    }

    fn nvls_estimate(&self, t: &Transfer, g: &Geometry) -> Option<TunerEstimate> {
        let reduces = g.fabric == DomainWiring::Switch { reduces: true };
        // Gathers and scatters through the switch want registered buffers, which training does not give NCCL.
        let usual = t.op == Op::AllReduce && g.nodes <= 1 && g.size >= self.nvls_min_ranks;
        if self.nvls.is_none() || !reduces || !usual {
            return None;
        }
        let channels = f64::from(self.nvls_channels);
        let rate = bus_rate(g) * self.generation().nvls_efficiency * (channels - 1.0) / channels;
        let (inside, between) = steps(t.op, "ring", g);
        let latency = model().scale_up_step_us["nvls"][2];
        TunerEstimate::new("nvls", latency, t, 2.0 * rate * f64::from(g.size) / (inside + between))
    }

    fn pat_estimate(&self, t: &Transfer, g: &Geometry) -> Option<TunerEstimate> {
        let model = model();
        if g.per_node != 1 || g.nodes < 2 || t.op == Op::AllReduce {
            return None;
        }
        let hops = f64::from(g.nodes).log2() * model.network_step_us["pat"][2] / 3.5;
        let latency = model.base_us["pat"][2] + hops + 2.8 * f64::from(g.size);
        let rate = bus_rate(g) * 0.75 * f64::from(g.size) / f64::from(g.size - 1);
        TunerEstimate::new("pat", latency, t, rate)
    }
}

impl NetworkCost {
    /// A step between nodes.
    fn step_us(&self, kernel: &ProtocolCost, g: &Geometry) -> f64 {
        let slower_us = (g.near().latency.us() - self.latency_us).max(0.0);
        match self.low_latency_step_us {
            Some(step_us) if kernel.rate < 1.0 => step_us + slower_us,
            _ => self.step_us + self.trips * slower_us,
        }
    }
}

/// The estimate of NCCL's model for one way to do a transfer, by its best protocol or a given one.
struct TunerEstimate {
    algorithm: &'static dyn Algorithm,
    time_us: f64,
}

impl TunerEstimate {
    fn new(name: &str, latency_us: f64, t: &Transfer, gbps: f64) -> Option<TunerEstimate> {
        let time_us = latency_us + t.bytes as f64 / (1000.0 * gbps);
        algorithm(name).map(|algorithm| TunerEstimate { algorithm, time_us })
    }
}

/// The algorithm of the best closed form.
fn fastest(t: &Transfer, g: &Geometry) -> Option<&'static dyn Algorithm> {
    let time = |a: &&dyn Algorithm| a.closed_form(t, g, a.chunks(t, g));
    offered(t.op, g).filter(|a| a.name() != "nvls").min_by(|a, b| time(a).total_cmp(&time(b)))
}

/// Steps within and between nodes that follow one another.
fn steps(op: Op, name: &str, g: &Geometry) -> (f64, f64) {
    let (n, nodes, inside) = (f64::from(g.size), f64::from(g.nodes), f64::from(g.per_node.max(1)));
    let twice = if op == Op::AllReduce { 2.0 } else { 1.0 };
    let hops = f64::from(g.nodes.max(1)).log2().ceil();
    match (op, name) {
        // The switch waits for every device that takes part.
        (_, "nvls") => (n - 1.0, 0.0),
        (Op::SendRecv | Op::RingShift | Op::AllToAll, _) | (_, "direct") => {
            if g.nodes > 1 {
                (0.0, 1.0)
            } else {
                (1.0, 0.0)
            }
        }
        (_, "two-shot") if g.nodes > 1 => (0.0, 2.0),
        (_, "two-shot") => (2.0, 0.0),
        (_, "ring") => {
            let between = twice * (nodes - 1.0);
            (twice * (n - 1.0) - between, between)
        }
        (_, "hierarchical") => (twice * (inside - 1.0), twice * (nodes - 1.0)),
        (_, "tree") => (2.0 * (inside - 1.0), 2.0 * hops),
        _ => (twice * f64::from(g.log2_ceil()) - twice * hops, twice * hops),
    }
}

/// Bus bandwidth of a ring on this geometry in GB/s, as NCCL's graph search would find it.
fn bus_rate(g: &Geometry) -> f64 {
    let rate = if g.nodes > 1 {
        let network = g.egress();
        if g.per_node == 1 { network } else { network.min(g.intra.bandwidth()) }
    } else {
        g.intra.bandwidth()
    };
    rate / 1e9
}

/// NCCL's index by number of nodes: 1, 2, more.
fn node_index(g: &Geometry) -> usize {
    (g.nodes.clamp(1, 3) - 1) as usize
}
