//! How a machine carries out collectives, where its owner knows better than the built-in choice. Files:
//! `topologies/collectives/*.json`, named by `collectives` of a machine file, or written there in place.
//!
//! **Rules** say which algorithm runs, and by which protocol, on how many channels: the first that fits a collective
//! counts. **Measured** times say how long it takes: they hold for groups of exactly their size, and the algorithm
//! says over which links the time is spent. A transfer that neither covers is chosen as without a table, and
//! takes `slowness` times as long.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;
use super::{Kind, Spec, SpecError};
use stepsim_core::declare::named;
use stepsim_core::declare::one;
use stepsim_core::units::Time;

/// Rules and measured times of collectives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collectives {
    /// Its description, one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The rules for algorithms; the first that fits counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// How long collectives were measured to take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<OpTimes>,
    /// Time of collectives of a kind over what is said without this, where no measured time holds, as it was measured
    /// (`stepsim learn`); default 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slowness: BTreeMap<Op, f64>,
}

named! {
    /// An operation of a group of ranks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Op {
        /// Every rank ends with the sum of all buffers.
        AllReduce = "all-reduce",
        /// Every rank ends with the shards of all.
        AllGather = "all-gather",
        /// Every rank ends with its shard of the sum.
        ReduceScatter = "reduce-scatter",
        /// Every rank sends a different shard to every other.
        AllToAll = "all-to-all",
        /// The first member's buffer reaches the second.
        SendRecv = "send-recv",
        /// Every rank's buffer reaches the next rank of the group.
        RingShift = "ring-shift",
        /// Rows of tokens to the ranks of their experts, or back: to the rails of other nodes, and on inside the node.
        ExpertExchange = "expert-exchange",
    }
}

impl Op {
    /// The op of a name as [`Op::name`] spells it.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }
    /// Bus bandwidth over algorithm bandwidth for `n` ranks (nccl-tests `doc/PERFORMANCE.md`): the factor that makes
    /// a ring's bus bandwidth equal to the rate of its links.
    pub fn bus_factor(self, n: u32) -> f64 {
        let n = f64::from(n);
        match self {
            Op::AllReduce => 2.0 * (n - 1.0) / n,
            Op::AllGather | Op::ReduceScatter | Op::AllToAll => (n - 1.0) / n,
            Op::SendRecv | Op::RingShift | Op::ExpertExchange => 1.0,
        }
    }
}

/// The second stage of an expert exchange, and its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecondStage {
    /// Bytes that one rank sends inside its node.
    pub inside: u64,
    /// Paid before the first row moves: launch, handshake.
    pub start: Time,
    /// The least time in which the kernel's own channels handle the rows.
    pub least: Time,
    /// Thousandths of a network port's rate that the kernel reaches.
    pub network_share: u32,
    /// Compute units that it holds.
    pub units: u32,
}

/// An algorithm for some collectives. A bound that is left out does not bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The operation; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    /// Smallest group.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub min_ranks: Option<u32>,
    /// Largest group.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub max_ranks: Option<u32>,
    /// Fewest nodes that the group spans.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<u32>,
    /// Most nodes that the group spans.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Smallest size: one rank's buffer, for all-gather and reduce-scatter the full one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// Largest size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The algorithm, as `--algorithm` of `stepsim collective` names it. On groups that it cannot run, the rule is
    /// passed over.
    pub algorithm: String,
    /// The wire protocol: `LL`, `LL128` or `Simple` on devices that NCCL's tuning is known of, a mere label elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Channels: compute units that the communication kernel takes from each device while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_count_or_zero")]
    pub channels: Option<u32>,
    /// Pipeline chunks; absent: the best number.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Part of the links' bandwidth that payload reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_efficiency")]
    pub efficiency: Option<f64>,
    /// Paid once, before anything is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_non_negative")]
    pub base_us: Option<f64>,
}

/// Times of one op on groups of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpTimes {
    /// The operation.
    pub op: Op,
    /// On how many ranks.
    #[serde(deserialize_with = "number::count")]
    pub ranks: u32,
    /// On how many nodes.
    #[serde(default = "one", deserialize_with = "number::count")]
    pub nodes: u32,
    /// Where the figures come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// At least two points, sizes growing, times not falling. Between them, log time is linear in log size; below the
    /// first its time holds, above the last its bandwidth.
    pub points: Vec<Point>,
}

/// One measured size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// One rank's buffer; for all-gather and reduce-scatter the full one.
    #[serde(deserialize_with = "number::positive")]
    pub bytes: f64,
    /// How long it took.
    #[serde(deserialize_with = "number::positive")]
    pub time_us: f64,
}

impl Spec for Collectives {
    const KIND: Kind = Kind::Collectives;

    fn validate(&self) -> Result<(), SpecError> {
        for (i, rule) in self.rules.iter().enumerate() {
            rule.validate().map_err(|e| e.under(&format!("rules[{i}]")))?;
        }
        for (op, slowness) in &self.slowness {
            if !(1e-3..=1e3).contains(slowness) {
                let at = format!(
                    "slowness.{}",
                    stepsim_located::to_value(op).unwrap_or_default().as_str().unwrap_or("")
                );
                return Err(SpecError::at(at, slowness.to_string()).allowed("0.001 to 1000"));
            }
        }
        for (i, table) in self.measured.iter().enumerate() {
            table.validate().map_err(|e| e.under(&format!("measured[{i}]")))?;
            let same = |other: &&OpTimes| {
                (other.op, other.ranks, other.nodes) == (table.op, table.ranks, table.nodes)
            };
            if let Some(first) = self.measured[..i].iter().position(|other| same(&other)) {
                let problem = format!("the same op, ranks and nodes as measured[{first}]");
                return Err(SpecError::at(format!("measured[{i}]"), problem)
                    .hint("put their points into one table: average what was measured twice"));
            }
        }
        Ok(())
    }
}

impl Rule {
    fn validate(&self) -> Result<(), SpecError> {
        let bounds = [
            ("ranks", self.min_ranks.map(u64::from), self.max_ranks.map(u64::from)),
            ("nodes", self.min_nodes.map(u64::from), self.max_nodes.map(u64::from)),
            ("bytes", self.min_bytes, self.max_bytes),
        ];
        for (what, min, max) in bounds {
            if let (Some(min), Some(max)) = (min, max)
                && min > max
            {
                let problem = format!("{max} is below min_{what}, which is {min}");
                return Err(SpecError::at(format!("max_{what}"), problem).allowed(format!("at least {min}")));
            }
        }
        Ok(())
    }
}

impl OpTimes {
    fn validate(&self) -> Result<(), SpecError> {
        if self.points.len() < 2 {
            let problem =
                format!("{} point(s), between which nothing can be interpolated", self.points.len());
            return Err(SpecError::at("points", problem).allowed("at least two"));
        }
        for (i, pair) in self.points.windows(2).enumerate() {
            let (a, b) = (pair[0], pair[1]);
            if b.bytes <= a.bytes || b.time_us < a.time_us {
                let problem = format!(
                    "{} bytes in {} us after {} bytes in {} us",
                    b.bytes, b.time_us, a.bytes, a.time_us
                );
                return Err(SpecError::at(format!("points[{}]", i + 1), problem)
                    .allowed("sizes that grow and times that do not fall")
                    .hint("sort by size, and average what was measured repeatedly"));
            }
        }
        Ok(())
    }
}
