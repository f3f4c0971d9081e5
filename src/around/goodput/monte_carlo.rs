//! Days of a job, drawn: each interruption, each checkpoint, each time in which a device is slow.
//!
//! Wall time is split exactly: what remains as progress, stalls of checkpoints that remain, what slow devices added to
//! work that remains, work and stalls that were lost, restarts.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::{GoodputJob, HOUR};
use stepsim_core::pool;
use stepsim_spec::reliability::SlowDevices;

/// Where the wall time of some days went, in seconds; the parts sum to the wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Days {
    /// Work that remains, at the pace of an undisturbed step.
    pub work_s: f64,
    /// Stalls of checkpoints after which work went on.
    pub checkpoint_s: f64,
    /// The seconds that slow devices added to work that remains.
    pub slow_s: f64,
    /// Work, stalls and slowness since the last safe checkpoint, at each interruption.
    pub lost_s: f64,
    /// Restarts.
    pub restart_s: f64,
    /// The number of interruptions, with those during restarts.
    pub interruptions: f64,
}

impl Days {
    fn add(&mut self, other: Days) {
        self.work_s += other.work_s;
        self.checkpoint_s += other.checkpoint_s;
        self.slow_s += other.slow_s;
        self.lost_s += other.lost_s;
        self.restart_s += other.restart_s;
        self.interruptions += other.interruptions;
    }
    fn wall(&self) -> f64 {
        self.work_s + self.checkpoint_s + self.slow_s + self.lost_s + self.restart_s
    }
    /// Seconds by what they went to, with their names in tables.
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("progress", self.work_s),
            ("checkpoint stalls", self.checkpoint_s),
            // Rounding may leave less than nothing.
            ("slow devices", self.slow_s.max(0.0) + 0.0),
            ("lost work", self.lost_s),
            ("restarts", self.restart_s),
        ]
    }
}

/// How far runs lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GoodputSpread {
    /// Their mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// One run in twenty is below.
    pub p5: f64,
    /// The median.
    pub p50: f64,
    /// One run in twenty is above.
    pub p95: f64,
}

impl GoodputSpread {
    fn of(mut values: Vec<f64>) -> GoodputSpread {
        values.sort_by(f64::total_cmp);
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let at = |q: f64| values.get((q * (n - 1.0)).round() as usize).copied().unwrap_or(0.0);
        GoodputSpread {
            mean,
            standard_error: (variance / n).sqrt(),
            p5: at(0.05),
            p50: at(0.5),
            p95: at(0.95),
        }
    }
}

/// Many runs of the same days.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GoodputSummary {
    /// How many runs.
    pub runs: u32,
    /// Days of each.
    pub days: f64,
    /// Share of the wall time that was progress.
    pub goodput: GoodputSpread,
    /// Interruptions of a run.
    pub interruptions: GoodputSpread,
    /// Where the wall time of a mean run went.
    pub mean: Days,
}

/// Plays `runs` runs of `days` days. Run i draws from stream i of the seed.
pub fn simulate(job: &GoodputJob, slow: &[SlowDevices], days: f64, runs: u32, seed: u64) -> GoodputSummary {
    let wall = days * 24.0 * HOUR;
    let one = |run: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(run as u64);
        GoodputRun::new(job, slow, wall, rng).play()
    };
    let played: Vec<Days> = pool::all(runs as usize, pool::threads(None), &one);
    let mut mean = Days::default();
    played.iter().for_each(|run| mean.add(*run));
    let n = f64::from(runs.max(1));
    let over = |sum: f64| sum / n;
    let mean = Days {
        work_s: over(mean.work_s),
        checkpoint_s: over(mean.checkpoint_s),
        slow_s: over(mean.slow_s),
        lost_s: over(mean.lost_s),
        restart_s: over(mean.restart_s),
        interruptions: over(mean.interruptions),
    };
    GoodputSummary {
        runs,
        days,
        goodput: GoodputSpread::of(played.iter().map(|d| d.work_s / wall).collect()),
        interruptions: GoodputSpread::of(played.iter().map(|d| d.interruptions).collect()),
        mean,
    }
}

/// One run. Times in seconds since its start.
struct GoodputRun<'a> {
    job: &'a GoodputJob,
    slow: &'a [SlowDevices],
    rng: ChaCha8Rng,
    /// When it ends.
    end: f64,
    now: f64,
    /// The next interruption.
    failure: f64,
    /// Next beginning of each kind of slow time.
    next_slow: Vec<f64>,
    /// When each kind of slow time is over; before now where there is none.
    slow_until: Vec<f64>,
    total: Days,
    /// Since the checkpoint that is being written, and between it and the last safe one.
    fresh: Days,
    written: Days,
    /// When the checkpoint that is being written is safe.
    safe_at: Option<f64>,
}

/// The end of a stretch of time.
enum Ended {
    Whole,
    Failure,
    Horizon,
}

