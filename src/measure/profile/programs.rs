//! A measured step as rank programs: what ran, in which order, behind what.
//!
//! ```text
//! start of an op = the latest of (end of the op before on its stream, its launch, what it waits for) + its lead
//! ```
//! A stream runs in order. The host is one more stream: the time from call to call, up to each launch; behind a
//! synchronisation it goes on when the device has got there. A kernel waits for its launch, and where a
//! `StreamWaitEvent` was queued right before, for the op of another stream that ended last before it (unless the
//! profile names the event: `cuda_sync`). The rest of its start is its lead; where its launch came last, the way from
//! there to the device, which what runs before it does not prolong. Collectives that several profiles
//! hold begin when the last rank is there ([`super::skew`]); each then takes what it took from there. So replaying a
//! step unchanged gives the measured step, which begins with its first device event: the host may be a step ahead of
//! the device.

use std::collections::{BTreeMap, BTreeSet};

use super::classes::Family;
use super::idle::waited;
use super::model::{Call, DeviceEvent, Does, Mark, RankEvents};
use super::skew::{MatchedCollectives, matched};
use stepsim_spec::SpecError;

/// An op that starts so soon (ns) behind one of another stream is taken to have waited for it.
const AT_ONCE: i64 = 5_000;
/// Most device events of a step that becomes programs: some ten times the longest step that was met.
const MOST_EVENTS: usize = 1 << 21;
/// So many ops back in time are looked through for what an op waited for.
const LOOK_BACK: usize = 64;

/// A measured step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPrograms {
    /// From the first start of a device event of any rank to the last end.
    pub measured_ns: u64,
    /// One a profile.
    pub ranks: Vec<RankProgram>,
}

/// The program of a rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankProgram {
    /// Number in the job.
    pub rank: u64,
    /// The number of its streams; the host is the first.
    pub streams: u32,
    /// In order of time; the ops of a stream run in this order.
    pub ops: Vec<ProgramOp>,
}

/// An op of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramOp {
    /// Index into the rank's streams.
    pub stream: u32,
    /// The kernel, the copy, or what the host does.
    pub name: String,
    /// Class of the kernel; `host` for the host.
    pub class: String,
    /// The resource that it takes; nothing of the device for the host.
    pub family: Option<Family>,
    /// Time between what it waits for and its start.
    pub lead_ns: u64,
    /// Time from its launch to its start, where its launch was the last that it waited for: it passes beside what runs.
    pub launched_ns: u64,
    /// How long it takes; of a collective with several ranks here, from when all are there.
    pub ns: u64,
    /// Ops of this rank that must have ended, by index.
    pub after: Vec<u32>,
    /// Of communication, what the profile says of it.
    pub collective: Option<TracedCollective>,
}

/// A collective.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedCollective {
    /// `all-reduce`, ….
    pub kind: String,
    /// Bytes of the whole buffer of a rank, if the profile gives its arguments.
    pub bytes: Option<u64>,
    /// Its process group.
    pub group: String,
    /// Ranks of the group; 0 if unknown.
    pub group_size: i64,
    /// Ops of several ranks with the same number begin together.
    pub meets: Option<u32>,
}

/// The programs of the middle step that all profiles mark; of profiles without marks, of all that they hold.
///
/// # Errors
/// Nothing of the step ran on the device, or the next step overlaps it.
pub fn programs(profiles: &[RankEvents]) -> Result<StepPrograms, SpecError> {
    let name = middle_step(profiles);
    let matched = matched(profiles);
    let mut kept: Vec<Vec<u32>> = Vec::new();
    for profile in profiles {
        let mark = name.as_ref().and_then(|name| profile.steps.iter().find(|m| m.name == *name));
        let events = within(profile, mark);
        if events.is_empty() {
            let problem = "nothing that ran on the device was launched in this step";
            return Err(SpecError::file(&profile.file, problem));
        }
        if events.len() > MOST_EVENTS {
            let problem = format!("{} device events in this step, more than {MOST_EVENTS}", events.len());
            return Err(SpecError::file(&profile.file, problem));
        }
        kept.push(events);
    }
    profiles.iter().zip(&kept).try_for_each(|(profile, events)| apart(profile, name.as_deref(), events))?;
    let meets = meets(profiles, &matched, &kept);
    let shift = |r: usize| matched.shifts.get(r).copied().unwrap_or(0);
    let start = |(r, (p, events)): (usize, (&RankEvents, &Vec<u32>))| {
        let first = events.iter().map(|e| p.events[*e as usize].start).min();
        first.unwrap_or(0).saturating_add(shift(r))
    };
    let zero = profiles.iter().zip(&kept).enumerate().map(start).min().unwrap_or(0);
    let mut out = StepPrograms::default();
    for (r, (profile, events)) in profiles.iter().zip(&kept).enumerate() {
        let mut writer = ProgramWriter::new(profile, events, zero.saturating_sub(shift(r)), shift(r));
        writer.write(|event| meets.get(&(r, event)).copied());
        let ends = events.iter().map(|e| profile.events[*e as usize].end).max().unwrap_or(0);
        let length = ends.saturating_add(shift(r)).saturating_sub(zero);
        out.measured_ns = out.measured_ns.max(u64::try_from(length).unwrap_or(0));
        let rank = profile.rank.unwrap_or(r as u64);
        out.ranks.push(RankProgram { rank, streams: writer.done.len() as u32, ops: writer.ops });
    }
    Ok(out)
}

