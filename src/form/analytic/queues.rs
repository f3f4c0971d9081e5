//! Queues: a rank works in streams; each takes its ops in order, one at a time.
//!
//! An op starts when its stream is free and all that it waits for has ended. With ⊕ for the later of two times and ⊗
//! for "so much later" (max-plus algebra; Baccelli et al. 1992, *Synchronization and Linearity*), every end is a
//! linear form of the times x at which the streams were free before:
//! ```text
//! end = ⊕ᵢ (aᵢ ⊗ xᵢ) = maxᵢ (aᵢ + xᵢ)
//! ```
//! A pass is then a matrix ([`Passage`]): it maps the times at which streams are free and its input is there to those
//! at which they are free again and its output is. Passes one after the other multiply. A matrix is found once, by
//! running the pass on forms instead of on seconds ([`TimeValue`]); it holds for whatever comes before.

/// The sources of a time: the inputs of one or two passes at once, and the streams of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The input of the pass, and then its output; of two passes at once the forward one's.
    Input,
    /// The same of the backward pass of two at once.
    Other,
    /// Kernels.
    Compute,
    /// Messages of tensor parallelism.
    Tensor,
    /// Of context parallelism.
    Context,
    /// Of expert parallelism.
    Expert,
    /// The host, which launches.
    Host,
}

/// Room for all queues: one more than there are, so that times fill whole registers.
pub const QUEUES: usize = 8;

/// A time for each queue, in seconds.
pub type QueueTimes = [f64; QUEUES];

/// The unit of ends: seconds, or forms of the times before.
pub trait TimeValue: Copy {
    /// So many seconds later.
    fn later(self, seconds: f64) -> Self;
    /// The later of both.
    fn or(self, other: Self) -> Self;
}

impl TimeValue for f64 {
    fn later(self, seconds: f64) -> f64 {
        self + seconds
    }
    fn or(self, other: f64) -> f64 {
        self.max(other)
    }
}

/// A linear form: what is added to each of the times before; −∞ to those that do not matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearForm(QueueTimes);

/// The later of two times that are no NaN: one instruction, where `f64::max` looks for NaN too.
fn later(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

impl LinearForm {
    /// The time of one queue itself.
    pub fn of(queue: Queue) -> LinearForm {
        let mut times = [f64::NEG_INFINITY; QUEUES];
        times[queue as usize] = 0.0;
        LinearForm(times)
    }
}

impl TimeValue for LinearForm {
    fn later(self, seconds: f64) -> LinearForm {
        LinearForm(self.0.map(|a| a + seconds))
    }
    fn or(self, other: LinearForm) -> LinearForm {
        let mut latest = self.0;
        latest.iter_mut().zip(other.0).for_each(|(a, b)| *a = later(*a, b));
        LinearForm(latest)
    }
}

/// A pass: what it makes of the times before it. A column for each queue before it: what is added to the time of that
/// queue on the way to each queue behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage([QueueTimes; QUEUES]);

impl Passage {
    /// The times before a pass, as forms of themselves.
    pub fn begin() -> QueueStreams<LinearForm> {
        use Queue::{Compute, Context, Expert, Host, Input, Other, Tensor};
        let mut fronts = [LinearForm([f64::NEG_INFINITY; QUEUES]); QUEUES];
        for queue in [Input, Other, Compute, Tensor, Context, Expert, Host] {
            fronts[queue as usize] = LinearForm::of(queue);
        }
        fronts
    }
    /// The pass behind which the times are these forms of those before it.
    pub fn of(end: &QueueStreams<LinearForm>) -> Passage {
        Passage(std::array::from_fn(|before| end.map(|front| front.0[before])))
    }
    /// Nothing happens.
    pub fn nothing() -> Passage {
        Passage::of(&Passage::begin())
    }
    /// The times behind it.
    pub fn after(&self, times: &QueueTimes) -> QueueTimes {
        let mut after = [f64::NEG_INFINITY; QUEUES];
        for (column, time) in self.0.iter().zip(times) {
            after.iter_mut().zip(column).for_each(|(latest, a)| *latest = later(*latest, a + time));
        }
        after
    }
    /// How long each queue takes for its own ops, one after the other; inputs are no queue.
    pub fn alone(&self) -> QueueTimes {
        let queues = Queue::Compute as usize..QUEUES;
        std::array::from_fn(|queue| if queues.contains(&queue) { self.0[queue][queue].max(0.0) } else { 0.0 })
    }
    /// Seconds from its input to its output, or to the end of its kernels where that is sooner.
    pub fn through(&self) -> f64 {
        let [output, kernels] =
            [Queue::Input, Queue::Compute].map(|end| self.0[Queue::Input as usize][end as usize]);
        output.min(kernels).max(0.0)
    }
    /// This pass, then another: the product of both; each column of this one is continued by `next`.
    pub fn then(&self, next: &Passage) -> Passage {
        Passage(self.0.map(|column| next.after(&column)))
    }
    /// So many times one after the other, by squares.
    pub fn times(&self, mut n: usize) -> Passage {
        let (mut power, mut square) = (Passage::nothing(), *self);
        while n > 0 {
            if n % 2 == 1 {
                power = power.then(&square);
            }
            n /= 2;
            if n > 0 {
                square = square.then(&square);
            }
        }
        power
    }
}

/// An op of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassOp {
    /// Kernel or message.
    pub work: PassWork,
    /// How long it takes.
    pub seconds: f64,
    /// How long its launch holds the host, and until it may start behind that: none where nothing is launched.
    pub launch: Option<[f64; 2]>,
}

