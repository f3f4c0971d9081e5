//! A script played without executing anything: variables get their values, branches are chosen where their conditions
//! can be told, and the words of each program that would be run are written down. What programs print is known for
//! those of `stubs`.
//!
//! Hazards:
//! * A variable that nothing sets is empty where a condition asks for it, as in a shell, and what it goes into hangs on
//!   it ([`super::marks`]). Words that only collect options (`$EXTRA_ARGS`) vanish.
//! * Where a condition cannot be told (a file, an output), or a shell would complain of it, what a shell would do (else
//!   its first branch) is taken: a *decision*, which is noted. The script is played again with each decision the
//!   other way (`flip`), and what differs hangs on it.
//! * `exit` ends nothing before a program was run: scripts leave early where something is missing that a reader may not
//!   have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::condition;
use super::grammar::{self, Assignment, ShellCommand, plain};
use super::lexer::{self, Stream, Word, quoted};
use super::marks::{is_known, open_as, opens, says_something, unset, without_marks};
use super::pattern::matches;
use super::stubs;
use super::sum;
use crate::imports::files;
use crate::imports::invocation::{Counts, is_launcher};
use crate::imports::jobs;

/// The values of a variable with their keys.
pub(super) type Values = Vec<(String, String)>;

/// Commands that are played at most, in all plays of a script together.
const MOST: usize = 400_000;
/// Bytes that words may have altogether, each as often as it is put together.
const MOST_TEXT: usize = 16 << 20;
/// Bytes that a word takes beside its characters.
pub(super) const BESIDE: usize = 100;
/// Turns of a loop that goes on.
const TURNS: usize = 1000;
/// Functions, scripts and substitutions in one another, at most this deep.
const DEEPEST: usize = 16;
/// Words before a program that it does not see.
const PREFIXES: [&str; 8] = ["time", "nohup", "exec", "command", "sudo", "env", "builtin", "eval"];
/// Shells and others that play a script.
const SHELLS: [&str; 5] = ["bash", "sh", "sbatch", "source", "."];
/// The variable at whose characters a text comes apart.
pub(super) const SEPARATORS: &str = "IFS";

/// How far a command leaves what it stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Break(usize),
    Continue(usize),
    Return,
    Exit,
}

/// The state of a shell.
#[derive(Default)]
pub(super) struct Player {
    pub(super) variables: BTreeMap<String, Values>,
    /// Arrays whose keys are words.
    pub(super) by_name: BTreeSet<String>,
    functions: BTreeMap<String, Vec<ShellCommand>>,
    /// The words behind the script's name.
    pub(super) line: Vec<String>,
    /// The words of each program, in order.
    pub programs: Vec<Vec<String>>,
    /// Variables that programs see and that change how they run.
    pub environment: BTreeMap<String, String>,
    /// Files that the script writes.
    pub files: BTreeMap<String, String>,
    /// The folder of the script.
    folder: PathBuf,
    counts: Option<Counts>,
    pub(super) input: Option<String>,
    output: String,
    leaving: Option<Leave>,
    /// Variables whose values stood somewhere.
    pub(super) used: BTreeSet<String>,
    /// Variables that nothing sets, with the values that conditions compare them with.
    pub choices: BTreeMap<String, BTreeSet<String>>,
    /// Variables without which it ends before it runs anything.
    pub needed: BTreeSet<String>,
    /// What each decision hangs on.
    pub decisions: Vec<String>,
    /// The decision that is taken the other way.
    pub flip: Option<usize>,
    /// What the condition hangs on that is being played.
    hangs: Vec<String>,
    /// Values of variables before a function made them its own.
    locals: Vec<Vec<(String, Option<Values>)>>,
    pub played: usize,
    pub written: usize,
    depth: usize,
}

