//! The simulations of a search: in batches, best estimate first, until nothing better can come.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::best::BestScores;
use super::candidates::LayoutCandidate;
use super::options::{LONG, SearchOptions};
use super::outcome::PointOutcome;
use super::queue::{BATCH, CandidateQueue};
use super::rows::StudyError;
use stepsim_core::interrupt::{check, until};
use stepsim_core::pool;
use stepsim_simulate::RunStatus;

/// A layout promises as much as another whose promise is shorter by less than this.
const AS_MUCH: f64 = 1.25;

/// Simulations without a result that counts, for each that is wanted with one: they end as soon as memory runs out.
const WITHOUT_RESULT: usize = 2;

/// The layouts that have been simulated, and the ones left out.
pub(super) struct SearchSimulations {
    /// With their places among the candidates.
    pub outcomes: Vec<(usize, PointOutcome)>,
    /// Candidates that were left out because others are better, by reason.
    pub hopeless: BTreeMap<&'static str, u64>,
    /// Candidates that were left out although they may be.
    pub undecided: u64,
    /// The margin that holds for what was simulated.
    pub margin_reached: f64,
}

/// The layouts that hold least are simulated so many at a time.
const LEANEST: usize = 2;

/// How a layout is simulated.
pub(super) type Simulate<'a> = &'a (dyn Fn(&LayoutCandidate) -> PointOutcome + Sync);

impl SearchSimulations {
    /// Simulates all candidates.
    pub fn of_all(
        candidates: &[LayoutCandidate],
        options: &SearchOptions,
        threads: usize,
        simulate: Simulate<'_>,
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<SearchSimulations, StudyError> {
        let mut outcomes = Vec::new();
        for (i, batch) in candidates.chunks(BATCH).enumerate() {
            let of_batch = pool::all(batch.len(), threads, &|i| simulate(&batch[i]));
            outcomes.extend(of_batch.into_iter().enumerate().map(|(j, outcome)| (i * BATCH + j, outcome)));
            tell(outcomes.len() as u64)?;
        }
        Ok(SearchSimulations {
            outcomes,
            hopeless: BTreeMap::new(),
            undecided: 0,
            margin_reached: options.margin,
        })
    }

    /// Simulates candidates in batches, best estimate first, without those that cannot be among the best that are
    /// ranked, or not be the best unless their closed form is longer than the margin allows. `tell` is told how many
    /// are walked or simulated. Where the search is to end, at least one layout is simulated.
    pub fn over(
        line: &mut CandidateQueue<'_>,
        options: &SearchOptions,
        threads: usize,
        simulate: Simulate<'_>,
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<SearchSimulations, StudyError> {
        let mut run = SearchRun {
            options,
            known: BestScores::new(options.top),
            outcomes: Vec::new(),
            found: 0,
            longer: BTreeMap::new(),
            ran_out: BTreeMap::new(),
            front: Vec::new(),
            left: Vec::new(),
            next: 0,
            passes: 0,
            is_over: false,
        };
        let mut behind = Vec::new();
        for doubtful in [false, true] {
            run.is_over = false;
            if doubtful && run.found == 0 {
                run.play_leanest(line, threads, simulate);
                tell(line.walks + run.outcomes.len() as u64)?;
            }
            loop {
                let batch = run.next_batch(line, doubtful, tell)?;
                if batch.is_empty() {
                    break;
                }
                run.play(&batch, line, threads, simulate);
                tell(line.walks + run.outcomes.len() as u64)?;
            }
            run.left.append(&mut run.front);
            while line.candidates.get(run.next).is_some_and(|candidate| candidate.doubtful == doubtful) {
                run.left.push(run.next);
                run.next += 1;
            }
            behind.push((run.is_over, line.dismiss(doubtful)));
        }
        Ok(run.ended(&line.candidates, behind))
    }
}

/// A search that simulates.
struct SearchRun<'a> {
    options: &'a SearchOptions,
    known: BestScores,
    outcomes: Vec<(usize, PointOutcome)>,
    /// How many of them count.
    found: usize,
    /// By kind of layout: how many times as long as in closed form a simulation of it was at least.
    longer: BTreeMap<String, f64>,
    /// By what a device holds: the bytes in closed form with which one ran out of memory, at least.
    ran_out: BTreeMap<String, f64>,
    /// Candidates that may be simulated, and those that are not.
    front: Vec<usize>,
    left: Vec<usize>,
    /// The next candidate.
    next: usize,
    /// Layers of micro-batches that have been played.
    passes: u64,
    /// True if all that come have a longer estimate than counts.
    is_over: bool,
}

impl SearchRun<'_> {
    /// True if the search is to end, and has a layout.
    fn is_to_end(&self) -> bool {
        self.known.best().is_finite() && self.options.stop.is_pulled()
    }

