//! The command line: one file per subcommand.

pub mod estimate;
pub mod schedule;

/// Runs the command line and returns the exit status.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
