//! The links that algorithms use, as paths of a world: for `fluid` one path a phase, each link with the number of
//! transfers that cross it; for `steps` one path a route.

use super::geometry::{Layout, Network};
use super::lowering::CollectiveError;
use super::pattern::Route;
use super::plan::Plan;
use crate::ids::ResourceId;
use crate::program::{Span, World};
use crate::units::Time;

/// Counts how often a path crosses each resource; kept between paths so that nothing is allocated for one.
#[derive(Default)]
pub(super) struct Tally {
    count: Vec<u32>,
    seen: Vec<ResourceId>,
    pub route: Vec<ResourceId>,
    tree: Vec<ResourceId>,
}

impl Tally {
    /// Starts a path; returns where its uses begin.
    pub fn begin(&mut self, world: &World) -> u32 {
        self.seen.clear();
        world.uses.len() as u32
    }
    pub fn add(&mut self, resource: ResourceId, weight: u32) {
        if self.count.len() <= resource.index() {
            self.count.resize(resource.index() + 1, 0);
        }
        let count = &mut self.count[resource.index()];
        if *count == 0 {
            self.seen.push(resource);
        }
        *count += weight;
    }
    /// Ends the path and adds it to the world.
    pub fn end(&mut self, world: &mut World, begin: u32) {
        for &r in &self.seen {
            world.uses.push((r, std::mem::take(&mut self.count[r.index()])));
        }
        world.paths.push(Span { start: begin, len: self.seen.len() as u32 });
    }

    /// Adds a route's resources, `weight` times each; returns its latency.
    fn add_route(
        &mut self,
        net: &dyn Network,
        layout: &Layout,
        route: Route<'_>,
        weight: u32,
    ) -> Result<Time, CollectiveError> {
        match route {
            Route::Walk(walk) => self.add_walk(net, layout, walk, weight),
            Route::Gather(at) => self.add_tree(net, layout, at, true, weight),
            Route::Scatter(at) => self.add_tree(net, layout, at, false, weight),
        }
    }
    fn add_walk(
        &mut self,
        net: &dyn Network,
        layout: &Layout,
        walk: &[u32],
        weight: u32,
    ) -> Result<Time, CollectiveError> {
        let mut latency = Time::ZERO;
        let mut route = std::mem::take(&mut self.route);
        for hop in walk.windows(2) {
            route.clear();
            let (from, to) = (layout.devices[hop[0] as usize], layout.devices[hop[1] as usize]);
            latency += net.route(from, to, &mut route).map_err(CollectiveError::NotConnected)?;
            route.iter().for_each(|&r| self.add(r, weight));
        }
        self.route = route;
        Ok(latency)
    }
    /// A tree over a switch: each link of the routes between `at` and all members once, and `at`'s own port on the
    /// other side as well, since its contribution passes the switch too.
    fn add_tree(
        &mut self,
        net: &dyn Network,
        layout: &Layout,
        at: u32,
        gather: bool,
        weight: u32,
    ) -> Result<Time, CollectiveError> {
        let mut latency = Time::ZERO;
        let mut route = std::mem::take(&mut self.route);
        let mut tree = std::mem::take(&mut self.tree);
        tree.clear();
        let here = layout.devices[at as usize];
        for (i, &there) in layout.devices.iter().enumerate().filter(|&(i, _)| i != at as usize) {
            route.clear();
            let (from, to) = if gather { (there, here) } else { (here, there) };
            latency = latency.max(net.route(from, to, &mut route).map_err(CollectiveError::NotConnected)?);
            tree.extend_from_slice(&route);
            if i == usize::from(at == 0) {
                route.clear();
                net.route(to, from, &mut route).map_err(CollectiveError::NotConnected)?;
                tree.extend(if gather { route.first() } else { route.last() });
            }
        }
        tree.sort_unstable();
        tree.dedup();
        tree.iter().for_each(|&r| self.add(r, weight));
        (self.route, self.tree) = (route, tree);
        Ok(latency)
    }
}

/// Adds one path for each of the plan's fluid paths; returns the largest route latency of each pattern.
pub(super) fn fluid_paths(
    net: &dyn Network,
    plan: &Plan,
    layout: &Layout,
    world: &mut World,
    tally: &mut Tally,
) -> Result<Vec<Time>, CollectiveError> {
    let mut latencies = vec![Time::ZERO; plan.patterns.len()];
    for parts in &plan.fluid_paths {
        let begin = tally.begin(world);
        for &(pattern, weight) in parts {
            let mut result = Ok(());
            let mut worst = [Time::ZERO; 3];
            let pattern_of = plan.patterns[pattern as usize];
            pattern_of.links(&plan.geometry, &mut |route, times, leg| {
                if result.is_ok() {
                    match tally.add_route(net, layout, route, weight * times) {
                        Ok(latency) => worst[leg] = latency.max(worst[leg]),
                        Err(e) => result = Err(e),
                    }
                }
            });
            let legs = pattern_of.legs(&plan.geometry);
            latencies[pattern as usize] =
                worst.into_iter().zip(legs).map(|(t, hops)| t * u64::from(hops)).sum();
            result?;
        }
        tally.end(world, begin);
    }
    Ok(latencies)
}

/// Adds an empty path, then one for each route of each pattern; returns the latency of each.
pub(super) fn step_paths(
    net: &dyn Network,
    plan: &Plan,
    layout: &Layout,
    world: &mut World,
    tally: &mut Tally,
) -> Result<Vec<Time>, CollectiveError> {
    let begin = tally.begin(world);
    tally.end(world, begin);
    let mut latencies = vec![Time::ZERO];
    for pattern in &plan.patterns {
        let mut result = Ok(());
        pattern.routes(&plan.geometry, &mut |route, _| {
            if result.is_ok() {
                let begin = tally.begin(world);
                match tally.add_route(net, layout, route, 1) {
                    Ok(latency) => latencies.push(latency),
                    Err(e) => result = Err(e),
                }
                tally.end(world, begin);
            }
        });
        result?;
    }
    Ok(latencies)
}
