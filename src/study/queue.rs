//! The line of layouts that may be simulated: all are bounded by sums, the best are walked, and the best of these come
//! first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::base::StudyBase;
use super::candidates::{BoundResult, LayoutBound, LayoutCandidate, bound, held, walked};
use super::layout::{BESIDE_LAYERS, FOLLOWING};
use super::options::{LARGE, SearchOptions};
use super::rows::StudyError;
use stepsim_core::clock::Clock;
use stepsim_core::pool;

/// Layouts simulated before the best is looked at again.
pub(super) const BATCH: usize = 16;

/// A place in the line: layouts that fit in closed form first, then the best; of equal ones first the layouts whose
/// walk is to come, then the order of the space.
#[derive(PartialEq)]
struct QueuePlace {
    doubtful: bool,
    score: f64,
    walked: bool,
    point: usize,
}

impl Eq for QueuePlace {}
impl PartialOrd for QueuePlace {
    fn partial_cmp(&self, other: &QueuePlace) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for QueuePlace {
    fn cmp(&self, other: &QueuePlace) -> Ordering {
        let first = self.doubtful.cmp(&other.doubtful).then(self.score.total_cmp(&other.score));
        first.then(self.walked.cmp(&other.walked)).then(self.point.cmp(&other.point))
    }
}

/// Numbers of layouts, from all over the space, that are bounded before the others, so that there is an answer early.
const FIRST: [usize; 2] = [128, 1024];

/// The best of them, whose neighbours are bounded too.
const BEST: usize = 4;

/// Layouts of the same layers that are bounded one after the other.
const AT_ONCE: usize = 32;

/// Layouts that take longer to be bounded, in seconds, have the best of the first ones told.
const SOON_S: f64 = 1.0;

/// The layouts of a space by sums alone.
struct Bounds<'a> {
    base: &'a StudyBase,
    points: &'a [Map<String, Value>],
    options: &'a SearchOptions,
    threads: usize,
    all: Vec<Option<BoundResult>>,
    done: usize,
    /// The points whose neighbours are bounded.
    left_behind: BTreeSet<usize>,
    begun: Clock,
    /// The best of the first ones, walked, with their points.
    walked: BTreeMap<usize, LayoutCandidate>,
    /// The score of the best in closed form so far, where it was told.
    told: Option<f64>,
}

/// Told how many points are done.
type TellBounds<'a> = &'a mut dyn FnMut(u64) -> Result<(), StudyError>;

