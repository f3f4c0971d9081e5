//! The `stepsim` command.

fn main() -> std::process::ExitCode {
    stepsim::cli::main()
}