    /// How many more are simulated at most: what has no result that counts is none of them, up to a number. Some are
    /// kept for those over the limit of memory in closed form, where one of these is estimated to be the best.
    fn still_allowed(&self, line: &CandidateQueue<'_>, doubtful: bool) -> usize {
        let most = self.options.most_simulated;
        if self.outcomes.len() - self.found >= WITHOUT_RESULT * most {
            return 0;
        }
        let is_kept = !doubtful && line.has_doubtful_before(self.known.best());
        (most - if is_kept { most / 3 } else { 0 }).saturating_sub(self.found)
    }

    /// Simulates the layouts that hold least until one fits, where none does in closed form; those of them that may be
    /// better wait at the front.
    fn play_leanest(&mut self, line: &mut CandidateQueue<'_>, threads: usize, simulate: Simulate<'_>) {
        let leanest = self.next..self.next + line.bring_leanest();
        self.next = leanest.end;
        let mut leanest = leanest.collect::<Vec<usize>>().into_iter();
        while self.found == 0 && !leanest.as_slice().is_empty() {
            let batch: Vec<usize> = leanest.by_ref().take(LEANEST).collect();
            self.passes += batch.iter().map(|i| line.candidates[*i].played).sum::<u64>();
            self.play(&batch, line, threads, simulate);
        }
        for i in leanest {
            line.candidates[i].tighten(line.base, self.options);
            let is_hopeless = line.candidates[i].hopeless(&self.known).is_some();
            let waits = if is_hopeless { &mut self.left } else { &mut self.front };
            waits.push(i);
        }
    }

    /// True if one of its kind that holds no more in closed form ran out of memory.
    fn is_too_full(&self, candidate: &LayoutCandidate) -> bool {
        self.ran_out.get(&candidate.held()).is_some_and(|ran_out| candidate.form.memory_bytes >= *ran_out)
    }

