//! The choice of the algorithm that carries out a transfer.
//!
//! The first that knows an answer decides: an algorithm that was asked for, or one of the caller's own; the rules of
//! the machine's `collectives`; NCCL's model where it knows the device; the best closed form among the algorithms
//! that the group can run. Times of the caller's own ([`OwnTimes`]), or measured times of the machine's `collectives`
//! then set how long the chosen algorithm takes, or its `slowness` how many times as long.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::algorithm::Algorithm;
use super::choice::{AlgorithmChoice, Why};
use super::geometry::Geometry;
use super::registry::{ALGORITHMS, algorithm, offered};
use super::sites::ThreeLevel;
use super::table::MeasuredTable;
use super::tuning::DeviceTuning;
use super::unsupported::UnsupportedAlgorithm;
use super::{Op, Transfer};
use stepsim_core::units::Time;
use stepsim_spec::SpecError;
use stepsim_spec::collectives::{Collectives, Rule};

/// Times of the caller, preferred to the machine's.
pub trait OwnTimes: std::fmt::Debug + Send + Sync {
    /// How long a transfer takes on a group with the machine to itself; nothing: what the machine says. Plans ask
    /// again for the same transfer, so the answer must not change.
    fn time(&self, transfer: &Transfer, group: &Geometry) -> Option<Time>;
}

