//! Work beside the interpreter: on a thread of its own, while this one looks for interrupts.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use stepsim::core::interrupt::{InterruptToken, until};

use crate::error::defect;

/// How often interrupts are looked for.
const OFTEN: Duration = Duration::from_millis(40);
/// How long work that was called off is waited for; it then ends by itself.
const PATIENCE: Duration = Duration::from_millis(120);
/// Some of what the work does is recursive.
const STACK: usize = 16 << 20;

/// Through which work tells how far it has come.
pub struct Progress {
    tell: SyncSender<u64>,
    /// That what was told is done with.
    heard: Receiver<()>,
    is_asked: bool,
}

impl Progress {
    /// So much is done; a break says that no more is wanted.
    pub fn at(&self, done: u64) -> ControlFlow<()> {
        if self.is_asked && (self.tell.send(done).is_err() || self.heard.recv().is_err()) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Does work without the interpreter's lock. `tell` is called on this thread with what the work tells; an exception
/// in it, or an interrupt, calls the work off and is raised.
pub fn watched<T: Send + 'static>(
    py: Python<'_>,
    tell: Option<Py<PyAny>>,
    work: impl FnOnce(&Progress) -> T + Send + 'static,
) -> PyResult<T> {
    let (send, told) = sync_channel(0);
    let (answer, heard) = sync_channel(0);
    let progress = Progress { tell: send, heard, is_asked: tell.is_some() };
    let token = InterruptToken::default();
    let under = token.clone();
    let builder = thread::Builder::new().name("stepsim".into()).stack_size(STACK);
    let worker = builder.spawn(move || {
        let progress = progress;
        until(&under, || work(&progress))
    })?;
    py.detach(move || {
        match listen(&told, &answer, tell.as_ref()) {
            Ok(()) => {}
            Err(raised) => {
                // A worker that tells more finds nobody.
                drop((told, answer));
                token.pull();
                let since = Instant::now();
                while since.elapsed() < PATIENCE && !worker.is_finished() {
                    thread::sleep(Duration::from_millis(2));
                }
                return Err(raised);
            }
        }
        match worker.join() {
            Ok(Some(made)) => Ok(made),
            Ok(None) => Err(defect(None)),
            Err(reason) => Err(defect(Some(reason))),
        }
    })
}

/// Hands on what is told until the work has ended.
fn listen(told: &Receiver<u64>, answer: &SyncSender<()>, tell: Option<&Py<PyAny>>) -> PyResult<()> {
    loop {
        match (told.recv_timeout(OFTEN), tell) {
            (Ok(at), Some(tell)) => {
                Python::attach(|py| tell.call1(py, (at,)).and_then(|_| py.check_signals()))?;
                // A worker that has gone does not mind.
                let _ = answer.send(());
            }
            (Err(RecvTimeoutError::Disconnected), _) => return Ok(()),
            _ => Python::attach(|py| py.check_signals())?,
        }
    }
}
