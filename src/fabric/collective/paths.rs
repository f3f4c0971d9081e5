//! The links that algorithms use, as paths of a world: for `fluid` one path a phase, each link with the number of
//! transfers that cross it; for `steps` one path a route.

use super::error::CollectiveError;
use super::latency::Latency;
use super::network::Network;
use super::pattern::{Pattern, Route};
use super::plan::GroupPlan;
use super::probe::GroupLayout;
use stepsim_core::ids::ResourceId;
use stepsim_core::program::{Span, World};
use stepsim_core::units::Time;

/// A machine's routes, and the devices of a group on it.
type Ground<'a> = (&'a dyn Network, &'a GroupLayout);
/// The latency of a route.
type RouteLatency = Result<Time, CollectiveError>;

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
    /// Ends the path and adds it to the world; what it uses is kept once where the path before uses the same.
    pub fn end(&mut self, world: &mut World, begin: u32) {
        self.seen.sort_unstable();
        for &r in &self.seen {
            world.uses.push((r, std::mem::take(&mut self.count[r.index()])));
        }
        let (before, new) = world.uses.split_at(begin as usize);
        let same = world.paths.last().copied().filter(|path| before[path.range()] == *new);
        if same.is_some() {
            world.uses.truncate(begin as usize);
        }
        let new = Span { start: begin, len: self.seen.len() as u32 };
        world.paths.push(same.unwrap_or(new));
    }

    /// Adds a route's resources, `weight` times each; returns its latency.
    fn add_route(&mut self, ground: Ground<'_>, route: Route<'_>, weight: u32) -> RouteLatency {
        match route {
            Route::Walk(walk) => self.add_walk(ground, walk, weight),
            Route::Gather(at) => self.add_tree(ground, at, true, weight),
            Route::Scatter(at) => self.add_tree(ground, at, false, weight),
        }
    }
    fn add_walk(&mut self, (net, layout): Ground<'_>, walk: &[u32], weight: u32) -> RouteLatency {
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
    fn add_tree(&mut self, (net, layout): Ground<'_>, at: u32, gather: bool, weight: u32) -> RouteLatency {
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
        // All parts of a transfer go one way inside a node.
        tree.iter().for_each(|&r| self.add(r, weight * net.parts()));
        (self.route, self.tree) = (route, tree);
        Ok(latency)
    }
    /// The trees of [`Tally::add_tree`] for every member, added up. A route over one switch is the way that all routes
    /// from its sender share and the way that all routes to its receiver share: two routes show each, so that the work
    /// grows with the members and not with their pairs.
    fn add_trees(&mut self, ground: Ground<'_>, gather: bool, weight: u32) -> RouteLatency {
        let (net, layout) = ground;
        let n = layout.devices.len();
        let each = weight * net.parts();
        let mut latency = Time::ZERO;
        if n < 3 {
            for at in 0..n as u32 {
                latency = latency.max(self.add_tree(ground, at, gather, weight)?);
            }
            return Ok(latency);
        }
        let mut shared_way = |i: usize, outward: bool| -> Result<Vec<ResourceId>, CollectiveError> {
            let mut routes = [Vec::new(), Vec::new()];
            for (step, route) in routes.iter_mut().enumerate() {
                let (here, there) = (layout.devices[i], layout.devices[(i + 1 + step) % n]);
                let (from, to) = if outward { (here, there) } else { (there, here) };
                latency = latency.max(net.route(from, to, route).map_err(CollectiveError::NotConnected)?);
            }
            let [mut way, other] = routes;
            way.retain(|link| other.contains(link));
            way.sort_unstable();
            way.dedup();
            Ok(way)
        };
        // In every tree: all members' ways to the switch (of a multicast: from it). In one tree each: the root's other.
        let (mut all, mut root) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for i in 0..n {
            all.extend(shared_way(i, gather)?);
            root.push(shared_way(i, !gather)?);
        }
        all.sort_unstable();
        all.dedup();
        root.iter_mut().for_each(|way| way.retain(|link| all.binary_search(link).is_err()));
        let mut first: Vec<_> = all.iter().map(|&link| (link, each * n as u32)).collect();
        first.extend(root[0].iter().map(|&link| (link, each)));
        first.sort_unstable();
        first.into_iter().for_each(|(link, weight)| self.add(link, weight));
        root[1..].iter().flatten().for_each(|&link| self.add(link, each));
        Ok(latency)
    }
}

/// The mean of some latencies.
#[derive(Default)]
struct Mean {
    sum: Time,
    count: u64,
}

impl Mean {
    fn add(&mut self, latency: Time) {
        self.sum += latency;
        self.count += 1;
    }
    fn get(&self) -> Time {
        Time(self.sum.0.checked_div(self.count).unwrap_or(0))
    }
}

/// Adds one path for each of the plan's fluid paths; returns the latencies of each pattern.
pub(super) fn fluid_paths(
    net: &dyn Network,
    plan: &GroupPlan,
    layout: &GroupLayout,
    world: &mut World,
    tally: &mut Tally,
) -> Result<Vec<Latency>, CollectiveError> {
    let mut latencies = vec![Latency::default(); plan.patterns.len()];
    for parts in &plan.fluid_paths {
        let begin = tally.begin(world);
        for &(pattern, weight) in parts {
            let mut result = Ok(());
            let mut worst = [Time::ZERO; 3];
            let (mut mean, mut own) = (Mean::default(), Latency::default());
            let pattern_of = plan.patterns[pattern as usize];
            if let Pattern::ReduceToEach | Pattern::MulticastFromEach = pattern_of {
                let gather = pattern_of == Pattern::ReduceToEach;
                latencies[pattern as usize].longest = tally.add_trees((net, layout), gather, weight)?;
                continue;
            }
            pattern_of.links(&plan.geometry, &mut |route, times, leg| {
                if result.is_ok() {
                    match tally.add_route((net, layout), route, weight * times) {
                        Ok(latency) => {
                            worst[leg] = latency.max(worst[leg]);
                            let [from, to] = [route.sender(), route.receiver()]
                                .map(|at| net.node_of(layout.devices[at as usize]));
                            if from == to {
                                own.inside = latency.max(own.inside);
                            } else {
                                mean.add(latency);
                                own.between = latency.max(own.between);
                            }
                        }
                        Err(e) => result = Err(e),
                    }
                }
            });
            let legs = pattern_of.legs(&plan.geometry);
            own.longest = worst.into_iter().zip(legs).map(|(t, hops)| t * u64::from(hops)).sum();
            if pattern_of == Pattern::Ring {
                own.between = mean.get();
            }
            latencies[pattern as usize] = own;
            result?;
        }
        tally.end(world, begin);
    }
    Ok(latencies)
}

/// Adds an empty path, then one for each route of each pattern; returns the latency of each.
pub(super) fn step_paths(
    net: &dyn Network,
    plan: &GroupPlan,
    layout: &GroupLayout,
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
                match tally.add_route((net, layout), route, 1) {
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