impl Bounds<'_> {
    /// Bounds all points, unless the search is to end before and a layout fits: some from all over the space, then from
    /// the best of them on its neighbours, as long as one of these is better.
    fn all(&mut self, tell: TellBounds<'_>) -> Result<(), StudyError> {
        let order = spread(self.points.len());
        for end in FIRST.into_iter().filter(|first| 2 * first <= self.points.len()) {
            self.add(order[..end].to_vec(), tell)?;
            while let Some(near) = self.neighbours_of_best() {
                self.add(near, tell)?;
            }
            self.walk_best();
            if self.is_to_end() {
                return Ok(());
            }
        }
        self.add(order, tell)
    }

    /// True if the search is to end, and has a layout.
    fn is_to_end(&self) -> bool {
        self.options.stop.is_pulled() && self.fitting().next().is_some()
    }

    /// Bounds points that are not bounded yet.
    fn add(&mut self, mut points: Vec<usize>, tell: TellBounds<'_>) -> Result<(), StudyError> {
        points.retain(|point| self.all[*point].is_none());
        let (base, all, options) = (self.base, self.points, self.options);
        // Layouts of the same layers follow one another, on one thread: layers are what most of a bound is made of.
        let mut points: Vec<(String, usize)> =
            points.into_iter().map(|point| (layers_of(&all[point]), point)).collect();
        points.sort_unstable();
        let shares = points.chunk_by(|a, b| a.0 == b.0).flat_map(|alike| alike.chunks(AT_ONCE));
        let shares: Vec<&[(String, usize)]> = shares.collect();
        let of_share = |i: usize| -> Vec<BoundResult> {
            shares[i].iter().map(|(_, point)| bound(base, &all[*point], options)).collect()
        };
        let mut told = Ok(());
        pool::each(shares.len(), self.threads, &of_share, &mut |i, found| {
            for ((_, point), found) in shares[i].iter().zip(found) {
                self.all[*point] = Some(found);
                self.done += 1;
            }
            told = tell(self.done as u64);
            let ends = told.is_err() || self.options.stop.is_pulled() && self.is_to_end();
            if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        told
    }

    /// The layouts that fit in closed form, with their points.
    fn fitting(&self) -> impl Iterator<Item = (usize, &LayoutBound)> {
        let found = self.all.iter().enumerate().filter_map(|(point, found)| Some((point, found.as_ref()?)));
        found.filter_map(|(point, found)| Some((point, found.as_ref().ok().filter(|found| !found.doubtful)?)))
    }

    /// Some of the layouts that fit in closed form, best first.
    fn best(&self, most: usize) -> Vec<(usize, &LayoutBound)> {
        let score = |bounded: &LayoutBound| bounded.form.score(self.options.objective);
        let mut all: Vec<_> = self.fitting().collect();
        all.sort_by(|a, b| score(a.1).total_cmp(&score(b.1)));
        all.truncate(most);
        all
    }

    /// The neighbours of the best layouts so far; `None` where they are bounded, or the search is to end.
    fn neighbours_of_best(&mut self) -> Option<Vec<usize>> {
        let best = self.best(BEST).into_iter().map(|(point, _)| point);
        let best: Vec<usize> = best.filter(|point| !self.left_behind.contains(point)).collect();
        self.left_behind.extend(&best);
        let is_near =
            |point: &usize| best.iter().any(|best| are_neighbours(&self.points[*best], &self.points[*point]));
        let goes_on = !best.is_empty() && !self.options.stop.is_pulled();
        goes_on.then(|| (0..self.points.len()).filter(is_near).collect())
    }

    /// Walks the best so far, and tells the best of them where all layouts take long.
    fn walk_best(&mut self) {
        let best = self.best(BATCH);
        let walk = |i: usize| Some((best[i].0, walked(self.base, best[i].1, self.options).ok()?));
        let walked = pool::all(best.len(), self.threads, &walk);
        self.walked.extend(walked.into_iter().flatten());
        let score = |walked: &LayoutCandidate| walked.form.score(self.options.objective);
        let all_s = self.begun.elapsed().as_secs_f64() * self.all.len() as f64 / self.done as f64;
        let Some(first) = self.walked.values().min_by(|a, b| score(a).total_cmp(&score(b))) else { return };
        if all_s >= SOON_S && self.told.is_none_or(|told| score(first) < told) {
            self.told = Some(score(first));
            first.is_best(self.options, None);
        }
    }
}

/// True if two layouts differ in one choice at most, and in what follows from it.
fn are_neighbours(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let differs = |(path, value): &(&String, &Value)| {
        !FOLLOWING.contains(&path.as_str()) && other.get(path.as_str()) != Some(*value)
    };
    one.iter().filter(differs).count() <= 1
}

/// The choices of a layout that decide what its layers are.
fn layers_of(settings: &Map<String, Value>) -> String {
    let decides = |path: &str| !BESIDE_LAYERS.iter().any(|beside| path.starts_with(beside));
    let all = settings.iter().filter(|(path, _)| decides(path));
    all.map(|(path, value)| format!("{path}={value} ")).collect()
}

/// The numbers below `count` in an order whose beginnings all lie evenly over them.
fn spread(count: usize) -> Vec<usize> {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let first = (count as f64 * GOLDEN) as usize;
    let step = (first.max(1)..).find(|step| gcd(*step, count) <= 1).unwrap_or(1);
    (0..count).map(|i| i * step % count).collect()
}

/// Layouts that count, those that fit in closed form first and the best of these first. No order is walked of a
/// layout whose bound by sums puts it behind all that are asked for.
pub(super) struct CandidateQueue<'a> {
    pub base: &'a StudyBase,
    options: &'a SearchOptions,
    threads: usize,
    waiting: BinaryHeap<Reverse<QueuePlace>>,
    bounded: Vec<Option<LayoutBound>>,
    walked: BTreeMap<usize, LayoutCandidate>,
    /// How many have been walked.
    pub walks: u64,
    /// The score of the best in closed form, where it was told.
    pub told: Option<f64>,
    /// Layouts that were bounded, and those without a bound as the search was to end.
    pub bounded_layouts: u64,
    pub unbounded: u64,
    /// The places of those that will not be walked, as the search is to end.
    set_aside: Vec<QueuePlace>,
    /// Those in front, in order.
    pub candidates: Vec<LayoutCandidate>,
    /// How many do not count, by reason.
    pub pruned: BTreeMap<&'static str, u64>,
}

