//! The readings of profiles as one value, for JSON and for people.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breakdown::{DeviceBreakdown, Sets, same_stream_overlaps};
use super::classes::Family;
use super::clock::seconds;
use super::idle;
use super::idle::IdleGap;
use super::model::{DeviceEvent, Mark, RankEvents};
use super::skew::{Skew, skew};
use super::waterfall::MeasuredWaterfall;
use stepsim_core::intervals::Intervals;
use stepsim_read::analysis::candidates::Candidate;

/// The device events that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// All that the file holds.
    #[default]
    All,
    /// Those whose launch is in the file too: what was launched before the profiler began is left out.
    Linked,
}

/// Everything that is said of some profiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileReport {
    /// The device events of the times in seconds.
    pub window: Window,
    /// One a rank, in order of their numbers.
    pub ranks: Vec<RankProfile>,
    /// Collectives of several ranks beside each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectives: Option<Skew>,
    /// Ranks of the job whose profile was not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_ranks: Vec<u64>,
    /// The candidates that count most in one sentence, as reports of `run` have it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hangs_on: String,
    /// Candidates: the step played again with each otherwise; those of the sentence first, then the dearest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The step as it is played unchanged, where candidates were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played_s: Option<f64>,
    /// Why it was not played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_played: Option<String>,
    /// Files that held nothing to read, with why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// The reading of one rank. Times are of the whole window, which may hold several steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankProfile {
    /// Number in the job; of files that do not say, their place in the order given.
    pub rank: u64,
    /// The file.
    pub file: String,
    /// Name of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Ranks of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world_size: Option<u64>,
    /// One step: the median of the steps marked in the file, else the window.
    pub step_s: f64,
    /// The steps that are marked.
    pub steps: Vec<StepProfile>,
    /// From the first start to the last end of a device event.
    pub window_s: f64,
    /// Computing kernels ran.
    pub compute_s: f64,
    /// Copies and fills of the driver ran.
    pub copies_s: f64,
    /// Communication ran.
    pub communication_s: f64,
    /// Communication ran and no computing kernel; of a simulated step, that stood still for it.
    pub exposed_communication_s: f64,
    /// Communication by kind. Kinds that run at the same time each count.
    pub communication: BTreeMap<String, KindProfile>,
    /// Nothing ran, by cause; sums to the idle time.
    pub idle_s: BTreeMap<String, f64>,
    /// Device events by class.
    pub kernels: BTreeMap<String, ClassProfile>,
    /// Model FLOPs over what the device could have done in a step, where a model is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// From the peak to MFU, where a model is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waterfall: Option<MeasuredWaterfall>,
    /// The same times as integers, over both windows.
    pub ns: ProfileWindows,
    /// Of a file with several devices: each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices_ns: BTreeMap<String, DeviceBreakdown>,
    /// The streams.
    pub streams: Vec<StreamProfile>,
    /// The longest stretches without computing kernels and copies.
    pub gaps: Vec<IdleGap>,
    /// Device events whose launch is not in the file.
    pub without_launch: u64,
    /// Device events that start before an earlier one on the same stream has ended.
    pub same_stream_overlaps: u64,
    /// `cpu_op` events with a stream argument, which are no device events.
    pub cpu_ops_with_stream_arg: u64,
    /// The kinds of events passed over, and their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, u64>,
}

/// Times in nanoseconds over both windows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileWindows {
    /// Of all device events.
    pub all: DeviceBreakdown,
    /// Of those whose launch is in the file; left out where that is all or none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<DeviceBreakdown>,
}

/// A step as its mark on the host says, and the device events that were launched during it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepProfile {
    /// `ProfilerStep#N`.
    pub name: String,
    /// Start, in nanoseconds of the file's clock.
    pub start_ns: i64,
    /// Length of the mark.
    pub duration_ns: i64,
    /// Device events launched during it.
    pub events: u64,
    /// Their times, in nanoseconds.
    pub device_ns: DeviceBreakdown,
    /// True if they overlap a neighbouring step's (a loop that works ahead): then `device_ns` is of all that ran in
    /// the step's period, up to the first device event of the next step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlaps: bool,
}

/// Communication of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindProfile {
    /// Device events.
    pub count: u64,
    /// Time in which one ran.
    pub ran_s: f64,
    /// The part under computing kernels.
    pub under_kernels_s: f64,
    /// The rest; of a simulated step the part of it for which the compute stream stood still for it.
    pub exposed_s: f64,
    /// And the part for which that stood still for something else, which a profile does not tell apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub while_idle_s: f64,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Device events of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassProfile {
    /// The resource that they take.
    pub family: Family,
    /// The kind of their work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work: String,
    /// How many.
    pub count: u64,
    /// Sum of their durations.
    pub total_s: f64,
}