    /// The next candidates that are to be simulated.
    fn next_batch(
        &mut self,
        line: &mut CandidateQueue<'_>,
        doubtful: bool,
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<Vec<usize>, StudyError> {
        let (options, is_first, before) = (self.options, self.outcomes.is_empty(), self.passes);
        let learns = options.most_ops.is_some();
        let most = if learns { options.first_played } else { BATCH };
        let most = most.min(self.still_allowed(line, doubtful));
        let batch = loop {
            let next = self.next;
            self.look_ahead(line, doubtful, most, tell)?;
            if !learns {
                break std::mem::take(&mut self.front);
            }
            self.bring(line, doubtful, most);
            let ops_a_pass = line.base.shared.steps.ops() as f64 / before.max(1) as f64;
            let picked = self.picked(&line.candidates, most, ops_a_pass);
            // Where none of these promises to be the best, one behind them may.
            if !picked.is_empty() || self.next == next || most == 0 {
                break picked;
            }
        };
        self.passes += batch.iter().map(|i| line.candidates[*i].played).sum::<u64>();
        let score = |i: &usize| line.candidates[*i].form.score(options.objective);
        if is_first
            && (line.is_large() || self.passes - before > LONG)
            && let Some(first) = batch.iter().min_by(|a, b| score(a).total_cmp(&score(b)))
            && line.told.is_none_or(|told| score(first) < told)
        {
            line.candidates[*first].is_best(options, None);
        }
        Ok(batch)
    }

    /// Takes candidates that may be simulated to the front, until `most` are there.
    fn look_ahead(
        &mut self,
        line: &mut CandidateQueue<'_>,
        doubtful: bool,
        most: usize,
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<(), StudyError> {
        let (options, base) = (self.options, line.base);
        let mut passes = self.passes + self.front.iter().map(|i| line.candidates[*i].played).sum::<u64>();
        while !self.is_over
            && self.front.len() < most
            && !self.is_to_end()
            && (self.front.is_empty() || !options.stop.is_pulled())
            && let Some(candidate) = line.at(self.next, doubtful, self.known.last())
        {
            if options.has_budget() && self.is_too_full(candidate) {
                self.left.push(self.next);
                self.next += 1;
                continue;
            }
            if !options.affords(passes + candidate.played, 0.0, self.outcomes.len() + self.front.len()) {
                break;
            }
            if candidate.hopeless(&self.known).is_none() {
                candidate.tighten(base, options);
            }
            match candidate.hopeless(&self.known) {
                None => {
                    passes += candidate.played;
                    self.front.push(self.next);
                }
                Some(reason) => {
                    self.left.push(self.next);
                    // So are all that have a longer estimate.
                    self.is_over = reason == "time";
                }
            }
            self.next += 1;
            tell(line.walks + self.outcomes.len() as u64)?;
        }
        Ok(())
    }

    /// The score that a candidate promises: it takes longer than its closed form by as much as others of its kind.
    fn promise(&self, candidate: &LayoutCandidate) -> f64 {
        let longer = self.longer.get(&candidate.kind()).copied().unwrap_or(1.0);
        candidate.form.score(self.options.objective) * longer
    }

    /// Takes to the front, of what is estimated, the candidates that promise most and the best of each kind.
    fn bring(&mut self, line: &mut CandidateQueue<'_>, doubtful: bool, most: usize) {
        if line.candidates.len() > self.next {
            // The next one waits at the front: it cannot be afforded.
            return;
        }
        let mut walked: Vec<(f64, usize, String)> = line
            .walked_layouts(doubtful)
            .map(|(point, candidate)| (self.promise(candidate), point, candidate.kind()))
            .collect();
        walked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut kinds: BTreeSet<String> = self.front.iter().map(|i| line.candidates[*i].kind()).collect();
        for (place, (_, point, kind)) in walked.into_iter().enumerate() {
            if kinds.insert(kind) || place < most {
                let base = line.base;
                let candidate = line.bring(point);
                candidate.tighten(base, self.options);
                self.front.push(self.next);
                self.next += 1;
            }
        }
    }

    /// Those in front that promise most; of kinds that promise as much, one each. None where none promises to be the
    /// best.
    fn picked(&mut self, candidates: &[LayoutCandidate], most: usize, ops_a_pass: f64) -> Vec<usize> {
        let options = self.options;
        let hopes = |i: &usize| {
            let at_best = self.promise(&candidates[*i]) * (1.0 - options.margin);
            candidates[*i].hopeless(&self.known).is_none()
                && at_best <= self.known.best()
                && !self.is_too_full(&candidates[*i])
        };
        let (mut front, left): (Vec<usize>, Vec<usize>) =
            self.front.iter().copied().partition(|i| hopes(i) && !self.is_to_end());
        self.left.extend(left);
        let promise = |i: &usize| self.promise(&candidates[*i]);
        let (mut batch, mut kinds, mut passes) = (Vec::new(), BTreeSet::new(), self.passes);
        while batch.len() < most {
            let least = front.iter().map(promise).fold(f64::INFINITY, f64::min);
            let near = (0..front.len()).filter(|at| promise(&front[*at]) <= AS_MUCH * least);
            let order = |at: &usize| (kinds.contains(&candidates[front[*at]].kind()), promise(&front[*at]));
            let Some(at) = near.min_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal))
            else {
                break;
            };
            passes += candidates[front[at]].played;
            if !options.affords(passes, passes as f64 * ops_a_pass, self.outcomes.len() + batch.len()) {
                break;
            }
            kinds.insert(candidates[front[at]].kind());
            batch.push(front.remove(at));
        }
        self.front = front;
        batch
    }