/// The work of an op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PassWork {
    /// A kernel.
    Kernel,
    /// A message.
    Message {
        /// The stream that sends it.
        queue: Queue,
        /// So many kernels run before anything waits for it.
        hidden: u32,
        /// True if tokens go to their experts or come back.
        exchange: bool,
        /// How long the host takes once it has read what is sent, if it reads that.
        read: Option<f64>,
    },
}

/// The streams of a rank.
pub type QueueStreams<T> = [T; QUEUES];

/// A pass under way: its ops follow one another as their data do.
#[derive(Clone, Debug)]
pub struct PassProgress<T> {
    /// Messages in flight, each with the kernels that may still run before it must have come.
    flying: Vec<(T, u32)>,
    /// The end of its last kernel.
    kernel: Option<T>,
}

impl<T: TimeValue> PassProgress<T> {
    /// A pass whose input is there at a time; weight gradients need none.
    pub fn new(input: Option<T>) -> PassProgress<T> {
        PassProgress { flying: input.map(|time| (time, 0)).into_iter().collect(), kernel: None }
    }
    /// All further ops wait for a time.
    pub fn wait(&mut self, time: T) {
        self.flying.push((time, 0));
    }
    /// When all that it has made is there; `None` if it has neither had an input nor done anything.
    pub fn output(&self) -> Option<T> {
        self.flying.iter().map(|message| message.0).chain(self.kernel).reduce(TimeValue::or)
    }
    /// The next op runs on these streams.
    pub fn run(&mut self, op: &PassOp, streams: &mut QueueStreams<T>) {
        let queue = match op.work {
            PassWork::Kernel => Queue::Compute,
            PassWork::Message { queue, .. } => queue,
        };
        let awaited = self.flying.iter().filter(|message| message.1 == 0).map(|message| message.0);
        let mut start = awaited.fold(streams[queue as usize], TimeValue::or);
        if let Some([holds, latency]) = op.launch {
            let host = &mut streams[Queue::Host as usize];
            *host = host.later(holds);
            start = start.or(host.later(latency));
        }
        match op.work {
            PassWork::Kernel => {
                self.flying.retain(|message| message.1 > 0);
                self.flying.iter_mut().for_each(|message| message.1 -= 1);
                streams[queue as usize] = start.later(op.seconds);
                self.kernel = Some(streams[queue as usize]);
            }
            PassWork::Message { hidden, read, .. } => {
                let made = self.output();
                // A consumer of this message alone need not wait for the messages before it.
                self.flying.retain(|message| message.1 > 0 || hidden > 0);
                let start = self.kernel.map_or(start, |kernel| start.or(kernel));
                streams[queue as usize] = start.later(op.seconds);
                self.flying.push((streams[queue as usize], hidden));
                if let (Some(seconds), Some(made)) = (read, made) {
                    let host = &mut streams[Queue::Host as usize];
                    *host = host.or(made).later(seconds);
                }
            }
        }
    }
}

/// The matrix of a pass of these ops.
pub fn passage(ops: &[PassOp]) -> Passage {
    let mut streams = Passage::begin();
    let mut chain = PassProgress::new(Some(LinearForm::of(Queue::Input)));
    ops.iter().for_each(|op| chain.run(op, &mut streams));
    streams[Queue::Input as usize] = chain.output().unwrap_or(LinearForm::of(Queue::Input));
    Passage::of(&streams)
}

/// How long each of many such passes in a row takes where messages on these queues alone take any time, and launches
/// only if the host is one of them.
pub fn period(ops: &[PassOp], on: &[Queue]) -> f64 {
    let launched = on.contains(&Queue::Host);
    let mut streams = [0.0; QUEUES];
    let mut chain = PassProgress::new(Some(0.0));
    let mut pass = || {
        for op in ops {
            let free = matches!(op.work, PassWork::Message { queue, .. } if !on.contains(&queue));
            let seconds = if free { 0.0 } else { op.seconds };
            chain.run(&PassOp { seconds, launch: op.launch.filter(|_| launched), ..*op }, &mut streams);
        }
        chain.output().unwrap_or(0.0)
    };
    let first = pass();
    pass() - first
}