/// A stream of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamProfile {
    /// The device, as the file writes it.
    pub device: String,
    /// The stream, as the file writes it.
    pub stream: String,
    /// Device events.
    pub events: u64,
    /// Those that are communication.
    pub comm_events: u64,
    /// Time in which one ran, in nanoseconds.
    pub busy_ns: i64,
}

/// Reads profiles. They are put in order of their ranks.
pub fn report(profiles: &mut [RankEvents], window: Window) -> ProfileReport {
    profiles.sort_by_key(|p| p.rank);
    let ranks = profiles.iter().enumerate().map(|(i, p)| rank(p, i as u64, window)).collect();
    let world = profiles.iter().filter_map(|p| p.world_size).max().unwrap_or(0);
    let missing = |rank: &u64| !profiles.iter().any(|p| p.rank == Some(*rank));
    ProfileReport {
        window,
        ranks,
        collectives: skew(profiles),
        // A world size that no list of ranks can fill is a broken number.
        missing_ranks: (0..world.min(1 << 20)).filter(missing).collect(),
        ..ProfileReport::default()
    }
}

fn rank(profile: &RankEvents, place: u64, window: Window) -> RankProfile {
    let linked: Vec<DeviceEvent> = profile.events.iter().filter(|e| e.launch.is_some()).copied().collect();
    let without_launch = (profile.events.len() - linked.len()) as u64;
    let some_linked = !linked.is_empty() && without_launch > 0;
    let (mut all, of_linked) = (Sets::of(&profile.events), Sets::of(&linked));
    if let (true, [first, ..]) = (profile.simulated, profile.steps.as_slice()) {
        all.window = (first.start, profile.steps[profile.steps.len() - 1].end);
    }
    let ns = ProfileWindows { all: all.breakdown(), linked: some_linked.then(|| of_linked.breakdown()) };
    let (events, sets) = match window {
        Window::Linked if some_linked => (&linked, &of_linked),
        _ => (&profile.events, &all),
    };
    let times = sets.breakdown();
    let pieces = idle::pieces(profile, events, sets);
    let mut durations: Vec<i64> = profile.steps.iter().map(|s| s.end - s.start).collect();
    durations.sort_unstable();
    let step = durations.get(durations.len() / 2).copied().unwrap_or(times.window);
    RankProfile {
        rank: profile.rank.unwrap_or(place),
        file: profile.file.clone(),
        device: profile.device.clone(),
        world_size: profile.world_size,
        step_s: seconds(step),
        steps: steps(profile),
        window_s: seconds(times.window),
        compute_s: seconds(times.compute),
        copies_s: seconds(times.mem),
        communication_s: seconds(times.comm),
        exposed_communication_s: match profile.simulated {
            true => seconds(profile.kinds.iter().filter_map(|kind| profile.exposed.get(kind)).sum()),
            false => seconds(times.comm_exposed),
        },
        communication: communication(profile, events, sets),
        idle_s: idle::by_cause(&pieces),
        kernels: kernels(profile, events),
        mfu: None,
        waterfall: None,
        ns,
        devices_ns: devices(profile),
        streams: streams(profile),
        gaps: idle::gaps(profile, events, sets, &pieces),
        without_launch: if profile.simulated { 0 } else { without_launch },
        same_stream_overlaps: same_stream_overlaps(&profile.events, profile.streams.len()),
        cpu_ops_with_stream_arg: profile.cpu_ops_with_stream,
        skipped: profile.skipped.clone(),
    }
}

