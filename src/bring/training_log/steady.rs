//! Steps over time: the steady one, told from warm-up, checkpoints and stalls, drift and sick periods.
//!
//! A *spike* is a line or two far above those around them. A *warm-up* is what is slow at the beginning. What is left
//! is cut where its level changes (least squares on logarithms, against the noise between neighbours); the longest
//! piece is the *steady* step with all that are of its level, others are *periods* of their own, and pieces that rise
//! or fall one after the other are a *drift*.

use super::line::LogPoint;

/// A line is a spike above this many times the median of its neighbours.
const SPIKE: f64 = 1.3;
/// Neighbours on each side.
const NEIGHBOURS: usize = 5;
/// Lines at the beginning above this many times the median warm up.
const WARM: f64 = 1.1;
/// A level changes by more than this, on a scale of logarithms.
const CHANGE: f64 = 0.04;
/// And by this number of standard errors.
const ERRORS: f64 = 6.0;
/// The least lines of a period.
const PERIOD: usize = 4;
/// Pieces that make a drift.
const DRIFT: usize = 3;

/// A period with a step of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyPeriod {
    /// Its first and last step, or line where steps have no numbers.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// Its median.
    pub median: f64,
}

/// The steps of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steady {
    /// Median of the steady step; the mean where clocks are `rounded`.
    pub median: f64,
    /// True if the clocks are of whole seconds.
    pub rounded: bool,
    /// Half of what lies between the first and last tenth of the steady lines, over the median.
    pub spread: f64,
    /// Steady lines.
    pub lines: usize,
    /// Lines that warmed up.
    pub warm_up: usize,
    /// Steps that took far longer than those around them, and how many times as long.
    pub spikes: Vec<(u64, f64)>,
    /// The number of steps between spikes, where it is one: checkpoints, evaluations.
    pub every: Option<u64>,
    /// Periods beside the steady one.
    pub periods: Vec<SteadyPeriod>,
    /// The change from the first piece to the last, where all of them rise or fall.
    pub drift: Option<f64>,
    /// Times that the number of the step went back: what is before the last is left out.
    pub restarts: usize,
    /// All times in order, for a picture.
    pub times: Vec<f64>,
}

