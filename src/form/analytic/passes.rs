//! How long one rank takes for the passes of a unit.

use super::least::Least;
use super::links::RankLinks;
use super::pass_time::{PassTime, UnitTime};
use super::queues::{PassOp, PassWork, Queue, period};
use super::unit_passes::{UnitPass, UnitPasses};
use stepsim_fabric::collective::CollectiveError;
use stepsim_plan::step::groups::Group;
use stepsim_plan::step::{FullRecompute, Prices, Unit, transfer_of};
use stepsim_price::model::{CommGroup, CommPoint, Item, Kernel};
use stepsim_schedule::Pass;
use stepsim_spec::stack::{GraphScope, HostRead, HostSpec, LayerHosts};

/// The prices and settings that decide the time of a rank's items.
pub struct Pricing<'a> {
    pub prices: &'a dyn Prices,
    pub links: &'a RankLinks<'a>,
    pub host: Option<&'a HostSpec>,
    /// The framework's work before the first kernel of a layer's pass.
    pub layers: LayerHosts,
    /// Makes of a pass what runs: copies of shards around it, and tensor-parallel communication in pieces as
    /// `parallelism.tensor_overlap` says. It is told the pass, and whether it repeats forward.
    pub cut: &'a CutPass<'a>,
}

/// Makes of the items of a pass, and of whether it repeats forward, the items that run.
pub type CutPass<'a> = dyn Fn((Pass, bool), &[Item]) -> Vec<Item> + 'a;

impl Pricing<'_> {
    /// The passes of a unit.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub fn unit(&self, unit: &Unit) -> Result<UnitPasses, CollectiveError> {
        let plan = &unit.plan;
        let repeated = unit.repeated();
        let mut launches = Launches::new(self.host, self.prices);
        let host = self.host.filter(|_| unit.layer.is_some());
        let mut pass = |of: (Pass, bool), items: &[Item], goes_on: bool| {
            launches.begin(goes_on, host.map_or([0.0; 2], |h| others_us(h, &self.layers, unit, of)));
            let mut time = PassTime::default();
            let ops = self.ops(&(self.cut)(of, items), &mut launches, &mut time.least)?;
            let pass = UnitPass::new(ops);
            time.split(&pass.ops);
            Ok::<_, CollectiveError>((pass, time))
        };
        let again = !repeated.is_empty();
        let forward = pass((Pass::Forward, false), &plan.forward, false)?;
        let recompute = pass((Pass::Backward, true), &repeated, false)?;
        let backward = pass((Pass::Backward, false), &plan.backward, again)?;
        let input_grad = pass((Pass::InputGrad, false), &plan.input_grad, again)?;
        let weight_grad = pass((Pass::WeightGrad, false), &plan.weight_grad, false)?;
        let exchanges = |items: &[Item]| items.iter().filter_map(Item::comm).any(|c| c.exchange.is_some());
        let pairs = unit.recompute == FullRecompute::No && !exchanges(&repeated);
        let paired = if pairs {
            let parts = plan.recompute_parts(&unit.policy);
            let both = [&plan.backward, &plan.input_grad].map(|items| with_parts(items, &parts));
            let whole = pass((Pass::Backward, false), &both[0], false)?.0;
            Some(Box::new([whole, pass((Pass::InputGrad, false), &both[1], false)?.0]))
        } else {
            None
        };
        let mut casts = PassTime::default();
        launches.begin(false, [0.0; 2]);
        let cast = UnitPass::new(self.ops(&plan.weight_casts, &mut launches, &mut casts.least)?);
        casts.split(&cast.ops);
        Ok(UnitPasses {
            time: UnitTime {
                forward: forward.1,
                recompute: recompute.1,
                backward: backward.1,
                input_grad: input_grad.1,
                weight_grad: weight_grad.1,
                weight_casts: casts.compute,
            },
            forward: forward.0,
            recompute: recompute.0,
            backward: backward.0,
            input_grad: input_grad.0,
            weight_grad: weight_grad.0,
            paired,
            expert_weight_grads: plan.expert_weight_grads,
            from_before: unit.recompute == FullRecompute::FromBefore,
            casts: cast,
        })
    }

    /// The items of a rank with their times; messages in a group of one are none.
    fn ops(
        &self,
        items: &[Item],
        launches: &mut Launches<'_>,
        least: &mut Least,
    ) -> Result<Vec<PassOp>, CollectiveError> {
        let (mut ops, mut waits, mut kernels) = (Vec::with_capacity(items.len()), Vec::new(), 0.0);
        for (i, item) in items.iter().enumerate() {
            match item {
                Item::Kernel(kernel) => {
                    let seconds = self.prices.time(kernel).s();
                    kernels += seconds;
                    ops.push(launches.kernel(kernel, seconds));
                }
                Item::Comm(point) if self.links.has(Group::Layer(point.group)) => {
                    let seconds = self.links.transfer(Group::Layer(point.group), &transfer_of(point))?;
                    if point.hidden_behind == 0 {
                        waits.push((i, seconds));
                    }
                    ops.push(launches.message(point, seconds, self.links.crossing));
                }
                Item::Comm(_) => {}
            }
        }
        *least = Least::of(items, kernels, &waits);
        Ok(ops)
    }
}