/// Variables of the surroundings that change how programs run.
const WATCHED: [&str; 4] =
    ["CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "NPROC_PER_NODE", "NNODES"];

/// Variables in which a cluster gives each node or process its number: the first one is played.
const FIRST: [&str; 6] =
    ["NODE_RANK", "PET_NODE_RANK", "MACHINE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

impl Player {
    /// A shell for a file with variables of its surroundings, and what stands behind the script's name.
    pub fn new(
        file: &str,
        environment: &[(String, String)],
        line: &[String],
        counts: Option<Counts>,
    ) -> Player {
        let folder = Path::new(file).parent().unwrap_or(Path::new("")).to_path_buf();
        let mut player = Player { line: line.to_vec(), folder, counts, ..Player::default() };
        let place = player.folder.display().to_string();
        let place = if place.is_empty() { "." } else { &place };
        let own =
            [("0", file), ("BASH_SOURCE", file), ("PWD", place), ("BASH_VERSION", "5.2.0"), ("BASH", "bash")];
        for (name, value) in own.into_iter().chain(FIRST.map(|name| (name, "0"))) {
            player.put(name, value.to_string());
        }
        for (name, value) in environment {
            player.put(name, value.clone());
        }
        player
    }

    /// True if it has done all that it may.
    pub fn is_spent(&self) -> bool {
        self.played > MOST || self.written > MOST_TEXT
    }

    /// True if a variable has a value.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|values| values.iter().all(|(_, value)| unset(value).is_none()))
    }
    pub(super) fn put(&mut self, name: &str, value: String) {
        self.variables.insert(name.to_string(), vec![("0".to_string(), value)]);
    }

    /// Notes what an open variable is compared with.
    fn asks(&mut self, left: &str, right: &str) {
        for (one, other) in [(left, right), (right, left)] {
            if let (Some(name), true) = (unset(one), says_something(other) && !other.is_empty()) {
                self.choices.entry(name.to_string()).or_default().insert(other.to_string());
            }
        }
    }

    /// Notes the empty variables of a condition that holds and ends the script before it runs anything.
    fn needs(&mut self, is: Option<bool>, condition: &[ShellCommand], body: &[ShellCommand]) {
        let ends = |command: &ShellCommand| match command {
            ShellCommand::Simple { words, .. } => words.first().and_then(plain) == Some("exit"),
            _ => false,
        };
        let is_started =
            self.programs.iter().flatten().any(|word| word.ends_with(".py") || is_launcher(word));
        if is != Some(true) || is_started || !body.iter().any(ends) {
            return;
        }
        let empty = |name: &&String| {
            let values = self.variables.get(*name).map_or(&[][..], Vec::as_slice);
            values.iter().all(|(_, value)| without_marks(value).is_empty())
        };
        let named = grammar::variables(condition);
        self.needed.extend(named.iter().filter(empty).cloned());
    }

    /// Whether a condition counts as one that holds.
    fn decide(&mut self, is: Option<bool>) -> bool {
        let hangs = std::mem::take(&mut self.hangs);
        let usual = is.unwrap_or(true);
        if is.is_some() && hangs.is_empty() {
            return usual;
        }
        let at = self.decisions.len();
        self.decisions.push(hangs.first().cloned().unwrap_or_default());
        usual != (self.flip == Some(at))
    }

    /// Plays commands in order; whether the last one succeeded.
    pub fn play(&mut self, commands: &[ShellCommand]) -> Option<bool> {
        let mut last = Some(true);
        for command in commands {
            self.played += 1;
            if self.is_spent() || self.leaving.is_some() {
                break;
            }
            last = self.command(command);
        }
        last
    }

    /// Plays a text of commands.
    pub fn play_text(&mut self, text: &str) -> Option<bool> {
        if self.depth >= DEEPEST || crate::imports::budget::check(text).is_err() {
            return None;
        }
        let tokens = lexer::tokens(text).ok()?;
        self.depth += 1;
        let succeeded = self.play(&grammar::commands(tokens));
        self.depth -= 1;
        succeeded
    }

    /// What a text of commands prints.
    pub(super) fn printed(&mut self, text: &str) -> String {
        if let Some(path) = text.trim().strip_prefix('<') {
            let path = self.text(&quoted(path.trim()));
            return self.file(&path).unwrap_or_else(|| open_as(&path));
        }
        let before = std::mem::take(&mut self.output);
        self.apart(|player| player.play_text(text));
        std::mem::replace(&mut self.output, before)
    }

    /// Plays something that leaves variables and functions as they were.
    fn apart(&mut self, play: impl FnOnce(&mut Player) -> Option<bool>) -> Option<bool> {
        let kept = (self.variables.clone(), self.functions.clone(), self.line.clone());
        self.played += kept.0.values().map(Vec::len).sum::<usize>();
        let succeeded = play(self);
        (self.variables, self.functions, self.line) = kept;
        self.leaving = None;
        succeeded
    }

    fn command(&mut self, command: &ShellCommand) -> Option<bool> {
        match command {
            ShellCommand::Simple { sets, words } => self.simple(sets, words),
            ShellCommand::Sum(text) => self.sum(text).map_or_else(
                |name| {
                    self.hangs.push(name);
                    None
                },
                |value| Some(value != 0),
            ),
            ShellCommand::Not(inner) => self.command(inner).map(|is| !is),
            ShellCommand::And(left, right) => match self.command(left) {
                Some(false) => Some(false),
                _ => self.command(right),
            },
            ShellCommand::Or(left, right) => match self.command(left) {
                Some(false) => self.command(right),
                succeeded => succeeded,
            },
            ShellCommand::Group(body) => self.play(body),
            ShellCommand::Apart(body) => self.apart(|player| player.play(body)),
            ShellCommand::Pipe(all) => self.pipe(all),
            ShellCommand::Streamed(inner, streams) => self.streamed(inner, streams),
            ShellCommand::Function { name, body } => {
                self.functions.insert(name.clone(), body.clone());
                Some(true)
            }
            ShellCommand::If { branches, other } => {
                for (condition, body) in branches {
                    self.hangs.clear();
                    let is = self.play(condition);
                    self.needs(is, condition, body);
                    if self.decide(is) {
                        return self.play(body);
                    }
                }
                self.play(other)
            }
            ShellCommand::Case { word, arms } => self.case(word, arms),
            ShellCommand::For { name, words, body } => self.each(name, words.as_deref(), body),
            ShellCommand::While { until, condition, body, next } => {
                for _ in 0..TURNS {
                    if self.play(condition) != Some(!until) || self.turn(body) {
                        break;
                    }
                    if let Some(next) = next {
                        self.command(next);
                    }
                }
                Some(true)
            }
        }
    }

    fn pipe(&mut self, all: &[ShellCommand]) -> Option<bool> {
        let before = (std::mem::take(&mut self.output), self.input.clone());
        let mut succeeded = Some(true);
        for (i, command) in all.iter().enumerate() {
            succeeded = self.command(command);
            if i + 1 < all.len() {
                self.input = Some(std::mem::take(&mut self.output));
            }
        }
        let last = std::mem::replace(&mut self.output, before.0);
        self.print(&last);
        self.input = before.1;
        succeeded
    }

    fn streamed(&mut self, inner: &ShellCommand, streams: &[Stream]) -> Option<bool> {
        let before = self.input.clone();
        let mut into = None;
        for stream in streams {
            match stream {
                Stream::Text(word) => {
                    let text = self.text(word);
                    self.input = Some(if text.ends_with('\n') { text } else { text + "\n" });
                }
                Stream::From(word) => {
                    let path = self.text(word);
                    self.input = Some(self.file(&path).unwrap_or_else(|| open_as(&path)));
                }
                Stream::Into(word, append) => into = Some((self.text(word), *append)),
                Stream::Aside => {}
            }
        }
        let output = into.is_some().then(|| std::mem::take(&mut self.output));
        let succeeded = self.command(inner);
        if let (Some((path, append)), Some(output)) = (into, output) {
            let text = std::mem::replace(&mut self.output, output);
            let file = self.files.entry(path).or_default();
            if !append {
                file.clear();
            }
            *file += &text;
        }
        self.input = before;
        succeeded
    }

    fn print(&mut self, text: &str) {
        self.written += text.len();
        if !self.is_spent() {
            self.output += text;
        }
    }

    /// A turn of a loop; true if it is the last.
    fn turn(&mut self, body: &[ShellCommand]) -> bool {
        self.play(body);
        let (ends, leaving) = match self.leaving {
            None | Some(Leave::Continue(0 | 1)) => (false, None),
            Some(Leave::Break(0 | 1)) => (true, None),
            Some(Leave::Break(n)) => (true, Some(Leave::Break(n - 1))),
            Some(Leave::Continue(n)) => (true, Some(Leave::Continue(n - 1))),
            other => (true, other),
        };
        self.leaving = leaving;
        ends || self.is_spent()
    }

    fn case(&mut self, word: &Word, arms: &[(Vec<Word>, Vec<ShellCommand>)]) -> Option<bool> {
        let value = self.text(word);
        for (patterns, body) in arms {
            let patterns: Vec<String> = patterns.iter().map(|pattern| self.text(pattern)).collect();
            for pattern in patterns.iter().filter(|pattern| !pattern.contains('*')) {
                self.asks(&value, pattern);
            }
            let value = without_marks(&value);
            if patterns.iter().any(|pattern| matches(pattern, &value)) {
                return self.play(body);
            }
        }
        Some(true)
    }

    fn each(&mut self, name: &str, words: Option<&[Word]>, body: &[ShellCommand]) -> Option<bool> {
        let values = match words {
            Some(words) => words.iter().flat_map(|word| self.fields(word)).collect(),
            None => self.line.clone(),
        };
        for value in values {
            self.put(name, value);
            if self.turn(body) {
                break;
            }
        }
        Some(true)
    }

    fn simple(&mut self, sets: &[Assignment], words: &[Word]) -> Option<bool> {
        let program = words.first().and_then(plain).unwrap_or_default();
        let declares = words.is_empty() || grammar::DECLARATIONS.contains(&program);
        let kept: Vec<(String, Option<Values>)> =
            sets.iter().map(|set| (set.name.clone(), self.variables.get(&set.name).cloned())).collect();
        if ["declare", "local", "typeset"].contains(&program) {
            let is_by_name =
                words.iter().any(|word| plain(word).is_some_and(|w| w.starts_with('-') && w.contains('A')));
            let names = words[1..].iter().filter_map(plain).filter(|name| lexer::is_name(name));
            let all = names.map(str::to_string).chain(sets.iter().map(|set| set.name.clone()));
            if is_by_name {
                self.by_name.extend(all);
            }
        }
        // A program's words are put together before what stands in front of it is set.
        let is_test = ["[[", "[", "test"].contains(&program);
        let plain_words = !declares && !is_test;
        let fields: Vec<String> =
            words.iter().filter(|_| plain_words).flat_map(|word| self.fields(word)).collect();
        for set in sets {
            self.set(set);
        }
        if declares {
            // A name and its value in quotes, or put together.
            for text in words.iter().skip(1).flat_map(|word| self.fields(word)).collect::<Vec<String>>() {
                if let Some((name, value)) = text.split_once('=').filter(|(name, _)| lexer::is_name(name)) {
                    self.put(name, value.to_string());
                }
            }
            if let (true, Some(locals)) =
                (["declare", "local", "typeset"].contains(&program), self.locals.last_mut())
            {
                locals.extend(kept);
            }
            return Some(true);
        }
        if is_test {
            return self.condition(program, words);
        }
        let succeeded = self.builtin(&fields);
        // What stands before a program holds for that program.
        for (name, value) in kept {
            match value {
                Some(value) => drop(self.variables.insert(name, value)),
                None => drop(self.variables.remove(&name)),
            }
        }
        succeeded
    }

    fn condition(&mut self, program: &str, words: &[Word]) -> Option<bool> {
        let end = words.len() - usize::from(program != "test" && words.len() > 1);
        let words: Vec<String> = words[1..end]
            .iter()
            .flat_map(|word| match program {
                "[[" => vec![self.text(word)],
                _ => self.words_of_test(word),
            })
            .collect();
        let is_there =
            |path: &str| self.files.contains_key(path) || files::beside(&self.folder, path).is_some();
        let verdict = condition::holds(&words, &|name| self.is_set(name), &is_there);
        verdict.compared.iter().for_each(|(left, right)| self.asks(left, right));
        self.hangs.extend(verdict.unset);
        if verdict.is.is_none() {
            let open = words.iter().flat_map(|word| opens(word)).next().map(str::to_string);
            let text: Vec<String> = words.iter().map(|word| without_marks(word)).collect();
            self.hangs.push(open.unwrap_or_else(|| text.join(" ")));
        }
        verdict.is
    }

    /// A word of `[ ... ]`, which stays one where it is open, and where it stands in quotes.
    fn words_of_test(&mut self, word: &Word) -> Vec<String> {
        let fields = self.fields(word);
        if fields.is_empty() { vec![self.text(word)] } else { fields }
    }

    fn builtin(&mut self, fields: &[String]) -> Option<bool> {
        let Some((program, words)) = fields.split_first() else { return Some(true) };
        let number = || words.first().and_then(|n| n.parse().ok()).unwrap_or(1);
        match program.as_str() {
            "false" => return Some(false),
            ":" | "true" | "trap" | "shopt" | "ulimit" | "wait" | "alias" => return Some(true),
            "exit" if self.programs.is_empty() || words.first().is_some_and(|code| code != "0") => {}
            "exit" => self.leaving = Some(Leave::Exit),
            "return" => {
                self.leaving = Some(Leave::Return);
                return words.first().is_none_or(|code| code == "0").into();
            }
            "break" => self.leaving = Some(Leave::Break(number())),
            "continue" => self.leaving = Some(Leave::Continue(number())),
            "unset" => words.iter().for_each(|name| drop(self.variables.remove(name))),
            "set" => {
                if let Some(at) = words.iter().position(|word| word == "--") {
                    self.line = words[at + 1..].to_vec();
                }
            }
            "shift" => drop(self.line.drain(..usize::min(number(), self.line.len()))),
            "let" => words.iter().for_each(|sum| drop(self.sum(sum))),
            "read" => return self.read(words),
            "mapfile" | "readarray" => self.read_lines(words),
            "getopts" => return Some(false),
            "expr" => {
                let value = self.sum(&words.join(" "));
                self.print(&value.map_or_else(|open| open_as(&open), |n| n.to_string()));
            }
            "cd" => {
                if let Some(path) = words.iter().find(|word| !word.starts_with('-')) {
                    self.put("PWD", path.clone());
                }
            }
            "pwd" => {
                let place = self.text(&quoted("$PWD"));
                self.print(&(place + "\n"));
            }
            "printf" if words.first().is_some_and(|word| word == "-v") => {
                let text = stubs::printf(words.get(2..).unwrap_or_default());
                words.get(1).iter().for_each(|name| self.put(name, text.clone().unwrap_or_default()));
            }
            "cat" => {
                let plain = words.iter().filter(|word| !word.starts_with('-'));
                let texts: Vec<Option<String>> = plain.map(|path| self.file(path)).collect();
                let input = texts.is_empty().then(|| self.input.clone().unwrap_or_default());
                let all: Option<String> = texts.into_iter().chain(input.map(Some)).collect();
                self.print(&all.unwrap_or_else(|| open_as(&format!("$({})", fields.join(" ")))));
            }
            "tee" => {
                let text = self.input.clone().unwrap_or_default();
                for path in words.iter().filter(|word| !word.starts_with('-')) {
                    self.files.insert(path.clone(), text.clone());
                }
                self.print(&text);
            }
            _ => return self.call(fields),
        }
        Some(true)
    }

    /// A function, a script, or a program.
    fn call(&mut self, fields: &[String]) -> Option<bool> {
        let Some((program, words)) = fields.split_first() else { return Some(true) };
        if program == "eval" {
            let line = words.join(" ");
            return self.play_text(&line);
        }
        if PREFIXES.contains(&program.as_str()) {
            let options = |word: &&String| word.starts_with('-') || (program == "env" && word.contains('='));
            return self.builtin(&words[words.iter().take_while(options).count()..]);
        }
        if let Some(body) = self.functions.get(program).cloned()
            && self.depth < DEEPEST
        {
            let line = std::mem::replace(&mut self.line, words.to_vec());
            self.depth += 1;
            self.locals.push(Vec::new());
            let succeeded = self.play(&body);
            for (name, value) in self.locals.pop().unwrap_or_default().into_iter().rev() {
                match value {
                    Some(value) => drop(self.variables.insert(name, value)),
                    None => drop(self.variables.remove(&name)),
                }
            }
            self.depth -= 1;
            self.line = line;
            if self.leaving == Some(Leave::Return) {
                self.leaving = None;
            }
            return succeeded;
        }
        self.run(fields)
    }

    /// Writes a program down, and what it plays: a line (`srun bash -c '$LAUNCHER $CMD'`), a script that stands beside
    /// this one or that it wrote, or what it reads.
    fn run(&mut self, fields: &[String]) -> Option<bool> {
        let program = fields[0].rsplit('/').next().unwrap_or_default();
        let mut names = fields.iter().map(|word| word.rsplit('/').next().unwrap_or_default()).enumerate();
        let shell = names.find(|(at, word)| SHELLS[..if *at == 0 { SHELLS.len() } else { 2 }].contains(word));
        if let Some((at, _)) = shell {
            let words = &fields[at + 1..];
            let first = words.iter().position(|word| !word.starts_with('-') && !word.contains('='));
            let line = words.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
            // A job that hands itself in again is another job.
            if fields[at] == "sbatch" && first.is_some_and(|at| words[at] == self.text(&quoted("$0"))) {
                return Some(true);
            }
            if let Some(line) = line.and_then(|at| words.get(at + 1)) {
                self.note(fields);
                return self.play_text(line);
            }
            match first.map(|at| (self.file(&words[at]), &words[at..])) {
                Some((Some(text), [_, rest @ ..])) => return self.script(&fields[at], &text, rest),
                Some((None, [path, ..])) if at == 0 && ["source", "."].contains(&fields[0].as_str()) => {
                    let name = path.rsplit('/').next().unwrap_or_default();
                    if let Some(name) = name.strip_suffix(".sh") {
                        self.put("MODEL_SOURCE", format!("models/{name}"));
                    }
                    return Some(true);
                }
                None => {
                    if let Some(text) = self.input.clone() {
                        return self.play_text(&text);
                    }
                }
                _ => {}
            }
        }
        if fields[0].contains('/')
            && fields[0].ends_with(".sh")
            && let Some(text) = self.file(&fields[0])
        {
            return self.script("bash", &text, &fields[1..]);
        }
        // `grep x FILE`: what stands in the file is what the program reads.
        let file = fields.last().filter(|_| stubs::reads_a_file(program) && fields.len() > 2);
        let text = file.filter(|_| self.input.is_none()).and_then(|path| self.file(path));
        let asked = &fields[..fields.len() - usize::from(text.is_some())];
        let input = text.or_else(|| self.input.clone());
        let known = asked.iter().all(|word| is_known(word)) && input.as_deref().is_none_or(is_known);
        if let Some(text) = stubs::output(asked, input.as_deref(), self.counts).filter(|_| known) {
            let is_quiet = program == "grep" && asked.iter().any(|word| stubs::is_quiet(word));
            self.print(if is_quiet { "" } else { &text });
            return if program == "grep" { Some(!text.is_empty()) } else { Some(true) };
        }
        let texts = fields.iter().map(String::as_str).chain(self.input.as_deref());
        let hangs = texts.flat_map(opens).next().map(str::to_string);
        let hangs = hangs.unwrap_or_else(|| format!("$({})", fields.join(" ")));
        self.print(&open_as(&hangs));
        self.hangs.push(hangs);
        if stubs::is_apart(fields) {
            return None;
        }
        self.note(fields);
        None
    }

    /// A program with its words, and what it sees.
    fn note(&mut self, fields: &[String]) {
        for name in WATCHED {
            if let Some(value) = self.variables.get(name).and_then(|values| values.first()) {
                self.environment.insert(name.to_string(), value.1.clone());
            }
        }
        self.programs.push(fields.to_vec());
    }

    /// Plays a script: `source` here, others by themselves.
    fn script(&mut self, shell: &str, text: &str, words: &[String]) -> Option<bool> {
        if ["source", "."].contains(&shell) {
            let succeeded = self.play_text(text);
            if self.leaving == Some(Leave::Return) {
                self.leaving = None;
            }
            return succeeded;
        }
        self.apart(|player| {
            player.line = words.to_vec();
            player.play_text(text)
        })
    }

    /// The text of a file that the script wrote or that stands beside it.
    fn file(&mut self, path: &str) -> Option<String> {
        if let Some(text) = jobs::written(&self.files, path) {
            return Some(text.clone());
        }
        let path = without_marks(path);
        let text = files::beside(&self.folder, &path)?.1;
        self.written += text.len();
        Some(text)
    }

    pub(super) fn sum(&mut self, text: &str) -> Result<i64, String> {
        let text = self.text(&quoted(text));
        if let Some(open) = opens(&text).next() {
            return Err(open.to_string());
        }
        sum::evaluate(&text, self)
    }
}

impl sum::Variables for Player {
    fn get(&self, name: &str) -> Result<i64, String> {
        let (name, key) = name.split_once('[').map_or((name, "0"), |(n, key)| (n, key.trim_end_matches(']')));
        let values = self.variables.get(name).ok_or_else(|| name.to_string())?;
        let value = values.iter().find(|(other, _)| other == key).map_or("", |(_, value)| value);
        match opens(value).next() {
            Some(open) => Err(open.to_string()),
            None if value.trim().is_empty() => Ok(0),
            None => value.trim().parse().map_err(|_| name.to_string()),
        }
    }
    fn set(&mut self, name: &str, value: i64) {
        self.put(name, value.to_string());
    }
}
