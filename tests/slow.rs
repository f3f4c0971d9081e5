//! How much is tried: everything with `STEPSIM_SLOW=1` (`.ci/run --slow`), less on every change.

/// Whether everything is tried.
pub fn slow() -> bool {
    std::env::var_os("STEPSIM_SLOW").is_some()
}

/// A third of what is tried, another one with each number in `STEPSIM_TURN` (`.ci/run` counts its commits), or all.
pub fn turn<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let turn = std::env::var("STEPSIM_TURN").map_or(0, |n| n.parse::<usize>().expect("a number of commits"));
    all.into_iter().enumerate().filter(move |(i, _)| slow() || i % 3 == turn % 3).map(|(_, one)| one)
}

/// The first names, or all.
pub fn some<'a>(names: &'a [&'a str], few: usize) -> &'a [&'a str] {
    if slow() { names } else { &names[..few] }
}

/// Whether a shipped workload is tried: those of few ops always, the others where everything is.
pub fn tried(workload: &str) -> bool {
    let quick = ["tiny-4", "gpt2-8", "llama3-8b-fsdp", "llama3-70b-offload", "cxl-pool-8"];
    slow() || quick.contains(&workload)
}