/// A backward pass with what is computed again for each of its parts in front of it: for experts behind the first
/// exchange, the rest behind the last.
fn with_parts(items: &[Item], (rest, experts): &(Vec<Item>, Vec<Item>)) -> Vec<Item> {
    if items.is_empty() {
        return Vec::new();
    }
    let exchange = |item: &Item| item.comm().is_some_and(|c| c.exchange.is_some());
    let first = items.iter().position(exchange).map_or(0, |i| i + 1);
    let last = items.iter().rposition(exchange).map_or(0, |i| i + 1).max(first);
    [&items[..first], experts, &items[first..last], rest, &items[last..]].concat()
}

impl PassTime {
    /// The time that each kind of communication, and then the host, adds to the kernels of a pass that follows one
    /// like it.
    fn split(&mut self, ops: &[PassOp]) {
        use Queue::{Context, Expert, Host, Tensor};
        self.compute = ops.iter().filter(|op| op.work == PassWork::Kernel).map(|op| op.seconds).sum();
        let mut before = self.compute;
        let mut on = Vec::new();
        for queue in [Tensor, Context, Expert, Host] {
            on.push(queue);
            let uses = |op: &PassOp| match op.work {
                PassWork::Kernel => queue == Host && op.launch.is_some(),
                PassWork::Message { queue: of, .. } => of == queue || queue == Host && op.launch.is_some(),
            };
            if ops.iter().any(uses) {
                let with = period(ops, &on);
                self[queue] = (with - before).max(0.0);
                before = with.max(before);
            }
        }
    }
}

/// The queue of messages among a group.
fn queue_of(group: CommGroup) -> Queue {
    match group {
        CommGroup::Tensor => Queue::Tensor,
        CommGroup::Context | CommGroup::ContextInner | CommGroup::ContextOuter | CommGroup::ContextOf(_) => {
            Queue::Context
        }
        // Between the passes of encoder and language model nothing else is sent.
        CommGroup::Data => Queue::Context,
        CommGroup::Expert | CommGroup::ExpertTensor => Queue::Expert,
    }
}

/// How long the framework is busy before the first kernel of a layer's pass, or of what is computed again of it, and
/// before its first product of experts, in microseconds.
fn others_us(host: &HostSpec, layers: &LayerHosts, unit: &Unit, (pass, again): (Pass, bool)) -> [f64; 2] {
    let experts = unit.plan.forward.iter().filter_map(Item::kernel).any(|k| k.class.is_grouped());
    let (layer, of_experts) = (layers.of(experts), host.expert_us);
    match pass {
        _ if again => [layer.again, of_experts.forward],
        Pass::Forward => [layer.forward, of_experts.forward],
        Pass::WeightGrad => [0.0; 2],
        Pass::Backward | Pass::InputGrad => [layer.backward, of_experts.backward],
    }
}

/// The host's work for the ops of a unit, one after the other.
struct Launches<'a> {
    host: Option<&'a HostSpec>,
    /// Factor on all times of the host, in seconds.
    scale: f64,
    /// Seconds behind each kernel.
    gap: f64,
    /// True if ops belong to a graph that has been launched.
    in_graph: bool,
    /// Microseconds of other work before the first kernel of the pass, and before its first product of experts.
    others_us: [f64; 2],
    /// By queue: what was launched there last.
    last: [Option<&'static str>; 4],
}

