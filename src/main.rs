//! The `stepsim` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    match stepsim::register_shipped() {
        Ok(()) => stepsim::cli::main(),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