/// The name of the middle step; none where no profile marks any.
fn middle_step(profiles: &[RankEvents]) -> Option<String> {
    let marks = profiles.iter().map(|p| p.steps.iter().map(|m| m.name.as_str()).collect::<Vec<_>>());
    let common: Vec<&str> = marks
        .reduce(|common, own| common.into_iter().filter(|name| own.contains(name)).collect())
        .unwrap_or_default();
    // A mark without any events (the profiler's last, often) is no step to play.
    let mark = |p: &'_ RankEvents, name: &str| p.steps.iter().find(|m| m.name == name).cloned();
    let ran = |name: &&&str| profiles.iter().all(|p| !within(p, mark(p, name).as_ref()).is_empty());
    let ran: Vec<&&str> = common.iter().filter(ran).collect();
    ran.get(ran.len() / 2).or(common.first().as_ref()).map(|name| (**name).to_string())
}

/// The device events of a step, by start: those that were launched in it.
fn within(profile: &RankEvents, mark: Option<&Mark>) -> Vec<u32> {
    let of_step = |event: &DeviceEvent| match mark {
        None => true,
        Some(mark) => profile.launch_of(event).is_some_and(|c| mark.start <= c.start && c.start < mark.end),
    };
    (0..).zip(&profile.events).filter(|(_, e)| of_step(e)).map(|(i, _)| i).collect()
}

/// Part of a step that may run beside the next one's first device events: a copy of its inputs, say.
const OVERLAP: f64 = 0.02;

/// Refuses a step that the next one overlaps on the device: played alone it would be longer than it is in the loop.
fn apart(profile: &RankEvents, name: Option<&str>, events: &[u32]) -> Result<(), SpecError> {
    let at = profile.steps.iter().position(|mark| Some(mark.name.as_str()) == name);
    let Some(next) = at.and_then(|at| profile.steps.get(at + 1)) else { return Ok(()) };
    let start = |events: &[u32]| events.iter().map(|e| profile.events[*e as usize].start).min();
    let end = events.iter().map(|e| profile.events[*e as usize].end).max();
    let (Some(own), Some(end), Some(next)) = (start(events), end, start(&within(profile, Some(next)))) else {
        return Ok(());
    };
    let beside = (end - next) as f64;
    if beside <= OVERLAP * (end - own) as f64 {
        return Ok(());
    }
    let problem = format!(
        "{} and the step behind it overlap on the device by {:.3} ms of {:.3} ms: alone it is no step",
        name.unwrap_or_default(),
        beside / 1e6,
        (end - own) as f64 / 1e6
    );
    Err(SpecError::file(&profile.file, problem))
}

/// For each collective that all its ranks hold in this step: its number and when the last rank came.
fn meets(
    profiles: &[RankEvents],
    matched: &MatchedCollectives,
    kept: &[Vec<u32>],
) -> BTreeMap<(usize, u32), (u32, i64)> {
    let kept: Vec<BTreeSet<u32>> = kept.iter().map(|k| k.iter().copied().collect()).collect();
    let mut out = BTreeMap::new();
    let sets = matched.sets.iter().filter(|set| set.iter().all(|(r, e)| kept[*r].contains(e)));
    for (number, set) in (0..).zip(sets) {
        let start =
            |(r, e): &(usize, u32)| profiles[*r].events[*e as usize].start.saturating_add(matched.shifts[*r]);
        let last = set.iter().map(start).max().unwrap_or(0);
        out.extend(set.iter().map(|place| (*place, (number, last))));
    }
    out
}