    /// Simulates candidates; those that are under way as the search is to end stay behind, unless there is no other.
    fn play(&mut self, batch: &[usize], line: &CandidateQueue<'_>, threads: usize, simulate: Simulate<'_>) {
        let (options, candidates, is_large) = (self.options, &line.candidates, line.is_large());
        let is_told = is_large || self.passes > LONG;
        let has_one = self.known.best().is_finite();
        // Records of long steps are large: one at a time.
        let alone = batch.iter().any(|i| options.plays_once(candidates[*i].passes));
        let threads = if alone { 1 } else { threads };
        let one = |i: usize| match has_one || i > 0 {
            true => until(&options.stop, || {
                check();
                simulate(&candidates[batch[i]])
            }),
            false => Some(simulate(&candidates[batch[i]])),
        };
        let mut best = self.known.best();
        let mut of_batch: Vec<Option<PointOutcome>> = vec![None; batch.len()];
        pool::each(batch.len(), threads, &one, &mut |i, outcome| {
            let candidate = &candidates[batch[i]];
            let found = outcome.as_ref().and_then(|outcome| candidate.form.simulated(outcome));
            let found = found.filter(|found| options.in_time(*found));
            if let Some(score) =
                found.map(|found| found.score(options.objective)).filter(|score| *score < best)
            {
                best = score;
                if is_told {
                    candidate.is_best(options, found);
                }
            }
            of_batch[i] = outcome;
            ControlFlow::Continue(())
        });
        for (i, outcome) in batch.iter().copied().zip(of_batch) {
            let Some(outcome) = outcome else {
                self.left.push(i);
                continue;
            };
            let found = candidates[i].form.simulated(&outcome).filter(|found| options.in_time(*found));
            if let Some(score) = found.map(|found| found.score(options.objective)) {
                self.known.add(score);
                self.found += 1;
                let longer = self.longer.entry(candidates[i].kind()).or_insert(f64::INFINITY);
                *longer = longer.min(score / candidates[i].form.score(options.objective));
            }
            if outcome.status == RunStatus::OutOfMemory {
                let least = self.ran_out.entry(candidates[i].held()).or_insert(f64::INFINITY);
                *least = least.min(candidates[i].form.memory_bytes);
            }
            self.outcomes.push((i, outcome));
        }
    }

    /// The simulations, and why the other layouts have none.
    fn ended(self, candidates: &[LayoutCandidate], behind: Vec<(bool, Vec<f64>)>) -> SearchSimulations {
        let (known, options) = (self.known, self.options);
        let (mut hopeless, mut undecided, mut shortest) = (BTreeMap::new(), 0, f64::INFINITY);
        for candidate in self.left.into_iter().map(|i| &candidates[i]) {
            let reason = candidate.hopeless(&known);
            if reason != Some("floor") {
                shortest = shortest.min(candidate.form.score(options.objective));
            }
            match reason {
                Some(reason) => *hopeless.entry(reason).or_insert(0) += 1,
                None => undecided += 1,
            }
        }
        for (over, floor) in
            behind.into_iter().flat_map(|(over, all)| all.into_iter().map(move |f| (over, f)))
        {
            match floor > known.last() {
                true => *hopeless.entry("floor").or_insert(0) += 1,
                false if over => *hopeless.entry("time").or_insert(0) += 1,
                false => undecided += 1,
            }
        }
        let reached = if shortest.is_finite() { 1.0 - known.best() / shortest } else { options.margin };
        let margin_reached = reached.clamp(0.0, options.margin);
        SearchSimulations { outcomes: self.outcomes, hopeless, undecided, margin_reached }
    }
}
