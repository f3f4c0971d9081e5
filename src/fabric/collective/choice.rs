//! How a transfer is carried out.

use super::Transfer;
use super::algorithm::Algorithm;
use super::geometry::Geometry;
use stepsim_core::units::Time;
use stepsim_spec::collectives::Rule;

/// The algorithm that carries out a transfer, and its settings.
#[derive(Clone, Debug)]
pub struct AlgorithmChoice {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// Name of the wire protocol (`LL`, `LL128`, `Simple`), or `-` where protocols are not told apart.
    pub protocol: String,
    /// Pipeline chunks.
    pub chunks: u32,
    /// Compute units (SMs) that the communication kernel occupies on each device while it runs.
    pub sms: u32,
    /// Wire bytes for each byte of payload.
    pub overhead: f64,
    /// Paid once, when the kernel starts.
    pub base: Time,
    /// The part of the links' latency that is paid: 1, unless a measured time leaves room for less.
    pub latency: f64,
    /// The least time on the wire, where the kernel's own channels limit; zero where links alone do.
    pub least: Time,
    /// Expected time in seconds on an idle network.
    pub expected_s: f64,
    /// Who decided.
    pub why: Why,
    /// True if the time was measured.
    pub measured: bool,
}

/// Who decided on an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// The best closed form among the algorithms that can run.
    #[default]
    BestClosedForm,
    /// It was asked for.
    AskedFor,
    /// NCCL's cost model.
    Nccl,
    /// The least cost here, where NCCL's model would have another.
    Price,
    /// A rule of the machine's `collectives`, counted from 0.
    Rule(usize),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::BestClosedForm => f.write_str("theory"),
            Why::AskedFor => f.write_str("request"),
            Why::Nccl => f.write_str("NCCL model"),
            Why::Price => f.write_str("price"),
            Why::Rule(i) => write!(f, "rule {i}"),
        }
    }
}

impl AlgorithmChoice {
    /// The algorithm as theory has it: no protocol, no kernel.
    pub fn theory(
        algorithm: &'static dyn Algorithm,
        t: &Transfer,
        g: &Geometry,
        chunks: Option<u32>,
    ) -> AlgorithmChoice {
        let chunks = chunks.unwrap_or_else(|| algorithm.chunks(t, g)).max(1);
        let expected_s = algorithm.closed_form(t, g, chunks);
        AlgorithmChoice {
            algorithm,
            protocol: "-".into(),
            chunks,
            sms: 0,
            overhead: 1.0,
            base: Time::ZERO,
            latency: 1.0,
            least: Time::ZERO,
            expected_s,
            why: Why::default(),
            measured: false,
        }
    }

    /// Who decided on the algorithm, and whether its time was measured, in a few words.
    pub fn reason(&self) -> String {
        format!("{}{}", self.why, if self.measured { ", measured" } else { "" })
    }

    /// Seconds of the closed form on links that carry `overhead` bytes for each byte of payload.
    pub(super) fn played_s(&self, overhead: f64, t: &Transfer, g: &Geometry) -> f64 {
        self.algorithm.closed_form(t, &g.laden(overhead), self.chunks)
    }
    /// Seconds of the closed form for no bytes.
    pub(super) fn links_s(&self, t: &Transfer, g: &Geometry) -> f64 {
        self.algorithm.closed_form(&Transfer { bytes: 0, ..*t }, g, self.chunks)
    }
    /// The same lasting `total_s`, if it would not take longer anyway: what it does not take by itself comes first.
    pub(super) fn stretched(self, total_s: f64, t: &Transfer, g: &Geometry) -> AlgorithmChoice {
        let played_s = self.played_s(self.overhead, t, g);
        let base_s = (total_s - played_s).max(0.0);
        AlgorithmChoice { base: Time::from_s(base_s), expected_s: base_s + played_s, ..self }
    }

    /// The same with what a rule says of it.
    pub(super) fn ruled(mut self, rule: &Rule, index: usize, t: &Transfer, g: &Geometry) -> AlgorithmChoice {
        self.why = Why::Rule(index);
        self.protocol = rule.protocol.clone().unwrap_or(self.protocol);
        self.sms = rule.channels.unwrap_or(self.sms);
        self.overhead = rule.efficiency.map_or(self.overhead, |part| 1.0 / part);
        self.base = rule.base_us.map_or(self.base, Time::from_us);
        self.expected_s = self.base.s() + self.played_s(self.overhead, t, g);
        self
    }

    /// The same algorithm, made to last as long as was measured: what it does not take by itself comes first, what is
    /// too long is taken from its bytes, and if latencies alone are, from these.
    pub(super) fn lasting(self, measured_s: f64, t: &Transfer, g: &Geometry) -> AlgorithmChoice {
        let links_s = self.links_s(t, g);
        let (mut latency, mut overhead) = (1.0, self.overhead);
        if links_s >= measured_s {
            (latency, overhead) = (measured_s / links_s, 0.0);
        } else if self.played_s(overhead, t, g) > measured_s {
            overhead = halved(0.0, overhead, |overhead| self.played_s(overhead, t, g) > measured_s);
        }
        let base_s = if overhead > 0.0 { (measured_s - self.played_s(overhead, t, g)).max(0.0) } else { 0.0 };
        let base = Time::from_s(base_s);
        AlgorithmChoice { base, latency, overhead, expected_s: measured_s, measured: true, ..self }
    }
}

/// The largest value between two that is not too much, to the last bit but a few.
fn halved(mut low: f64, mut high: f64, too_much: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        *(if too_much(middle) { &mut high } else { &mut low }) = middle;
    }
    low
}
