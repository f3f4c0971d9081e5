//! Groups of a kind, and devices of a pipeline rank, that are not all alike: everybody waits for the slowest, so it
//! counts, once.
//!
//! Hazard: the slowest device and the slowest group of each kind are taken to meet in one replica.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use stepsim_core::ids::{DeviceId, RankId};
use stepsim_fabric::collective::{Chooser, CollectiveError, Geometry, Op, Transfer};
use stepsim_fabric::topology::{Axis, Layout, Machine, ScaleUpShape};
use stepsim_plan::step::groups::{Degrees, Group};
use stepsim_plan::step::{PriceList, Unit};
use stepsim_price::model::Kernel;
use stepsim_schedule::{Order, Seat};
use stepsim_spec::stack::HostSpec;
use stepsim_spec::workload::WorkloadSpec;

/// True if groups of a kind look like one another: nodes of one kind of device, which the axes of the layout fill
/// evenly.
pub(super) fn regular(
    machine: &Machine,
    (layout, degrees): (&Layout, &Degrees),
    workload: &WorkloadSpec,
) -> bool {
    let (fabric, mut run) = (machine.fabric(), 1);
    let node = fabric.node_size.max(1);
    let fits = |run: u32| run.is_multiple_of(node) || node.is_multiple_of(run);
    workload.parallelism.rank_map.is_none()
        && machine.device_classes().len() == 1
        && fabric.scale_up != ScaleUpShape::General
        && fits(degrees.expert * degrees.expert_tensor)
        && layout.order().iter().all(|axis| {
            run *= layout.size(*axis);
            fits(run)
        })
}

/// The class of the slowest device of each pipeline rank, by the kernels of the rank's forward passes or by what its
/// host takes to launch them.
pub(super) fn slowest_classes(
    machine: &Machine,
    host: Option<&HostSpec>,
    layout: &Layout,
    prices: &dyn PriceList,
    order: &Order,
    stages: &[Vec<Unit>],
) -> Vec<u32> {
    let ranks = order.placement.ranks();
    if machine.device_classes().len() == 1 {
        return vec![machine.device_class(DeviceId(0)); ranks as usize];
    }
    let mut classes = vec![BTreeSet::new(); ranks as usize];
    for rank in (0..layout.ranks()).map(RankId) {
        classes[layout.coordinate(rank, Axis::Pp) as usize].insert(machine.device_class(layout.device(rank)));
    }
    let seconds = |rank: u32, class: u32| {
        let prices = prices.on(class);
        let stage = |chunk| order.placement.stage(Seat { rank, chunk }).stage as usize;
        let units = (0..order.placement.chunks(rank)).flat_map(|chunk| &stages[stage(chunk)]);
        let kernels = units.flat_map(|unit| unit.plan.forward.iter().filter_map(|item| item.kernel()));
        let launch = |kernel: &Kernel| {
            let us = host.map_or(0.0, |host| host.launch_us.of_groups(Some(kernel.class), kernel.groups()));
            [prices.time(kernel).s(), us * 1e-6 * prices.host_slowness()]
        };
        let both = kernels.map(launch).fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        both[0].max(both[1])
    };
    let slowest = |(rank, classes): (u32, BTreeSet<u32>)| {
        let longest = classes.into_iter().map(|class| (class, seconds(rank, class)));
        longest.reduce(|a, b| if b.1 > a.1 { b } else { a }).map_or(0, |(class, _)| class)
    };
    (0..ranks).zip(classes).map(slowest).collect()
}

/// The slowest group of a kind, of ranks with these degrees, and its first member; the group of `rank` where all are
/// alike.
///
/// # Errors
/// Two members have no route between them.
pub(super) fn slowest_group(
    machine: &Machine,
    (layout, degrees, rank): (&Layout, &Degrees, RankId),
    group: Group,
    alike: bool,
    chooser: &Chooser,
) -> Result<(Geometry, RankId), CollectiveError> {
    const BYTES: u64 = 1 << 24;
    let mut members = Vec::new();
    let devices =
        |members: &[RankId]| -> Vec<DeviceId> { members.iter().map(|rank| layout.device(*rank)).collect() };
    degrees.members(layout, rank, group, &mut members);
    let mut slowest = (Geometry::of(machine, &devices(&members))?, rank);
    if alike {
        return Ok(slowest);
    }
    let seconds = |geometry: &Geometry| {
        chooser.choose(&Transfer::new(Op::AllGather, BYTES), geometry).map_or(0.0, |choice| choice.expected_s)
    };
    let own = degrees.on(layout.coordinate(rank, Axis::Pp));
    let mut most = seconds(&slowest.0);
    let mut seen = vec![false; layout.ranks() as usize];
    // Groups that lie alike, on nodes of one kind whose ways repeat themselves, look alike.
    let shape = machine.fabric();
    let repeats = shape.repeats.filter(|_| machine.device_classes().len() == 1);
    let period = repeats.map(|nodes| nodes.saturating_mul(shape.node_size.max(1)));
    let (mut places, mut known) = (FxHashSet::default(), FxHashSet::default());
    for other in (0..layout.ranks()).map(RankId) {
        if seen[other.index()] || degrees.on(layout.coordinate(other, Axis::Pp)) != own {
            continue;
        }
        degrees.members(layout, other, group, &mut members);
        members.iter().for_each(|member| seen[member.index()] = true);
        let devices = devices(&members);
        let first = devices[0].0;
        let place =
            |period| (first % period, devices.iter().map(|d| d.0.wrapping_sub(first)).collect::<Vec<_>>());
        if period.is_some_and(|period| !places.insert(place(period))) {
            continue;
        }
        let geometry = Geometry::of(machine, &devices)?;
        if !known.insert(geometry.clone()) {
            continue;
        }
        let taken_s = seconds(&geometry);
        if taken_s > most {
            (most, slowest) = (taken_s, (geometry, members[0]));
        }
    }
    Ok(slowest)
}
