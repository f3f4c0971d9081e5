//! The words that a reader types for a file: its path, a function of it, or the line that runs it.

/// The machine that a script asks about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes of the job.
    pub nodes: u64,
    /// Devices of each.
    pub devices_per_node: u64,
}

/// A file, and how it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The path of the file.
    pub file: String,
    /// `FILE.py:NAME` means one function of it.
    pub function: Option<String>,
    /// `SIZE=8B bash run.sh` sets variables of a script.
    pub environment: Vec<(String, String)>,
    /// `run.sh 8B 4` gives a script words of its own.
    pub words: Vec<String>,
    /// `torchrun train.py --lora_r 16`: the text of a line that is no file; `file` is the program's name then.
    pub line: Option<String>,
    /// The machine that a script asks about itself.
    pub counts: Option<Counts>,
}

/// Programs that start a training.
const LAUNCHERS: &str = "torchrun accelerate deepspeed python python3 swift llamafactory-cli axolotl tune trl litgpt composer srun \
    mpirun";

/// Endings of scripts.
const SCRIPTS: [&str; 5] = [".sh", ".slurm", ".sbatch", ".bash", ".sub"];

impl Invocation {
    /// Of what was typed.
    pub fn of(typed: &str) -> Invocation {
        let words: Vec<&str> = typed.split_whitespace().collect();
        let is_script = |word: &&str| SCRIPTS.iter().any(|ending| word.ends_with(ending));
        let script = words.iter().position(is_script);
        let before = &words[..script.unwrap_or(0)];
        let environment: Vec<(String, String)> = before.iter().filter_map(|word| set(word)).collect();
        let is_line =
            before.iter().all(|word| set(word).is_some() || ["bash", "sh", "sbatch"].contains(word));
        match script.filter(|_| is_line && words.len() > 1) {
            Some(at) => Invocation {
                file: words[at].to_string(),
                environment,
                words: words[at + 1..].iter().map(ToString::to_string).collect(),
                ..Invocation::default()
            },
            None if is_command(&words) => {
                Invocation { file: program(&words), line: Some(typed.to_string()), ..Invocation::default() }
            }
            None => match typed.rsplit_once(".py:") {
                Some((head, name)) => Invocation {
                    file: format!("{head}.py"),
                    function: Some(name.to_string()),
                    ..Invocation::default()
                },
                None => Invocation { file: typed.to_string(), ..Invocation::default() },
            },
        }
    }
}

/// True if words are a line that starts a program.
fn is_command(words: &[&str]) -> bool {
    let first = words.iter().find(|word| set(word).is_none());
    let starts = first.is_some_and(|word| is_launcher(word));
    words.len() > 1 && (starts || words.iter().any(|word| word.starts_with("--")))
}

/// True if a word is a program that starts a training.
pub(super) fn is_launcher(word: &str) -> bool {
    LAUNCHERS.split(' ').any(|launcher| Some(launcher) == word.rsplit('/').next())
}

/// The script or module that a line runs, or else its words before the first option.
pub(super) fn program(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let script = words.iter().find(|word| word.ends_with(".py") && !word.contains(' '));
    let module = words.windows(2).find(|pair| pair[0] == "-m").map(|pair| &pair[1]);
    let before = words.iter().skip_while(|word| set(word).is_some());
    let head: Vec<&str> = before.take_while(|word| !word.starts_with('-')).copied().collect();
    script.or(module).map_or_else(|| head.join(" "), ToString::to_string)
}

/// `NAME=value`.
fn set(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then(|| (name.to_string(), value.to_string()))
}
