//! Collectives of several ranks beside each other: who came last, and how long the others waited for it.
//!
//! Collectives of a process group are matched by their order. Profiles need not begin at the same one, so each rank's
//! list is shifted against the first rank's until kind, element type and size agree best. A collective ends on all
//! its ranks at nearly the same time; where the ends of a rank lie apart from the others' by a constant that is large
//! against its spread, its clock differs, and its times are moved by that constant.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classes::Family;
use super::model::{DeviceEvent, RankEvents};

/// Shifts that are tried in each direction.
const SHIFTS: i64 = 64;

/// Nanoseconds by which time stamps of one moment differ.
const ROUNDING: i64 = 2;

/// A clock is taken to differ by no less than this, in nanoseconds.
const LEAST_OFFSET: i64 = 200_000;

/// Collectives of several ranks, matched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Skew {
    /// Collectives that were matched over all given ranks of their group.
    pub matched: u64,
    /// Collectives without counterpart or without arguments.
    pub unmatched: u64,
    /// By rank: how it came to collectives.
    pub ranks: Vec<RankSkew>,
    /// The matched ones in order of time.
    pub rows: Vec<SkewedCollective>,
}

/// How a rank came to collectives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankSkew {
    /// Number in the job.
    pub rank: u64,
    /// Collectives to which it came last.
    pub last: u64,
    /// Time by which it came after the last of the others, in all.
    pub waited_for_s: f64,
    /// Time that it waited for the last one, in all.
    pub waits_s: f64,
    /// The lead of its clock over the first rank's, where the clocks differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_s: Option<f64>,
}

/// A matched collective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkewedCollective {
    /// As the profiler names it.
    pub name: String,
    /// Its process group.
    pub group: String,
    /// Bytes of the whole buffer of a rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its first start, from the start of the first row.
    pub first_s: f64,
    /// Last start − first start.
    pub skew_s: f64,
    /// First end − last start: the time with all ranks in, an estimate of the transfer from below.
    pub active_s: f64,
    /// The rank that came last.
    pub last_rank: u64,
}

/// The fields that must agree between collectives that belong together. Sizes of an all-to-all may differ by rank.
type Signature<'a> = (&'a str, &'a str, i64);

fn signature<'a>(profile: &'a RankEvents, event: &DeviceEvent) -> Option<(&'a str, Signature<'a>)> {
    let args = &profile.collectives[event.collective? as usize];
    let message = args.name == "send" || args.name == "recv";
    let uneven = message || args.name.contains("all_to_all");
    let size = if uneven { 0 } else { args.elements_in.max(args.elements_out) };
    // The two ends of a message belong together.
    let name = if message { "send and receive" } else { args.name.as_str() };
    (args.group_size != 1 && !args.dtype.is_empty())
        .then_some((args.group.as_str(), (name, args.dtype.as_str(), size)))
}

/// A collective's signature, its start and end, and the number of its event in the profile.
type Met<'a> = (Signature<'a>, i64, i64, u32);

/// A rank's collectives of one group.
struct GroupCollectives<'a> {
    rank: usize,
    calls: Vec<Met<'a>>,
    shift: i64,
}

impl GroupCollectives<'_> {
    fn at(&self, i: i64) -> Option<&Met<'_>> {
        usize::try_from(i + self.shift).ok().and_then(|i| self.calls.get(i))
    }
}