/// Writes the program of a rank.
struct ProgramWriter<'a> {
    profile: &'a RankEvents,
    events: &'a [u32],
    zero: i64,
    shift: i64,
    stream_of: BTreeMap<u32, u32>,
    ops: Vec<ProgramOp>,
    /// The op of each device event, and of each launch.
    op_of: BTreeMap<u32, u32>,
    launch_op: BTreeMap<u32, u32>,
    /// When the last op of each stream ended.
    done: Vec<Option<i64>>,
    by_end: Vec<u32>,
    /// By launch, the last device event that it launched.
    launched: BTreeMap<u32, u32>,
}

/// The next event in the order of time.
enum Next<'a> {
    Launch(u32, &'a Call),
    Synchronised(&'a Call),
    Device(u32),
}

impl<'a> ProgramWriter<'a> {
    fn new(profile: &'a RankEvents, events: &'a [u32], zero: i64, shift: i64) -> ProgramWriter<'a> {
        let mut by_end = events.to_vec();
        by_end.sort_by_key(|e| profile.events[*e as usize].end);
        ProgramWriter {
            profile,
            events,
            zero,
            shift,
            stream_of: BTreeMap::new(),
            ops: Vec::new(),
            op_of: BTreeMap::new(),
            launch_op: BTreeMap::new(),
            done: vec![None],
            by_end,
            launched: events.iter().filter_map(|e| Some((profile.events[*e as usize].launch?, *e))).collect(),
        }
    }

    /// The ops that an event waited for, where the file names them; `None` where it names no waits at all.
    fn named_waits(&self, event: &DeviceEvent) -> Option<Vec<(i64, u32)>> {
        if self.profile.waits.is_empty() {
            return None;
        }
        let launches = event.launch.and_then(|launch| self.profile.waits.get(&launch));
        let op = |launch: &u32| {
            let awaited = self.launched.get(launch)?;
            Some((self.event(*awaited).end, *self.op_of.get(awaited)?))
        };
        Some(launches.into_iter().flatten().filter_map(op).collect())
    }

    fn event(&self, event: u32) -> &'a DeviceEvent {
        &self.profile.events[event as usize]
    }

    fn write(&mut self, meets: impl Fn(u32) -> Option<(u32, i64)>) {
        for (_, _, next) in self.order() {
            match next {
                Next::Launch(call, at) => self.launch(call, at),
                Next::Synchronised(call) => self.synchronised(call),
                Next::Device(event) => self.device(event, meets(event)),
            }
        }
    }

    /// Launches, synchronisations and device events in order of time; at the same time the host first.
    fn order(&self) -> Vec<(i64, u8, Next<'a>)> {
        let launches: BTreeSet<u32> = self.events.iter().filter_map(|e| self.event(*e).launch).collect();
        let calls = &self.profile.calls;
        let (first, last) = match (launches.first(), launches.last()) {
            (Some(_), Some(_)) => {
                let starts = || launches.iter().map(|c| calls[*c as usize].start);
                (starts().min().unwrap_or(0), starts().max().unwrap_or(0))
            }
            _ => (0, -1),
        };
        let mut order: Vec<(i64, u8, Next)> = Vec::new();
        for (number, call) in (0..).zip(calls) {
            if launches.contains(&number) {
                order.push((call.start, 0, Next::Launch(number, call)));
            } else if call.does == Does::Synchronize && (first..last).contains(&call.start) {
                order.push((call.end, 0, Next::Synchronised(call)));
            }
        }
        order.extend(self.events.iter().map(|e| (self.event(*e).start, 1, Next::Device(*e))));
        order.sort_by_key(|(at, kind, _)| (*at, *kind));
        order
    }

    fn push(&mut self, op: ProgramOp) -> u32 {
        self.ops.push(op);
        self.ops.len() as u32 - 1
    }

    /// Work of the host up to a moment, behind what it waits for. How it came to the first call of the step is not in
    /// the step: that time is the lead of the call.
    fn host(&mut self, name: &str, from: Option<i64>, to: i64, after: Vec<u32>) -> u32 {
        self.done[0] = self.done[0].max(Some(to));
        let (name, class) = (name.to_string(), "host".to_string());
        let (lead_ns, ns) = match from {
            Some(from) => (0, positive(to - from)),
            None => (positive(to - self.zero), 0),
        };
        self.push(ProgramOp { stream: 0, name, class, lead_ns, ns, after, ..ProgramOp::default() })
    }

    /// A call before the step's first device event is as good as one at that moment: the host runs ahead.
    fn launch(&mut self, number: u32, call: &Call) {
        let op = self.host("launch", self.done[0], call.start.max(self.zero), Vec::new());
        self.launch_op.insert(number, op);
    }

    fn synchronised(&mut self, call: &Call) {
        if call.end <= self.zero {
            return;
        }
        let begun = call.start.max(self.zero);
        if self.done[0].is_none_or(|done| done < begun) {
            self.host("before a synchronisation", self.done[0], begun, Vec::new());
        }
        let from = self.done[0].unwrap_or(begun);
        let awaited = self.last_ended(call.end, |event| {
            self.profile.launch_of(event).is_none_or(|launch| launch.start <= call.start)
        });
        let after: Vec<u32> = awaited.iter().filter_map(|e| self.op_of.get(e)).copied().collect();
        let reached = awaited.filter(|_| !after.is_empty()).map_or(from, |e| self.event(e).end.max(from));
        if call.end > from {
            self.host("synchronisation", Some(reached), call.end, after);
        }
    }

    /// The device event that ended last up to a moment, of those that may be meant.
    fn last_ended(&self, at: i64, may: impl Fn(&DeviceEvent) -> bool) -> Option<u32> {
        let up_to = self.by_end.partition_point(|e| self.event(*e).end <= at);
        self.by_end[..up_to].iter().rev().take(LOOK_BACK).find(|e| may(self.event(**e))).copied()
    }

    fn device(&mut self, number: u32, meets: Option<(u32, i64)>) {
        let event = self.event(number);
        let stream = self.stream(event.stream);
        let before = self.done[stream as usize];
        let mut ready = before;
        let mut launched = None;
        let mut after = Vec::new();
        let call = self.profile.launch_of(event).filter(|launch| launch.start <= event.start);
        if let Some((launch, op)) = call.zip(event.launch.and_then(|l| self.launch_op.get(&l)).copied()) {
            launched = Some(launch.start).filter(|at| *at >= self.zero && ready.is_none_or(|r| r < *at));
            ready = ready.max(Some(launch.start.max(self.zero)));
            after.push(op);
        }
        let named = self.named_waits(event);
        for (ended, op) in named.iter().flatten().filter(|(ended, _)| *ended <= event.start) {
            ready = ready.max(Some(*ended));
            after.push(*op);
        }
        let flagged = event.launch.is_some() && waited(self.profile, event);
        let other = self.last_ended(event.start, |e| e.stream != event.stream).filter(|_| named.is_none());
        if let Some((other, op)) = other.and_then(|o| Some((self.event(o), *self.op_of.get(&o)?))) {
            let at_once = other.end + AT_ONCE >= event.start && ready.is_none_or(|r| r < other.end);
            if flagged || at_once {
                ready = ready.max(Some(other.end));
                after.push(op);
            }
        }
        let lead = positive(event.start - ready.unwrap_or(self.zero));
        let (lead_ns, launched_ns) =
            if launched.is_some() && launched == ready { (0, lead) } else { (lead, 0) };
        let end = self.end(number, event);
        let from = meets.map_or(event.start, |(_, last)| {
            last.saturating_sub(self.shift).clamp(event.start, end.max(event.start))
        });
        let class = self.profile.class_of(event);
        let op = ProgramOp {
            stream,
            name: self.profile.name_of(event).to_string(),
            class: class.class.clone(),
            family: Some(class.family),
            lead_ns,
            launched_ns,
            ns: positive(end - from),
            after,
            collective: self.collective(event, meets.map(|m| m.0)),
        };
        self.done[stream as usize] = Some(end);
        let op = self.push(op);
        self.op_of.insert(number, op);
    }

    /// The end of an event, no later than the start of the next on its stream.
    fn end(&self, number: u32, event: &DeviceEvent) -> i64 {
        let place = self.events.partition_point(|e| *e <= number);
        let next = self.events[place..].iter().map(|e| self.event(*e));
        let next = next.take_while(|e| e.start < event.end).find(|e| e.stream == event.stream);
        next.map_or(event.end, |next| next.start)
    }

    fn stream(&mut self, stream: u32) -> u32 {
        if let Some(number) = self.stream_of.get(&stream) {
            return *number;
        }
        let number = self.done.len() as u32;
        self.done.push(None);
        self.stream_of.insert(stream, number);
        number
    }

    fn collective(&self, event: &DeviceEvent, meets: Option<u32>) -> Option<TracedCollective> {
        if event.family != Family::Communication {
            return None;
        }
        let args = event.collective.map(|c| &self.profile.collectives[c as usize]);
        Some(TracedCollective {
            kind: self.profile.kind_of(event).to_string(),
            bytes: args.and_then(super::model::CollectiveArgs::bytes),
            group: args.map_or(String::new(), |a| a.group.clone()),
            group_size: args.map_or(0, |a| a.group_size),
            meets,
        })
    }
}

fn positive(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}