impl<'a> CandidateQueue<'a> {
    /// Bounds all points, some of all kinds first; `tell` is told how many are done.
    ///
    /// # Errors
    /// That of `tell`.
    pub fn new(
        base: &'a StudyBase,
        points: &[Map<String, Value>],
        options: &'a SearchOptions,
        threads: usize,
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<CandidateQueue<'a>, StudyError> {
        let mut pruned =
            BTreeMap::from(["invalid", "memory", "floor", "time", "limit"].map(|reason| (reason, 0)));
        if options.deadline_s.is_some() {
            pruned.insert("deadline", 0);
        }
        let mut bounds = Bounds {
            base,
            points,
            options,
            threads,
            all: points.iter().map(|_| None).collect(),
            done: 0,
            left_behind: BTreeSet::new(),
            walked: BTreeMap::new(),
            begun: Clock::start(),
            told: None,
        };
        bounds.all(tell)?;
        let (mut waiting, mut bounded) = (BinaryHeap::new(), Vec::with_capacity(points.len()));
        let (mut walked, walks) = (BTreeMap::new(), bounds.walked.len() as u64);
        let unbounded = bounds.all.iter().filter(|found| found.is_none()).count() as u64;
        for (at, found) in bounds.all.into_iter().enumerate() {
            let Some(found) = found else { continue };
            match found {
                Ok(found) => {
                    let (doubtful, point) = (found.doubtful, bounded.len());
                    let first = bounds.walked.remove(&at);
                    let score =
                        first.as_ref().map_or(found.form, |first| first.form).score(options.objective);
                    waiting.push(Reverse(QueuePlace { doubtful, score, walked: first.is_some(), point }));
                    bounded.push(first.is_none().then_some(found));
                    walked.extend(first.map(|first| (point, first)));
                }
                Err(reason) => *pruned.entry(reason).or_insert(0) += 1,
            }
        }
        Ok(CandidateQueue {
            base,
            options,
            threads,
            waiting,
            bounded,
            walked,
            walks,
            told: bounds.told,
            bounded_layouts: points.len() as u64 - unbounded,
            unbounded,
            set_aside: Vec::new(),
            candidates: Vec::new(),
            pruned,
        })
    }

    /// True if its layouts take seconds to be estimated.
    pub fn is_large(&self) -> bool {
        self.bounded.len() > LARGE
    }

