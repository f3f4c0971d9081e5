//! How long one rank takes for the passes of a unit and of a stage.

use super::least::Least;
use super::links::Links;
use super::pass_time::{PassTime, UnitTime};
use crate::step::collective::{CollectiveError, Op};
use crate::step::model::{CommGroup, CommOp, Item, LayerPlan};
use crate::step::moe::overlap::Cell;
use crate::step::plan::step::groups::Group;
use crate::step::plan::step::{Prices, Unit, transfer_of};
use crate::step::schedule::Pass;
use crate::step::spec::stack::{GraphScope, HostSpec, LayerTimes};
use crate::step::spec::workload::RecomputeSpec;

impl UnitTime {
    /// Prices the items of `unit`; `cut` makes of a pass what runs: copies of shards around it, and tensor-parallel
    /// communication in pieces as `parallelism.tensor_overlap` says. It is told the pass, and whether it repeats forward.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub fn of(
        unit: &Unit,
        policy: &RecomputeSpec,
        prices: &dyn Prices,
        links: &Links<'_>,
        host: Option<&HostSpec>,
        cut: &dyn Fn((Pass, bool), &[Item]) -> Vec<Item>,
    ) -> Result<UnitTime, CollectiveError> {
        let layer = |us: fn(&LayerTimes) -> f64| {
            host.filter(|_| unit.layer.is_some()).map_or(0.0, |host| us(&host.layer_us))
        };
        let price = |pass_of: (Pass, bool), items: &[Item], layer_us: f64| {
            let items = cut(pass_of, items);
            let mut time = pass(&items, prices, links)?;
            if let Some(host) = host {
                time.compute += gaps(&items, prices, host);
                let launches = launches(&items, links, host, layer_us) * prices.host_slowness();
                time.host = (launches - time.total()).max(0.0);
            }
            Ok::<PassTime, CollectiveError>(time)
        };
        let [forward, backward] = [layer(|l| l.forward), layer(|l| l.backward)];
        let cells = u32::from(unit.plan.expert_weight_grads > 0);
        Ok(UnitTime {
            forward: price((Pass::Forward, false), &unit.plan.forward, forward)?,
            recompute: price((Pass::Backward, true), &unit.repeated(policy), forward)?,
            backward: price((Pass::Backward, false), &unit.plan.backward, backward)?,
            input_grad: price((Pass::InputGrad, false), &unit.plan.input_grad, backward)?,
            weight_grad: price((Pass::WeightGrad, false), &unit.plan.weight_grad, 0.0)?,
            weight_casts: pass(&unit.plan.weight_casts, prices, links)?.compute,
            cells,
            cell: if cells > 0 { cell(&unit.plan, policy, prices, links)? } else { Cell::default() },
        })
    }
}

/// Seconds between the kernels of a list, each with its gap.
fn gaps(items: &[Item], prices: &dyn Prices, host: &HostSpec) -> f64 {
    let kernels = items.iter().filter_map(Item::kernel).count() as f64;
    let gap = prices.gap().s();
    let in_graph = host.graphs.scope != GraphScope::None;
    kernels * if in_graph { gap.min(host.graphs.kernel_gap_us * 1e-6) } else { gap }
}

/// Seconds that the host takes to launch a list, which a layer's pass begins with so many microseconds of other work.
fn launches(items: &[Item], links: &Links<'_>, host: &HostSpec, layer_us: f64) -> f64 {
    let l = &host.launch_us;
    let mut sum = if items.is_empty() { 0.0 } else { layer_us };
    let mut last = [None; 2];
    for item in items {
        let (name, us, kind) = match (item.kernel(), item.comm()) {
            (Some(kernel), _) => {
                let casts = kernel.dtype.bytes() < 2.0;
                (kernel.name, l.of_groups(Some(kernel.class), kernel.groups(), casts), 0)
            }
            (_, Some(comm)) if links.has(Group::Layer(comm.group)) => {
                (comm.name, l.collective + crossing(comm.group, links, host), 1)
            }
            _ => continue,
        };
        sum += if last[kind].replace(name) == Some(name) { us.min(l.again) } else { us };
    }
    let us = match host.graphs.scope {
        GraphScope::None => sum,
        GraphScope::Layer if !items.is_empty() => host.graphs.launch_us,
        _ => 0.0,
    };
    us * host.slowness * 1e-6
}