impl<'a> GoodputRun<'a> {
    fn new(job: &'a GoodputJob, slow: &'a [SlowDevices], end: f64, mut rng: ChaCha8Rng) -> GoodputRun<'a> {
        let failure = exponential(&mut rng, job.rate);
        let next_slow = slow.iter().map(|s| exponential(&mut rng, rate_of(s, job))).collect();
        GoodputRun {
            job,
            slow,
            rng,
            end,
            now: 0.0,
            failure,
            next_slow,
            slow_until: vec![0.0; slow.len()],
            total: Days::default(),
            fresh: Days::default(),
            written: Days::default(),
            safe_at: None,
        }
    }

    fn play(mut self) -> Days {
        loop {
            match self.segment() {
                Ended::Whole => {}
                Ended::Failure => self.fail(),
                Ended::Horizon => break,
            }
        }
        // Work that is not lost yet counts as progress.
        self.total.add(self.written);
        self.total.add(self.fresh);
        assert!((self.total.wall() - self.end).abs() <= 1e-6 * self.end);
        self.total
    }

    /// Works one interval and begins a checkpoint; storage must be through with the one before.
    fn segment(&mut self) -> Ended {
        match self.work() {
            Ended::Whole => {}
            ended => return ended,
        }
        let waits = self.safe_at.map_or(0.0, |safe| (safe - self.now).max(0.0));
        let (start, stall) = (self.now, waits + self.job.stall);
        let until = (start + stall).min(self.failure).min(self.end);
        self.now = until;
        self.fresh.checkpoint_s += until - start;
        if until < start + stall {
            return if until == self.failure { Ended::Failure } else { Ended::Horizon };
        }
        self.commit();
        self.written = std::mem::take(&mut self.fresh);
        self.safe_at = Some(self.now + self.job.safe_after);
        Ended::Whole
    }

    /// The checkpoint that was being written is safe: what went into it remains.
    fn commit(&mut self) {
        if self.safe_at.take_if(|safe| *safe <= self.now).is_some() {
            self.total.add(std::mem::take(&mut self.written));
        }
    }

    /// One interval of work, at the pace of the slowest device.
    fn work(&mut self) -> Ended {
        let mut left = self.job.interval;
        while left > 0.0 {
            self.slow_times();
            let now = self.now;
            let under_way = self.slow.iter().zip(&self.slow_until).filter(|(_, until)| **until > now);
            let factor = under_way.map(|(kind, _)| kind.slowness).fold(1.0, f64::max);
            let change = self.next_slow.iter().chain(self.slow_until.iter().filter(|until| **until > now));
            let change = change.copied().fold(f64::INFINITY, f64::min);
            let done = self.now + left * factor;
            let until = done.min(change).min(self.failure).min(self.end);
            let wall = until - self.now;
            let work = if until == done { left } else { wall / factor };
            self.now = until;
            self.fresh.work_s += work;
            self.fresh.slow_s += wall - work;
            left -= work;
            if until == done {
                break;
            } else if until == self.failure {
                return Ended::Failure;
            } else if until == self.end {
                return Ended::Horizon;
            }
        }
        Ended::Whole
    }

    /// Begins slow times up to now.
    fn slow_times(&mut self) {
        for ((kind, next), until) in self.slow.iter().zip(&mut self.next_slow).zip(&mut self.slow_until) {
            while *next <= self.now {
                let [low, high] = kind.duration_s;
                let lasts = low * (high / low).powf(self.rng.random());
                *until = until.max(*next + lasts);
                *next += exponential(&mut self.rng, rate_of(kind, self.job));
            }
        }
    }

    /// An interruption: unsaved work is lost, and the job restarts.
    fn fail(&mut self) {
        self.commit();
        self.total.lost_s += self.written.wall() + self.fresh.wall();
        (self.written, self.fresh, self.safe_at) = (Days::default(), Days::default(), None);
        loop {
            self.total.interruptions += 1.0;
            let time = self.job.restart.time_s;
            let again = exponential(&mut self.rng, self.job.rate);
            let interrupted = self.job.restart.can_fail && again < time;
            let until = (self.now + if interrupted { again } else { time }).min(self.end);
            self.total.restart_s += until - self.now;
            self.now = until;
            if !interrupted || until == self.end {
                // The exponential has no memory: what is left of it is one again.
                let rest = if self.job.restart.can_fail { again - time } else { again };
                self.failure = self.now + rest.max(0.0);
                return;
            }
        }
    }
}

/// Beginnings of slow times in the whole job, a second.
fn rate_of(slow: &SlowDevices, job: &GoodputJob) -> f64 {
    slow.per_device_day * f64::from(job.devices) / (24.0 * HOUR)
}

/// Time to the next event of a Poisson process.
fn exponential(rng: &mut ChaCha8Rng, rate: f64) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() / rate
}