    /// The candidate at a place, if there is one of this kind; what is surely worse than `last` need not be ranked.
    pub fn at(&mut self, place: usize, doubtful: bool, last: f64) -> Option<&mut LayoutCandidate> {
        while self.candidates.len() <= place && self.next_is(doubtful) {
            if self.options.stop.is_pulled() {
                self.settle();
            }
            self.go_on(last);
        }
        self.candidates.get_mut(place).filter(|candidate| candidate.doubtful == doubtful)
    }
    /// True if a layout that is over the limit of memory in closed form has a better estimate.
    pub fn has_doubtful_before(&self, score: f64) -> bool {
        self.waiting.iter().any(|Reverse(place)| place.doubtful && place.score < score)
    }
    /// All of them.
    pub fn all(&mut self) {
        while !self.waiting.is_empty() {
            self.go_on(f64::INFINITY);
        }
    }
    /// The layouts that have been walked and are not in front.
    pub fn walked_layouts(&self, doubtful: bool) -> impl Iterator<Item = (usize, &LayoutCandidate)> {
        let of_kind = move |(_, candidate): &(&usize, &LayoutCandidate)| candidate.doubtful == doubtful;
        self.walked.iter().filter(of_kind).map(|(point, candidate)| (*point, candidate))
    }
    /// Takes one of them to the end of those in front.
    ///
    /// # Panics
    /// It is none of them.
    pub fn bring(&mut self, point: usize) -> &mut LayoutCandidate {
        self.candidates.extend(self.walked.remove(&point));
        self.candidates.last_mut().expect("one that was walked")
    }
    /// Takes the layouts over the limit that hold least, one of each kind, to the end of those in front; how many.
    pub fn bring_leanest(&mut self) -> usize {
        let mut leanest: BTreeMap<String, (f64, usize)> = BTreeMap::new();
        for (point, bounded) in self.bounded.iter().enumerate() {
            let Some(bounded) = bounded.as_ref().filter(|bounded| bounded.doubtful) else { continue };
            let least = leanest.entry(held(&bounded.settings)).or_insert((f64::INFINITY, point));
            if bounded.form.memory_bytes < least.0 {
                *least = (bounded.form.memory_bytes, point);
            }
        }
        let mut leanest: Vec<(f64, usize)> = leanest.into_values().collect();
        leanest.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.waiting.retain(|Reverse(place)| leanest.iter().all(|(_, point)| *point != place.point));
        let before = self.candidates.len();
        for bounded in leanest.into_iter().filter_map(|(_, point)| self.bounded[point].take()) {
            self.walks += 1;
            match walked(self.base, &bounded, self.options) {
                Ok(candidate) => self.candidates.push(candidate),
                Err(reason) => *self.pruned.entry(reason).or_insert(0) += 1,
            }
        }
        self.candidates.len() - before
    }
    /// Sets aside what has not been walked, where anything has.
    fn settle(&mut self) {
        if !self.walked.is_empty() {
            let (walked, aside) = self.waiting.drain().partition(|Reverse(place)| place.walked);
            self.waiting = walked;
            self.set_aside.extend(aside.into_iter().map(|Reverse(place)| place));
        }
    }
    fn next_is(&self, doubtful: bool) -> bool {
        self.waiting.peek().is_some_and(|Reverse(next)| next.doubtful == doubtful)
    }
    /// Layouts of this kind that stay behind, unwalked or not, leave the line: their scores at best.
    pub fn dismiss(&mut self, doubtful: bool) -> Vec<f64> {
        let mut places: Vec<QueuePlace> =
            self.set_aside.extract_if(.., |place| place.doubtful == doubtful).collect();
        while self.next_is(doubtful) {
            places.extend(self.waiting.pop().map(|Reverse(place)| place));
        }
        // One that is neither walked nor bounded has come to the front before its turn.
        let score = |place: QueuePlace| match self.walked.remove(&place.point) {
            Some(candidate) => Some(candidate.floor),
            None => self.bounded[place.point].take().map(|bounded| bounded.floor(self.options)),
        };
        places.into_iter().filter_map(score).collect()
    }

    /// The next one is walked, with some behind it, joins those in front, or leaves the line as surely worse than
    /// `last`.
    fn go_on(&mut self, last: f64) {
        let (mut points, mut worse) = (Vec::new(), 0);
        while points.len() < BATCH
            && let Some(Reverse(next)) = self.waiting.peek()
            && !next.walked
        {
            let bounded = &mut self.bounded[next.point];
            match bounded.take_if(|bounded| bounded.floor(self.options) > last) {
                Some(_) => worse += 1,
                None => points.push(next.point),
            }
            self.waiting.pop();
        }
        *self.pruned.entry("floor").or_insert(0) += worse;
        if points.is_empty() && worse == 0 {
            let next = self.waiting.pop().and_then(|Reverse(next)| self.walked.remove(&next.point));
            self.candidates.extend(next);
            return;
        }
        let bounded: Vec<LayoutBound> =
            points.iter().filter_map(|point| self.bounded[*point].take()).collect();
        self.walks += bounded.len() as u64;
        let walk = |i: usize| walked(self.base, &bounded[i], self.options);
        for (point, found) in points.into_iter().zip(pool::all(bounded.len(), self.threads, &walk)) {
            match found {
                Ok(found) => {
                    let (doubtful, score) = (found.doubtful, found.form.score(self.options.objective));
                    self.waiting.push(Reverse(QueuePlace { doubtful, score, walked: true, point }));
                    self.walked.insert(point, found);
                }
                Err(reason) => *self.pruned.entry(reason).or_insert(0) += 1,
            }
        }
    }
}