/// Microseconds that a collective's launch takes longer where the pipeline leaves the node.
fn crossing(group: CommGroup, links: &Links<'_>, host: &HostSpec) -> f64 {
    if group == CommGroup::Tensor { host.crossing_us * f64::from(links.crossing) } else { 0.0 }
}

/// Parts of a layer between its exchanges; other communication counts as kernels do, by what is exposed of it.
fn cell(
    plan: &LayerPlan,
    policy: &RecomputeSpec,
    prices: &dyn Prices,
    links: &Links<'_>,
) -> Result<Cell, CollectiveError> {
    let exchange = |i: &Item| i.comm().is_some_and(|c| c.exchange.is_some());
    let parts = |items: &[Item]| -> Result<[f64; 5], CollectiveError> {
        let mut parts = [0.0; 5];
        for (i, part) in items.split_inclusive(exchange).enumerate() {
            let whole = pass(part, prices, links)?;
            let sent = pass(&part[part.len().saturating_sub(1)..], prices, links)?.expert;
            parts[(2 * i).min(4)] += whole.total() - sent;
            if i < 2 {
                parts[2 * i + 1] = sent;
            }
        }
        Ok(parts)
    };
    let (rest, experts) = plan.recompute_parts(policy);
    let (rest, experts) = (pass(&rest, prices, links)?.total(), pass(&experts, prices, links)?.total());
    let [attn, dispatch, mlp, combine, behind] = parts(&plan.forward)?;
    let [before, combine_back, mlp_back, dispatch_back, attn_back] = parts(&plan.input_grad)?;
    let all = pass(&plan.weight_grad, prices, links)?.total();
    let kernels = plan.weight_grad.iter().filter(|i| i.kernel().is_some());
    let of_experts: Vec<Item> = kernels.take(plan.expert_weight_grads as usize).cloned().collect();
    let mlp_weights = pass(&of_experts, prices, links)?.total();
    Ok(Cell {
        attn: attn + behind,
        dispatch,
        mlp,
        combine,
        combine_back,
        mlp_back: mlp_back + experts,
        dispatch_back,
        attn_back: attn_back + before + rest,
        mlp_weights,
        attn_weights: all - mlp_weights,
    })
}

/// Kernels one after the other; a communication point is exposed by what it takes longer than the kernels that may
/// run beside it.
fn pass(items: &[Item], prices: &dyn Prices, links: &Links<'_>) -> Result<PassTime, CollectiveError> {
    let kernels = |items: &[Item], n: usize| -> f64 {
        items.iter().filter_map(Item::kernel).take(n).map(|kernel| prices.time(kernel).s()).sum()
    };
    let mut time = PassTime { compute: kernels(items, usize::MAX), ..PassTime::default() };
    let mut waits = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Some(comm) = item.comm() else { continue };
        let op = match comm.op {
            CommOp::AllGather => Op::AllGather,
            CommOp::ReduceScatter => Op::ReduceScatter,
            CommOp::AllReduce => Op::AllReduce,
            CommOp::AllToAll => Op::AllToAll,
            CommOp::SendRecv => Op::SendRecv,
            CommOp::ExpertExchange => Op::ExpertExchange,
        };
        let group = Group::Layer(comm.group);
        let link = match comm.staged {
            Some(_) => links.transfer(group, &transfer_of(comm))?,
            None => links.time(group, op, comm.bytes as f64)?,
        };
        let exposed = (link - kernels(&items[i + 1..], comm.hidden_behind as usize)).max(0.0);
        if comm.hidden_behind == 0 {
            waits.push((i, link));
        }
        match comm.group {
            CommGroup::Tensor | CommGroup::ExpertTensor => time.tensor += exposed,
            CommGroup::Context | CommGroup::ContextInner | CommGroup::ContextOuter => time.context += exposed,
            CommGroup::Expert => time.expert += exposed,
        }
    }
    time.least = Least::of(items, time.compute, &waits);
    Ok(time)
}