impl<'a> Launches<'a> {
    fn new(host: Option<&'a HostSpec>, prices: &dyn Prices) -> Launches<'a> {
        let slowness = host.map_or(1.0, |host| host.slowness * prices.host_slowness());
        let gap = if host.is_some() { prices.gap().s() } else { 0.0 };
        Launches { host, scale: slowness * 1e-6, gap, in_graph: false, others_us: [0.0; 2], last: [None; 4] }
    }
    /// A pass begins, which `goes_on` with the graph of its recomputation, or has one of its own; before its first
    /// kernel, and before its first product of experts, the framework is busy for `others_us` microseconds.
    fn begin(&mut self, goes_on: bool, others_us: [f64; 2]) {
        self.in_graph &= goes_on;
        self.others_us = others_us;
        self.last = [None; 4];
    }
    fn kernel(&mut self, kernel: &Kernel, seconds: f64) -> PassOp {
        let op = PassOp { work: PassWork::Kernel, seconds, launch: None };
        let Some(host) = self.host.filter(|_| seconds > 0.0) else { return op };
        let us = host.launch_us.of_groups(Some(kernel.class), kernel.groups());
        // Products whose rows the host reads on the way are not captured.
        let grouped = kernel.class.is_grouped();
        let captured = !(grouped && host.reads.contains(&HostRead::ExpertCounts));
        let [own, of_experts] = &mut self.others_us;
        let us = us + std::mem::take(own) + if grouped { std::mem::take(of_experts) } else { 0.0 };
        let launch = self.launch(host, captured, (kernel.name, us, 0));
        let gap = if self.in_graph { self.gap.min(host.graphs.kernel_gap_us * 1e-6) } else { self.gap };
        let (held, launch) = held(host, launch);
        PassOp { seconds: seconds + gap + held, launch, ..op }
    }
    fn message(&mut self, point: &CommPoint, seconds: f64, crossing: u32) -> PassOp {
        let queue = queue_of(point.group);
        let (hidden, exchange) = (point.hidden_behind, point.exchange.is_some());
        let place = 1 + [Queue::Tensor, Queue::Context].iter().position(|q| *q == queue).unwrap_or(2);
        let crosses = if point.group == CommGroup::Tensor { f64::from(crossing) } else { 0.0 };
        let us = |host: &HostSpec| host.launch_us.collective + host.crossing_us * crosses;
        let launch = self.host.and_then(|host| self.launch(host, true, (point.name, us(host), place)));
        // Inside a graph that was launched nobody waits.
        let waits = launch.is_some() && self.host.is_some_and(|host| host.blocking);
        let (held, launch) = self.host.map_or((0.0, launch), |host| held(host, launch));
        let hidden = if waits { 0 } else { hidden };
        let reads = |host: &&HostSpec| {
            exchange && point.name == "dispatch tokens" && host.reads.contains(&HostRead::ExpertCounts)
        };
        let read = self.host.filter(reads).map(|host| {
            self.in_graph = false;
            ((host.synchronise_us + host.expert_counts_us) * self.scale - self.gap).max(0.0)
        });
        PassOp { work: PassWork::Message { queue, hidden, exchange, read }, seconds: seconds + held, launch }
    }
    /// How long a launch holds the host, and the latency behind it; none where the op's graph has been launched.
    fn launch(
        &mut self,
        host: &HostSpec,
        captured: bool,
        (name, us, place): (&'static str, f64, usize),
    ) -> Option<[f64; 2]> {
        let again = self.last[place].replace(name) == Some(name);
        let us = match host.graphs.scope {
            GraphScope::None => {
                if again {
                    us.min(host.launch_us.again)
                } else {
                    us
                }
            }
            GraphScope::Layer if !captured => {
                self.in_graph = false;
                us
            }
            GraphScope::Layer if !std::mem::replace(&mut self.in_graph, true) => host.graphs.launch_us,
            _ => {
                self.in_graph = true;
                return None;
            }
        };
        Some([us * self.scale, host.latency_us * 1e-6])
    }
}

/// The launch of an op as seconds added to it and as host work beside earlier ops; a blocking host adds all of it.
fn held(host: &HostSpec, launch: Option<[f64; 2]>) -> (f64, Option<[f64; 2]>) {
    match launch {
        Some([busy, latency]) if host.blocking => (busy + latency, None),
        launch => (0.0, launch),
    }
}
