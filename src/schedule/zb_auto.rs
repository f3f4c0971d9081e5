//! Automatic zero-bubble: an order made for the times that passes really take and for the memory that there is.
//!
//! The hand-made orders (ZB-H1, ZB-H2) leave no bubble where tF = tI = tW. Real stages have tW well below tI, and the
//! first and last stage differ from the rest; Qi et al. 2023 (arXiv 2401.10241), section 3, therefore search. Here the
//! ranks are played out pass by pass: whenever a rank is free,
//!
//! 1. it runs the input gradient or the forward pass whose input is there; where both are, the other kind than last
//!    time (or always the gradient);
//! 2. a forward pass must find room: the activations of `limit` micro-batches; an input gradient frees all of its own
//!    but the share `kept` for its weight gradient;
//! 3. with neither to run, or without room, a waiting weight gradient fills the gap, if what is known to come leaves at
//!    least a share of its time.
//!
//! The open choices (in 1, the share in 3, and how close an expected gradient may be when a forward pass starts) make a
//! small grid; each is played, beside the hand-made orders where they keep the limit, and the one with the shortest
//! longest span of a rank wins. Greedy, so not optimal; never worse than the hand-made orders by the times it knows.
//!
//! Hazard: it knows times without contention. A message takes `PassProfile::message`, whatever else is on the wire.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::order::Lister;
use super::zb_h1::ZbH1;
use super::zb_h2::ZbH2;
use super::{
    BackwardSplit, Order, Pass, PassProfile, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape, Slot,
    StagePlacement,
};
use stepsim_core::units::Time;

/// See the module.
pub(super) struct ZbAuto;

impl Schedule for ZbAuto {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            backward: BackwardSplit::Split,
            batched: false,
            searched: true,
            ..ScheduleFacts::new("zb-auto", "zero-bubble, searched for given times and memory")
        }
    }
    /// For equal times of the three passes and twice the memory of 1F1B.
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let unit = Time(1 << 20);
        let times = PassTimes::new(unit, unit, unit, 1.0);
        let ranks = vec![times; shape.ranks.min(Shape::MAX_SLOTS as u32) as usize];
        self.order_for(shape, &PassProfile { ranks, message: Time::ZERO, limit: None, kept: 1.0 })
    }
    fn order_for(&self, shape: &Shape, profile: &PassProfile) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        let limit = profile.limit.unwrap_or(2.0 * f64::from(p));
        if limit < 1.0 {
            let problem = format!("no micro-batch fits a limit of {limit} micro-batches' activations");
            return Err(ScheduleError::new(self, problem, "it runs with 1 or more".into()));
        }
        let game = Game { ranks: p as usize, micro_batches: m, limit, profile };
        let by_hand = [ZbH1.order(shape)?, ZbH2.order(shape)?].into_iter().map(|order| order.ranks);
        let best = by_hand
            .filter_map(|ranks| Some((game.span_of(&ranks)?, ranks)))
            .chain(Policy::all().map(|policy| game.play(policy)))
            .min_by_key(|(span, _)| *span);
        // Every policy yields an order, so there is a best one.
        let ranks = best.map(|(_, ranks)| ranks).unwrap_or_default();
        Ok(Order { placement: StagePlacement::looped(p, 1), micro_batches: m, ranks })
    }
}

/// The open choices.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Where both are ready, forward passes and gradients take turns; else gradients go first.
    turns: bool,
    /// A weight gradient runs if at least this share of its time is left before the next input arrives.
    weight_gap: f64,
    /// A forward pass runs if at least this share of its time is left before the next gradient arrives.
    forward_gap: f64,
}

impl Policy {
    fn all() -> impl Iterator<Item = Policy> {
        [true, false].into_iter().flat_map(|turns| {
            [1.0, 0.5, 0.0].into_iter().flat_map(move |weight_gap| {
                [0.0, 0.5, 1.0].map(move |forward_gap| Policy { turns, weight_gap, forward_gap })
            })
        })
    }
}

/// The pipeline that is played.
struct Game<'a> {
    ranks: usize,
    micro_batches: u32,
    limit: f64,
    profile: &'a PassProfile,
}

/// A rank while it is played.
struct RankPlayer {
    free_at: Time,
    started: Option<Time>,
    /// Passes done.
    forwards: u32,
    gradients: u32,
    weights: u32,
    /// Activations held, in micro-batches.
    held: f64,
    /// When the inputs of forward passes and gradients are there, by micro-batch; as far as known.
    forward_at: Vec<Time>,
    gradient_at: Vec<Time>,
    last_was_gradient: bool,
    /// When it looks again at what there is to do.
    looks_at: Option<Time>,
    list: Lister,
}

impl RankPlayer {
    fn next_forward(&self) -> Option<Time> {
        self.forward_at.get(self.forwards as usize).copied()
    }
    fn next_gradient(&self) -> Option<Time> {
        self.gradient_at.get(self.gradients as usize).copied()
    }
}