/// Matches the collectives of profiles of different ranks. `None` with fewer than two ranks.
pub fn skew(profiles: &[RankEvents]) -> Option<Skew> {
    let real: Vec<(u64, &RankEvents)> = profiles
        .iter()
        .enumerate()
        .filter(|(_, p)| !p.simulated)
        .map(|(i, p)| (p.rank.unwrap_or(i as u64), p))
        .collect();
    if real.len() < 2 {
        return None;
    }
    let mut out = Skew::default();
    let mut groups = lists(&real, &mut out.unmatched);
    for lists in groups.values_mut() {
        align(lists);
    }
    let offsets = clocks(&groups, real.len());
    let mut ranks: Vec<RankSkew> =
        real.iter().map(|(rank, _)| RankSkew { rank: *rank, ..RankSkew::default() }).collect();
    for (rank, offset) in ranks.iter_mut().zip(&offsets) {
        rank.clock_offset_s = offset.map(super::clock::seconds);
    }
    let mut rows: Vec<(i64, SkewedCollective)> = Vec::new();
    for (group, lists) in &groups {
        for i in matches(lists) {
            let starts: Vec<(i64, usize)> = lists
                .iter()
                .filter_map(|l| Some((l.at(i)?.1.saturating_sub(offsets[l.rank].unwrap_or(0)), l.rank)))
                .collect();
            let ends =
                lists.iter().filter_map(|l| Some(l.at(i)?.2.saturating_sub(offsets[l.rank].unwrap_or(0))));
            let (Some(first), Some(last), Some(end)) = (starts.iter().min(), starts.iter().max(), ends.min())
            else {
                continue;
            };
            let second = starts.iter().filter(|s| s.1 != last.1).max().unwrap_or(last);
            // Within the rounding of time stamps nobody came last.
            ranks[last.1].last += u64::from(last.0 - second.0 > ROUNDING);
            ranks[last.1].waited_for_s += super::clock::seconds(last.0.saturating_sub(second.0));
            for (start, rank) in &starts {
                ranks[*rank].waits_s += super::clock::seconds(last.0.saturating_sub(*start));
            }
            let (name, _, _) = lists[0].at(i).map_or(("", "", 0), |c| c.0);
            let bytes = bytes(real[lists[0].rank].1, group, lists[0].at(i).map(|c| c.0));
            rows.push((
                first.0,
                SkewedCollective {
                    name: name.to_string(),
                    group: (*group).to_string(),
                    bytes,
                    first_s: 0.0,
                    skew_s: super::clock::seconds(last.0.saturating_sub(first.0)),
                    active_s: super::clock::seconds(end.saturating_sub(last.0)),
                    last_rank: real[last.1].0,
                },
            ));
        }
        let matched = matches(lists).count();
        out.unmatched +=
            lists.iter().map(|l| (l.calls.len() - matched.min(l.calls.len())) as u64).sum::<u64>();
        out.matched += matched as u64;
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.group.cmp(&b.1.group)));
    let zero = rows.first().map_or(0, |r| r.0);
    out.rows = rows
        .into_iter()
        .map(|(first, row)| SkewedCollective {
            first_s: super::clock::seconds(first.saturating_sub(zero)),
            ..row
        })
        .collect();
    out.ranks = ranks;
    Some(out)
}

/// Collectives that belong together, for who needs the events themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct MatchedCollectives {
    /// For each profile, what brings its times to the clock of the first.
    pub shifts: Vec<i64>,
    /// Each collective: (profile, event) of those that take part.
    pub sets: Vec<Vec<(usize, u32)>>,
}

/// The collectives that all given profiles of their groups hold.
pub(super) fn matched(profiles: &[RankEvents]) -> MatchedCollectives {
    let Some(base) = profiles.first().map(|p| p.base_ns) else { return MatchedCollectives::default() };
    let real: Vec<(u64, &RankEvents)> = (0..).zip(profiles).collect();
    let mut groups = lists(&real, &mut 0);
    groups.values_mut().for_each(|lists| align(lists));
    let offsets = clocks(&groups, real.len());
    let shift = |(p, offset): (&RankEvents, &Option<i64>)| {
        p.base_ns.saturating_sub(base).saturating_sub(offset.unwrap_or(0))
    };
    let mut out =
        MatchedCollectives { shifts: profiles.iter().zip(&offsets).map(shift).collect(), sets: Vec::new() };
    for lists in groups.values() {
        let set = |i| lists.iter().filter_map(|l| Some((l.rank, l.at(i)?.3))).collect();
        out.sets.extend(matches(lists).map(set));
    }
    out
}