/// Picks algorithms. See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Chooser {
    /// An algorithm for everything but send/recv, and its pipeline chunks.
    pub always: Option<(&'static dyn Algorithm, Option<u32>)>,
    /// NCCL's choices, and the costs of its kernels, on the machine's devices.
    pub tuning: Option<&'static DeviceTuning>,
    /// Algorithms of the caller's own, which carry out all that they support.
    own_algorithms: Vec<&'static dyn Algorithm>,
    rules: Vec<(&'static dyn Algorithm, Rule)>,
    measured: Vec<MeasuredTable>,
    slowness: BTreeMap<Op, f64>,
    own: Option<Arc<dyn OwnTimes>>,
}

impl Chooser {
    /// The same with what another has of the caller's own.
    #[must_use]
    pub fn with_own_of(self, other: &Chooser) -> Chooser {
        Chooser { own_algorithms: other.own_algorithms.clone(), own: other.own.clone(), ..self }
    }
    /// The best closed form among the algorithms that the group can run; costs as theory has them.
    pub fn best() -> Chooser {
        Chooser::default()
    }
    /// One algorithm for everything but send/recv; costs as theory has them.
    pub fn always(algorithm: &'static dyn Algorithm, chunks: Option<u32>) -> Chooser {
        Chooser { always: Some((algorithm, chunks)), ..Chooser::default() }
    }
    /// As NCCL does where it knows the device, else [`Chooser::best`].
    pub fn for_device(name: &str) -> Chooser {
        Chooser { tuning: DeviceTuning::of(name), ..Chooser::default() }
    }
    /// The chooser of a machine, from the name of its device and its own rules and measured times, if any.
    ///
    /// # Errors
    /// A rule names an algorithm that is none, or a protocol that the device's tuning does not know.
    pub fn of_machine(device: &str, own: Option<&Collectives>) -> Result<Chooser, SpecError> {
        let mut chooser = Chooser::for_device(device);
        let Some(own) = own else { return Ok(chooser) };
        for (i, rule) in own.rules.iter().enumerate() {
            let at = |field: &str, problem: String| {
                SpecError::at(format!("collectives.rules[{i}].{field}"), problem)
            };
            let Some(algorithm) = algorithm(&rule.algorithm) else {
                let known: Vec<&str> = ALGORITHMS.iter().map(|a| a.name()).collect();
                return Err(at("algorithm", format!("\"{}\" is no algorithm", rule.algorithm))
                    .allowed(known.join(", ")));
            };
            if let (Some(protocol), Some(_)) = (&rule.protocol, chooser.tuning)
                && DeviceTuning::protocol(protocol).is_none()
            {
                return Err(at("protocol", format!("\"{protocol}\" is no protocol of NCCL"))
                    .allowed(DeviceTuning::protocols().join(", ")));
            }
            chooser.rules.push((algorithm, rule.clone()));
        }
        chooser.measured = own.measured.iter().map(MeasuredTable::new).collect();
        chooser.slowness.clone_from(&own.slowness);
        Ok(chooser)
    }

    /// The same with times of the caller's own.
    #[must_use]
    pub fn timed_by(self, own: Arc<dyn OwnTimes>) -> Chooser {
        Chooser { own: Some(own), ..self }
    }

    /// The same with an algorithm of the caller's own, which carries out all that it supports.
    #[must_use]
    pub fn carried_by(mut self, own: &'static dyn Algorithm) -> Chooser {
        self.own_algorithms.push(own);
        self
    }

    /// Compute units that communication kernels usually take here: a ring's by the device's tuning, else the most of
    /// any rule; 0 if nothing is known.
    pub fn kernel_units(&self) -> u32 {
        let of_rules = || self.rules.iter().filter_map(|(_, rule)| rule.channels).max().unwrap_or(0);
        self.tuning.map_or_else(of_rules, DeviceTuning::kernel_units)
    }

    /// Chooses for one transfer on one geometry.
    ///
    /// # Errors
    /// [`UnsupportedAlgorithm`] if the algorithm asked for, or every algorithm, cannot run there.
    pub fn choose(&self, t: &Transfer, g: &Geometry) -> Result<AlgorithmChoice, UnsupportedAlgorithm> {
        let choice = self.algorithm(t, g)?;
        if let Some(time) = self.own.as_ref().and_then(|own| own.time(t, g)) {
            return Ok(choice.lasting(time.s(), t, g));
        }
        Ok(match self.measured.iter().find(|table| table.covers(t.op, g.size, g.nodes)) {
            Some(table) => choice.lasting(table.time(t.bytes), t, g),
            None => match self.slowness.get(&t.op).map(|slowness| slowness * choice.expected_s) {
                Some(seconds) => choice.lasting(seconds, t, g),
                None => choice,
            },
        })
    }

    fn algorithm(&self, t: &Transfer, g: &Geometry) -> Result<AlgorithmChoice, UnsupportedAlgorithm> {
        // The exchange brings its own kernel: nothing to choose.
        if let Some(staged) = &t.staged {
            return super::staged::choice(t, staged, g);
        }
        if let Some((algorithm, chunks)) = self.always
            && t.op != Op::SendRecv
        {
            let unsupported = |why| UnsupportedAlgorithm::new(algorithm.name(), why, t.op, g);
            algorithm.supports(t.op, g).map_err(unsupported)?;
            return Ok(AlgorithmChoice { why: Why::AskedFor, ..self.price(algorithm, None, t, g, chunks) });
        }
        if let Some(own) = self.own_algorithms.iter().find(|own| own.supports(t.op, g).is_ok()) {
            return Ok(AlgorithmChoice { why: Why::AskedFor, ..self.price(*own, None, t, g, None) });
        }
        let fitting = |(_, (algorithm, rule)): &(usize, &(&'static dyn Algorithm, Rule))| {
            fits(rule, t, g) && algorithm.supports(t.op, g).is_ok()
        };
        if let Some((i, (algorithm, rule))) = self.rules.iter().enumerate().find(fitting) {
            let choice = self.price(*algorithm, rule.protocol.as_deref(), t, g, rule.chunks);
            return Ok(choice.ruled(rule, i, t, g));
        }
        let choice = match self.tuning {
            // NCCL's model knows no sites: a ring over them would cross the long way several times.
            Some(tuning) if g.sites.is_some() && t.op != Op::SendRecv => {
                best(t, g).map(|choice| AlgorithmChoice {
                    why: Why::BestClosedForm,
                    ..tuning.price(choice.algorithm, None, t, g, None)
                })
            }
            Some(tuning) => tuning.choose(t, g),
            None => best(t, g),
        };
        choice.ok_or_else(|| UnsupportedAlgorithm::none(t.op, g))
    }

    fn price(
        &self,
        algorithm: &'static dyn Algorithm,
        protocol: Option<&str>,
        t: &Transfer,
        g: &Geometry,
        chunks: Option<u32>,
    ) -> AlgorithmChoice {
        match self.tuning {
            Some(tuning) => tuning.price(algorithm, protocol, t, g, chunks),
            None => AlgorithmChoice::theory(algorithm, t, g, chunks),
        }
    }
}

/// The best closed form among the algorithms that the group can run. Over several sites three levels wherever they
/// can: the others' bytes over the long links are many times as many, and groups beside this one want the same links.
fn best(t: &Transfer, g: &Geometry) -> Option<AlgorithmChoice> {
    if ThreeLevel.supports(t.op, g).is_ok() {
        return Some(AlgorithmChoice::theory(&ThreeLevel, t, g, None));
    }
    let priced = offered(t.op, g).map(|a| AlgorithmChoice::theory(a, t, g, None));
    priced.min_by(|a, b| a.expected_s.total_cmp(&b.expected_s))
}

/// True if a rule covers this transfer on such a group.
fn fits(rule: &Rule, t: &Transfer, g: &Geometry) -> bool {
    let within = |value: u64, min: Option<u64>, max: Option<u64>| {
        min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
    };
    let wide = |bound: Option<u32>| bound.map(u64::from);
    rule.op.is_none_or(|op| op == t.op)
        && within(u64::from(g.size), wide(rule.min_ranks), wide(rule.max_ranks))
        && within(u64::from(g.nodes), wide(rule.min_nodes), wide(rule.max_nodes))
        && within(t.bytes, rule.min_bytes, rule.max_bytes)
}