impl Game<'_> {
    /// The longest span of a rank, then the time of all.
    fn score(players: &[RankPlayer]) -> (Time, Time) {
        let span = players.iter().map(|p| p.free_at.saturating_sub(p.started.unwrap_or_default())).max();
        let end = players.iter().map(|p| p.free_at).max();
        (span.unwrap_or_default(), end.unwrap_or_default())
    }

    fn players(&self) -> Vec<RankPlayer> {
        let m = self.micro_batches as usize;
        let player = |rank: usize| RankPlayer {
            free_at: Time::ZERO,
            started: None,
            forwards: 0,
            gradients: 0,
            weights: 0,
            held: 0.0,
            forward_at: if rank == 0 { vec![Time::ZERO; m] } else { Vec::with_capacity(m) },
            gradient_at: Vec::with_capacity(m),
            last_was_gradient: false,
            looks_at: None,
            list: Lister::default(),
        };
        (0..self.ranks).map(player).collect()
    }

    /// Plays by a policy.
    fn play(&self, policy: Policy) -> ((Time, Time), Vec<Vec<Slot>>) {
        let mut players = self.players();
        let mut queue = BinaryHeap::new();
        (0..self.ranks).for_each(|rank| look(&mut players, &mut queue, rank, Time::ZERO));
        while let Some(Reverse((now, rank))) = queue.pop() {
            if players[rank].looks_at != Some(now) {
                continue;
            }
            players[rank].looks_at = None;
            match self.decide(&players[rank], rank, now, policy) {
                Decision::Run(pass) => {
                    let told = self.run(&mut players, rank, now, pass);
                    let free_at = players[rank].free_at;
                    look(&mut players, &mut queue, rank, free_at);
                    if let Some((other, at)) = told {
                        let at = at.max(players[other].free_at);
                        look(&mut players, &mut queue, other, at);
                    }
                }
                Decision::WaitUntil(at) => look(&mut players, &mut queue, rank, at),
                Decision::Wait => {}
            }
        }
        (Game::score(&players), players.into_iter().map(|p| p.list.slots).collect())
    }

    fn decide(&self, player: &RankPlayer, rank: usize, now: Time, policy: Policy) -> Decision {
        let times = &self.profile.ranks[rank];
        let (forward, gradient) = (player.next_forward(), player.next_gradient());
        let ready = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let coming = |at: Option<Time>| at.filter(|at| *at > now);
        let leaves = |until: Option<Time>, share: f64, time: Time| {
            until.is_none_or(|at| (at - now).0 as f64 >= share * time.0 as f64)
        };
        let room = player.held + 1.0 <= self.limit + 1e-9;
        let waiting = player.gradients > player.weights;
        let forward_fits = ready(forward) && room && {
            let first = ready(gradient) || leaves(coming(gradient), policy.forward_gap, times.forward);
            first || player.gradients == 0 && player.forwards == 0
        };
        if ready(gradient) {
            let turn = policy.turns && player.last_was_gradient;
            return Decision::Run(match turn && ready(forward) {
                true if room => Pass::Forward,
                true if waiting => Pass::WeightGrad,
                _ => Pass::InputGrad,
            });
        }
        if forward_fits {
            return Decision::Run(Pass::Forward);
        }
        // The next input known to come; a forward pass without room does not count.
        let next = [coming(gradient), coming(forward).filter(|_| room)].into_iter().flatten().min();
        if waiting && leaves(next, policy.weight_gap, times.weight_grad) {
            return Decision::Run(Pass::WeightGrad);
        }
        next.map_or(Decision::Wait, Decision::WaitUntil)
    }

    /// Runs a pass; tells who gets its output, and when.
    fn run(&self, players: &mut [RankPlayer], rank: usize, now: Time, pass: Pass) -> Option<(usize, Time)> {
        let times = &self.profile.ranks[rank];
        let last = rank + 1 == self.ranks;
        let player = &mut players[rank];
        player.started.get_or_insert(now);
        let mut take = |count: fn(&mut RankPlayer) -> &mut u32, time: Time, held: f64| {
            let done = count(player);
            let micro_batch = *done;
            *done += 1;
            player.held += held;
            player.free_at = now + time;
            player.list.push(pass, 0, micro_batch);
            player.free_at
        };
        match pass {
            Pass::Forward => {
                let end = take(|p| &mut p.forwards, times.forward, 1.0);
                player.last_was_gradient = false;
                if last {
                    player.gradient_at.push(end);
                    return None;
                }
                players[rank + 1].forward_at.push(end + self.profile.message);
                Some((rank + 1, end + self.profile.message))
            }
            Pass::InputGrad | Pass::Backward => {
                let end = take(|p| &mut p.gradients, times.input_grad, self.profile.kept - 1.0);
                player.last_was_gradient = true;
                let before = rank.checked_sub(1)?;
                players[before].gradient_at.push(end + self.profile.message);
                Some((before, end + self.profile.message))
            }
            Pass::WeightGrad => {
                take(|p| &mut p.weights, times.weight_grad, -self.profile.kept);
                None
            }
        }
    }

    /// The score of an order; `None` if it breaks the limit.
    fn span_of(&self, order: &[Vec<Slot>]) -> Option<(Time, Time)> {
        let mut players = self.players();
        let mut at = vec![0; self.ranks];
        loop {
            let mut moved = false;
            for rank in 0..self.ranks {
                while let Some(part) = order[rank].get(at[rank]).and_then(|slot| slot.parts().next()) {
                    let player = &players[rank];
                    let input = match part.pass {
                        Pass::Forward => player.next_forward(),
                        Pass::WeightGrad => Some(Time::ZERO),
                        _ => player.next_gradient(),
                    };
                    let Some(input) = input else { break };
                    let now = input.max(player.free_at);
                    self.run(&mut players, rank, now, part.pass);
                    if players[rank].held > self.limit + 1e-9 {
                        return None;
                    }
                    at[rank] += 1;
                    moved = true;
                }
            }
            if !moved {
                return Some(Game::score(&players));
            }
        }
    }
}

/// The decision of a free rank.
enum Decision {
    Run(Pass),
    WaitUntil(Time),
    /// Until something arrives.
    Wait,
}

/// Has a rank look again at a time, unless it will before.
fn look(players: &mut [RankPlayer], queue: &mut BinaryHeap<Reverse<(Time, usize)>>, rank: usize, at: Time) {
    if players[rank].looks_at.is_none_or(|before| at < before) {
        players[rank].looks_at = Some(at);
        queue.push(Reverse((at, rank)));
    }
}