impl Steady {
    /// The steady step of points, a mean of all where each is `rounded`; `None` where there are none.
    pub(super) fn of(points: &[LogPoint], rounded: bool) -> Option<Steady> {
        let (points, restarts) = last_run(points);
        let points = by_step(points);
        let times: Vec<f64> = points.iter().map(|p| p.1).collect();
        let middle = median(&times)?;
        let is_spike: Vec<bool> = (0..times.len()).map(|i| times[i] > SPIKE * around(&times, i)).collect();
        let warm = times.iter().take_while(|t| **t > WARM * middle).count().min(times.len() / 2);
        let warm = warm.max(usize::from(times.len() >= 3));
        let kept: Vec<usize> = (warm..times.len()).filter(|i| !is_spike[*i]).collect();
        let kept = if kept.is_empty() { (0..times.len()).collect() } else { kept };
        let pieces = pieces(&kept.iter().map(|i| times[*i].ln()).collect::<Vec<_>>());
        let of =
            |piece: &[usize; 2]| kept[piece[0]..piece[1]].iter().map(|i| times[*i]).collect::<Vec<f64>>();
        let period = |piece: &[usize; 2]| {
            let (from, to) = (points[kept[piece[0]]].0, points[kept[piece[1] - 1]].0);
            Some(SteadyPeriod { from, to, median: median(&of(piece))? })
        };
        let longest = pieces.iter().max_by_key(|piece| piece[1] - piece[0])?;
        let all: Vec<SteadyPeriod> = pieces.iter().filter_map(period).collect();
        let rises = |rise: bool| all.windows(2).all(|pair| (pair[1].median > pair[0].median) == rise);
        let drifts = all.len() >= DRIFT && (rises(true) || rises(false));
        // Pieces of the level of the longest are the steady step too, unless all drift.
        let level = median(&of(longest))?;
        let is_level = |median: f64| !drifts && (median / level).ln().abs() <= CHANGE;
        let pooled =
            pieces.iter().filter(|piece| *piece == longest || median(&of(piece)).is_some_and(is_level));
        let pooled: Vec<&[usize; 2]> = pooled.collect();
        let of_pool = pooled.iter().flat_map(|piece| &kept[piece[0]..piece[1]]);
        let (seconds, steps) =
            of_pool.fold((0.0, 0.0), |sum, i| (sum.0 + times[*i] * points[*i].2, sum.1 + points[*i].2));
        let mut steady: Vec<f64> = pooled.into_iter().flat_map(&of).collect();
        steady.sort_by(f64::total_cmp);
        let at = |part: f64| steady[((steady.len() - 1) as f64 * part).round() as usize];
        let middle = if rounded { seconds / steps } else { median(&steady)? };
        let spikes =
            (warm..times.len()).filter(|i| is_spike[*i]).map(|i| (points[i].0, times[i] / around(&times, i)));
        let spikes: Vec<(u64, f64)> = spikes.collect();
        Some(Steady {
            median: middle,
            rounded,
            spread: (at(0.9) - at(0.1)) / 2.0 / middle,
            lines: steady.len(),
            warm_up: warm,
            every: period_of(&spikes),
            spikes,
            drift: drifts.then(|| all[all.len() - 1].median / all[0].median - 1.0),
            periods: if drifts {
                Vec::new()
            } else {
                all.into_iter().filter(|p| !is_level(p.median)).collect()
            },
            restarts,
            times,
        })
    }

    /// The standard error of the median, as a part of it: 1.25 deviations over the root of the lines.
    pub fn error(&self) -> f64 {
        1.25 * self.spread / 1.28 / (self.lines as f64).sqrt()
    }

    /// In words, with times of `scale` seconds.
    pub fn words(&self, scale: f64) -> String {
        self.told(&|time| format!("{:.3} s", time * scale))
    }

    /// In words, with the words for a time.
    pub(super) fn told(&self, step: &dyn Fn(f64) -> String) -> String {
        let spread = if self.lines > 1 { format!(" ± {:.1} %", 100.0 * self.spread) } else { String::new() };
        let of = if self.rounded { "mean" } else { "median" };
        let mut parts = vec![format!("steady {}{spread} ({of} of {})", step(self.median), self.lines)];
        if self.warm_up > 0 {
            parts.push(format!("{} to warm up", self.warm_up));
        }
        let longest = self.spikes.iter().map(|s| s.1).fold(0.0, f64::max);
        match (self.every, self.spikes.len()) {
            (_, 0) => {}
            (Some(every), n) => {
                parts.push(format!("{n} far longer, each {every} steps (checkpoint or evaluation?)"))
            }
            (None, n) => parts.push(format!("{n} stalls, the longest {longest:.1} times a step")),
        }
        for p in &self.periods {
            let word = if p.median > self.median { "slow" } else { "fast" };
            parts.push(format!("{word} from {} to {}: {}", p.from, p.to, step(p.median)));
        }
        if let Some(drift) = self.drift {
            parts.push(format!("drifts by {:+.0} %", 100.0 * drift));
        }
        if self.restarts > 0 {
            parts.push(format!("started again {} times, the last counts", self.restarts));
        }
        parts.join("; ")
    }

