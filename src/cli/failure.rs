//! Why a command fails, and with which exit status.

use std::io;

use clap::error::ContextKind;

use stepsim_core::engine::EngineError;
use stepsim_fabric::collective::CollectiveError;
use stepsim_read::trace::{OutputError, TraceError};
use stepsim_schedule::ScheduleError;
use stepsim_simulate::{Fault, RunStatus, SimulationError};
use stepsim_spec::SpecError;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    pub(super) message: String,
    pub(super) status: u8,
    /// The parts, for a report that was asked for.
    pub(super) fault: Box<Fault>,
}

impl Failure {
    /// The input or the command is wrong.
    pub fn input(error: impl std::fmt::Display) -> Failure {
        Failure::new(error.to_string(), 2, RunStatus::Invalid)
    }
    /// The run failed, or a file could not be written.
    pub fn run(error: impl std::fmt::Display) -> Failure {
        Failure::new(error.to_string(), 1, RunStatus::Failed)
    }
    /// A gate is closed.
    pub(super) fn gate(error: impl std::fmt::Display) -> Failure {
        Failure::new(error.to_string(), 4, RunStatus::Ok)
    }
    /// The same with another line of what happened.
    pub(super) fn and(mut self, line: &str) -> Failure {
        self.message = format!("{}\n{line}", self.message);
        self
    }
    /// Its parts.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
    fn new(message: String, code: u8, status: RunStatus) -> Failure {
        let fault = Fault { status, message: message.clone(), ..Fault::default() };
        Failure { message, status: code, fault: Box::new(fault) }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Words that are no command: the argument takes the place of the file.
impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        let part = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let text = error.to_string().trim_start_matches("error: ").to_string();
        let fault = Fault {
            status: RunStatus::Invalid,
            message: text.split("\n\nFor more").next().unwrap_or_default().trim().to_string(),
            file: part(ContextKind::InvalidArg),
            value: part(ContextKind::InvalidValue),
            allowed: part(ContextKind::ValidValue),
            ..Fault::default()
        };
        Failure::from(fault)
    }
}

/// Errors that are one kind of failure, whatever they say.
macro_rules! failures {
    ($($error:ty => |$name:ident| $failure:expr),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from($name: $error) -> Failure {
                $failure
            }
        }
    )*};
}

failures! {
    SimulationError => |error| Fault::from(&error).into(),
    SpecError => |error| Fault::from(&error).into(),
    EngineError => |error| Fault::from(&error).into(),
    ScheduleError => |error| Failure::input(error),
    CollectiveError => |error| Failure::input(error),
    TraceError => |error| Failure::run(error),
    // Of text on its way to standard output.
    io::Error => |error| Failure::run(format!("cannot write to standard output: {error}")),
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        match error {
            OutputError::Input { .. } => Failure::input(error),
            error => Failure::run(error),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        let status = match fault.status {
            RunStatus::Invalid => 2,
            RunStatus::OutOfMemory => 3,
            _ => 1,
        };
        // The block at the model's end takes its memory with its first op.
        let message = fault.message.replace("`final norm`", "`final norm`, LM head and loss (the logits)");
        Failure { message, status, fault: Box::new(fault) }
    }
}
