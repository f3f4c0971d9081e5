//! How a transfer is carried out.

use super::Transfer;
use super::algorithm::Algorithm;
use super::geometry::Geometry;
use crate::core::units::Time;
use crate::step::spec::collectives::Rule;

/// Which algorithm carries out a transfer, and how.
#[derive(Clone, Debug)]
pub struct Choice {
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
    /// The least time on the wire, where the kernel's own channels limit; zero where links alone do.
    pub least: Time,
    /// Expected time in seconds on an idle network.
    pub expected_s: f64,
    /// Who decided.
    pub why: Why,
    /// Whether the time was measured.
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
    /// A rule of the machine's `collectives`, counted from 0.
    Rule(usize),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::BestClosedForm => f.write_str("theory"),
            Why::AskedFor => f.write_str("request"),
            Why::Nccl => f.write_str("NCCL model"),
            Why::Rule(i) => write!(f, "rule {i}"),
        }
    }
}

impl Choice {
    /// The algorithm as theory has it: no protocol, no kernel.
    pub fn theory(
        algorithm: &'static dyn Algorithm,
        t: &Transfer,
        g: &Geometry,
        chunks: Option<u32>,
    ) -> Choice {
        let chunks = chunks.unwrap_or_else(|| algorithm.chunks(t, g)).max(1);
        let expected_s = algorithm.closed_form(t, g, chunks);
        Choice {
            algorithm,
            protocol: "-".into(),
            chunks,
            sms: 0,
            overhead: 1.0,
            base: Time::ZERO,
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

    /// Latency and wire time of the closed form in seconds, without protocol and kernel.
    fn parts_s(&self, t: &Transfer, g: &Geometry) -> (f64, f64) {
        let links_s = self.algorithm.closed_form(&Transfer { bytes: 0, ..*t }, g, self.chunks);
        (links_s, self.algorithm.closed_form(t, g, self.chunks) - links_s)
    }

    /// The same with what a rule says of it.
    pub(super) fn ruled(mut self, rule: &Rule, index: usize, t: &Transfer, g: &Geometry) -> Choice {
        self.why = Why::Rule(index);
        self.protocol = rule.protocol.clone().unwrap_or(self.protocol);
        self.sms = rule.channels.unwrap_or(self.sms);
        self.overhead = rule.efficiency.map_or(self.overhead, |part| 1.0 / part);
        self.base = rule.base_us.map_or(self.base, Time::from_us);
        let (links_s, wire_s) = self.parts_s(t, g);
        self.expected_s = self.base.s() + links_s + wire_s * self.overhead;
        self
    }

    /// The same algorithm, made to last as long as was measured: what does not fit in its latency and wire time comes
    /// first, and what is too long is taken from the wire time.
    pub(super) fn lasting(self, measured_s: f64, t: &Transfer, g: &Geometry) -> Choice {
        let (links_s, wire_s) = self.parts_s(t, g);
        let rest_s = measured_s - links_s - wire_s * self.overhead;
        let overhead = if rest_s >= 0.0 || wire_s <= 0.0 {
            self.overhead
        } else {
            ((measured_s - links_s) / wire_s).max(0.0)
        };
        let expected_s = measured_s.max(links_s);
        Choice { base: Time::from_s(rest_s), overhead, expected_s, measured: true, ..self }
    }
}