fn steps(profile: &RankEvents) -> Vec<StepProfile> {
    let launched = |mark: &Mark| -> Vec<DeviceEvent> {
        let within = |e: &&DeviceEvent| match profile.launch_of(e) {
            Some(call) => mark.start <= call.start && call.start < mark.end,
            None => profile.simulated && mark.start <= e.start && e.start < mark.end,
        };
        profile.events.iter().filter(within).copied().collect()
    };
    let of_steps: Vec<Vec<DeviceEvent>> = profile.steps.iter().map(launched).collect();
    let windows: Vec<(i64, i64)> = of_steps.iter().map(|events| Sets::of(events).window).collect();
    let runs = |i: &usize| !of_steps[*i].is_empty();
    let step = |(i, mark): (usize, &Mark)| {
        let (start, end) = windows[i];
        let next = (i + 1..windows.len()).find(runs).map(|j| windows[j].0).filter(|next| *next > start);
        let before = (0..i).rev().find(runs).is_some_and(|j| windows[j].1 > start);
        let overlaps = runs(&i) && (before || next.is_some_and(|next| next < end));
        let period = (start, next.unwrap_or(end));
        let sets = match overlaps {
            true => Sets { window: period, ..Sets::of(&clipped(&profile.events, period)) },
            false => Sets::of(&of_steps[i]),
        };
        StepProfile {
            name: mark.name.clone(),
            start_ns: mark.start,
            duration_ns: mark.end - mark.start,
            events: of_steps[i].len() as u64,
            device_ns: sets.breakdown(),
            overlaps,
        }
    };
    profile.steps.iter().enumerate().map(step).collect()
}

/// The parts of some events in a stretch of time.
fn clipped(events: &[DeviceEvent], (from, to): (i64, i64)) -> Vec<DeviceEvent> {
    let part = |e: &DeviceEvent| DeviceEvent { start: e.start.max(from), end: e.end.min(to), ..*e };
    events.iter().map(part).filter(|e| e.start < e.end).collect()
}

fn communication(profile: &RankEvents, events: &[DeviceEvent], sets: &Sets) -> BTreeMap<String, KindProfile> {
    let mut by_kind: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for event in events.iter().filter(|e| e.kind.is_some()) {
        by_kind.entry(profile.kind_of(event)).or_default().push((event.start, event.end));
    }
    let kind = |(name, list): (&str, Vec<(i64, i64)>)| {
        let count = list.len() as u64;
        let ran = Intervals::union(list);
        let (length, under) = (ran.length(), ran.meet(&sets.compute).length());
        let exposed = match profile.simulated {
            true => profile.exposed.get(name).copied().unwrap_or(0),
            false => length - under,
        };
        let times = KindProfile {
            count,
            ran_s: seconds(length),
            under_kernels_s: seconds(under),
            exposed_s: seconds(exposed),
            while_idle_s: seconds(length - under - exposed),
        };
        (name.to_string(), times)
    };
    by_kind.into_iter().map(kind).collect()
}

fn kernels(profile: &RankEvents, events: &[DeviceEvent]) -> BTreeMap<String, ClassProfile> {
    let mut sums: BTreeMap<&super::classes::EventClass, (u64, i64)> = BTreeMap::new();
    for event in events {
        let sum = sums.entry(profile.class_of(event)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(event.end - event.start));
    }
    let mut out = BTreeMap::new();
    for (class, (count, ns)) in sums {
        let sum = out.entry(class.class.clone()).or_insert_with(|| ClassProfile {
            family: class.family,
            work: class.work.clone(),
            count: 0,
            total_s: 0.0,
        });
        sum.count += count;
        sum.total_s += seconds(ns);
    }
    out
}

/// Each device of a file that holds several.
fn devices(profile: &RankEvents) -> BTreeMap<String, DeviceBreakdown> {
    let mut by_device: BTreeMap<&str, Vec<DeviceEvent>> = BTreeMap::new();
    for event in &profile.events {
        by_device.entry(&profile.streams[event.stream as usize].0).or_default().push(*event);
    }
    if by_device.len() < 2 {
        return BTreeMap::new();
    }
    by_device.into_iter().map(|(name, events)| (name.to_string(), Sets::of(&events).breakdown())).collect()
}

fn streams(profile: &RankEvents) -> Vec<StreamProfile> {
    let mut spans = vec![Vec::new(); profile.streams.len()];
    let mut comm = vec![0_u64; profile.streams.len()];
    for event in &profile.events {
        spans[event.stream as usize].push((event.start, event.end));
        comm[event.stream as usize] += u64::from(event.family == Family::Communication);
    }
    let rows = profile.streams.iter().zip(spans).zip(comm);
    let rows = rows.map(|(((device, stream), spans), comm_events)| {
        let events = spans.len() as u64;
        let busy_ns = Intervals::union(spans).length();
        StreamProfile { device: device.clone(), stream: stream.clone(), events, comm_events, busy_ns }
    });
    let mut rows: Vec<_> = rows.filter(|s| s.events > 0).collect();
    rows.sort_by(|a, b| (&a.device, &a.stream).cmp(&(&b.device, &b.stream)));
    rows
}