    /// A picture of one line: the times in order, from the least to the most that is no spike.
    pub fn picture(&self, width: usize) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let wide = self.times.len().div_ceil(width).max(1);
        let high = |chunk: &[f64]| chunk.iter().copied().fold(0.0, f64::max);
        let columns: Vec<f64> = self.times.chunks(wide).map(high).collect();
        let least = columns.iter().copied().fold(f64::INFINITY, f64::min).min(self.median * 0.9);
        let most = (self.median * 2.0).max(least * 1.01);
        let bar = |time: &f64| ((time - least) / (most - least) * 8.0).clamp(0.0, 7.0) as usize;
        columns.iter().map(|time| BARS[bar(time)]).collect()
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// The median of the lines around one.
fn around(times: &[f64], at: usize) -> f64 {
    let beside = &times[at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS + 1).min(times.len())];
    median(beside).unwrap_or(times[at])
}

/// The points since the number of the step last went back, and how often it did.
pub(super) fn last_run(points: &[LogPoint]) -> (&[LogPoint], usize) {
    let back = |pair: &[LogPoint]| matches!((pair[0].step, pair[1].step), (Some(a), Some(b)) if b < a);
    let cuts: Vec<usize> =
        points.windows(2).enumerate().filter(|(_, p)| back(p)).map(|(i, _)| i + 1).collect();
    // Ranks that print out of order go back at every line.
    match cuts.last() {
        Some(last) if 10 * cuts.len() <= points.len() => (&points[*last..], cuts.len()),
        _ => (points, 0),
    }
}

/// One time a step with the steps that it stands for, where several ranks print each: the median. Without numbers a line
/// is a step.
fn by_step(points: &[LogPoint]) -> Vec<(u64, f64, f64)> {
    if points.iter().any(|p| p.step.is_none()) {
        return points.iter().enumerate().map(|(i, p)| (i as u64 + 1, p.value, p.steps)).collect();
    }
    if points.iter().any(|p| p.steps != 1.0) {
        return points.iter().map(|p| (p.step.unwrap_or_default(), p.value, p.steps)).collect();
    }
    let mut steps: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    points.iter().for_each(|p| steps.entry(p.step.unwrap_or_default()).or_default().push(p.value));
    steps.into_iter().filter_map(|(step, values)| Some((step, median(&values)?, 1.0))).collect()
}

/// The steps between spikes, where they are equal.
fn period_of(spikes: &[(u64, f64)]) -> Option<u64> {
    let gaps: Vec<u64> = spikes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let least = *gaps.iter().min()?;
    (gaps.len() >= 2 && least > 1 && gaps.iter().all(|gap| gap.is_multiple_of(least))).then_some(least)
}

/// Pieces of equal level, from a first value to before a last one.
fn pieces(values: &[f64]) -> Vec<[usize; 2]> {
    let mut steps: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    steps.sort_by(f64::total_cmp);
    // The median of |a - b| of two normal variables is 0.954 of their deviation.
    let noise = steps.get(steps.len() / 2).copied().unwrap_or(0.0) / 0.954;
    let mut sums = vec![0.0];
    values.iter().for_each(|v| sums.push(sums[sums.len() - 1] + v));
    let mut found = vec![[0, values.len()]];
    let mut at = 0;
    while let Some([from, to]) = found.get(at).copied() {
        match cut(&sums, from, to, noise) {
            Some(between) => {
                found[at] = [from, between];
                found.insert(at + 1, [between, to]);
            }
            None => at += 1,
        }
    }
    found
}

/// The place in a piece where its level changes, if it does.
fn cut(sums: &[f64], from: usize, to: usize, noise: f64) -> Option<usize> {
    let mean = |a: usize, b: usize| (sums[b] - sums[a]) / (b - a) as f64;
    let weight = |k: usize| (k - from) as f64 * (to - k) as f64 / (to - from) as f64;
    let places = (from + PERIOD)..=to.checked_sub(PERIOD)?;
    let gain = |k: usize| weight(k) * (mean(from, k) - mean(k, to)).powi(2);
    let best = places.max_by(|a, b| gain(*a).total_cmp(&gain(*b)))?;
    let change = (mean(from, best) - mean(best, to)).abs();
    (change > CHANGE && change > ERRORS * noise / weight(best).sqrt()).then_some(best)
}