/// The collectives by group, then rank, in order of their starts.
fn lists<'a>(
    real: &[(u64, &'a RankEvents)],
    unmatched: &mut u64,
) -> BTreeMap<&'a str, Vec<GroupCollectives<'a>>> {
    let base = real[0].1.base_ns;
    let mut groups: BTreeMap<&str, Vec<GroupCollectives>> = BTreeMap::new();
    for (rank, (_, profile)) in real.iter().enumerate() {
        let ahead = profile.base_ns.saturating_sub(base);
        let communication = |e: &(u32, &DeviceEvent)| e.1.family == Family::Communication;
        for (number, event) in (0..).zip(&profile.events).filter(communication) {
            let Some((group, signature)) = signature(profile, event) else {
                *unmatched += 1;
                continue;
            };
            let lists = groups.entry(group).or_default();
            if lists.last().is_none_or(|l| l.rank != rank) {
                lists.push(GroupCollectives { rank, calls: Vec::new(), shift: 0 });
            }
            let last = lists.len() - 1;
            let (start, end) = (event.start.saturating_add(ahead), event.end.saturating_add(ahead));
            lists[last].calls.push((signature, start, end, number));
        }
    }
    // A group with one rank alone here has nobody to be matched with.
    *unmatched +=
        groups.values().filter(|l| l.len() < 2).flatten().map(|l| l.calls.len() as u64).sum::<u64>();
    groups.retain(|_, lists| lists.len() > 1);
    groups
}

/// Shifts each list against the first so that most signatures agree; of equal shifts, the one with the nearest ends.
fn align(lists: &mut [GroupCollectives]) {
    let (first, others) = lists.split_at_mut(1);
    let first = &first[0];
    for list in others {
        let best = (-SHIFTS..=SHIFTS).map(|shift| {
            let (mut agree, mut differ, mut apart) = (0_i64, 0_i64, 0_i128);
            for (i, call) in first.calls.iter().enumerate() {
                match usize::try_from(i as i64 + shift).ok().and_then(|i| list.calls.get(i)) {
                    Some(other) if other.0 == call.0 => {
                        agree += 1;
                        apart += i128::from(other.2.saturating_sub(call.2)).abs();
                    }
                    Some(_) => differ += 1,
                    None => {}
                }
            }
            let mean = apart / i128::from(agree.max(1));
            (std::cmp::Reverse(agree - 2 * differ), mean, shift.abs(), shift)
        });
        list.shift = best.min().map_or(0, |b| b.3);
    }
}

/// Indices (of the first list) at which all ranks have the same collective.
fn matches<'a>(lists: &'a [GroupCollectives]) -> impl Iterator<Item = i64> + 'a {
    (0..lists[0].calls.len() as i64).filter(move |&i| {
        let first = lists[0].at(i).map(|c| c.0);
        lists.iter().all(|l| l.at(i).map(|c| c.0) == first)
    })
}

/// The lead of each rank's clock over the first rank's; `None` where it is not told apart from it.
fn clocks(groups: &BTreeMap<&str, Vec<GroupCollectives>>, ranks: usize) -> Vec<Option<i64>> {
    let mut apart: Vec<Vec<i64>> = vec![Vec::new(); ranks];
    for lists in groups.values().filter(|l| l[0].rank == 0) {
        for i in matches(lists) {
            let Some(end) = lists[0].at(i).map(|c| c.2) else { continue };
            for list in &lists[1..] {
                apart[list.rank].extend(list.at(i).map(|c| c.2.saturating_sub(end)));
            }
        }
    }
    let offset = |mut ends: Vec<i64>| {
        ends.sort_unstable();
        let median = *ends.get(ends.len() / 2)?;
        let mut spread: Vec<i64> = ends.iter().map(|e| e.saturating_sub(median).saturating_abs()).collect();
        spread.sort_unstable();
        let spread = spread[spread.len() / 2];
        (median.saturating_abs() >= LEAST_OFFSET && median.saturating_abs() / 4 > spread).then_some(median)
    };
    apart.into_iter().map(offset).collect()
}

fn bytes(profile: &RankEvents, group: &str, signature: Option<Signature>) -> Option<u64> {
    let (name, dtype, size) = signature?;
    let same = profile.collectives.iter().find(|c| {
        c.name == name && c.dtype == dtype && c.group == group && size == c.elements_in.max(c.elements_out)
    });
    same?.bytes()
}
