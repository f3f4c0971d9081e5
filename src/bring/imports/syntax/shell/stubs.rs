//! The outputs of programs that scripts ask: what they count, cut and print. Nothing is executed.

use super::lexer::unescaped;
use super::pattern::{matches, replaced};
use super::regular;
use crate::imports::invocation::Counts;

/// Characters of an output at most.
const LONGEST: usize = 1 << 20;

/// The output of a program with these words and this input; `None` where nobody knows it.
pub(super) fn output(words: &[String], input: Option<&str>, counts: Option<Counts>) -> Option<String> {
    let (program, words) = words.split_first()?;
    let text = |words: &[String]| words.join(" ");
    let plain: Vec<&str> =
        words.iter().map(String::as_str).filter(|w| !w.starts_with('-') || w.len() == 1).collect();
    let out = match program.rsplit('/').next().unwrap_or_default() {
        "echo" => return Some(echo(words)),
        "printf" => return printf(words),
        "seq" => seq(&plain)?,
        "nvidia-smi" => return gpus(words, counts?.devices_per_node),
        "scontrol" if plain.get(1) == Some(&"hostnames") => {
            lines((0..counts?.nodes).map(|i| format!("node{i}")))
        }
        "python" | "python3" if words.last()?.contains("torch.cuda.device_count()") => {
            let is_asked_alone = words[0] == "-c" && words[1].split(';').count() <= 3;
            is_asked_alone.then_some(counts?.devices_per_node)?.to_string()
        }
        "date" if plain.contains(&"+%s") => "0".to_string(),
        "hostname" | "date" => program.replace("hostname", "node0"),
        "basename" => {
            let name = plain.first()?.trim_end_matches('/').rsplit('/').next()?.to_string();
            plain.get(1).and_then(|end| name.strip_suffix(end)).unwrap_or(&name).to_string()
        }
        "dirname" => plain.first()?.rsplit_once('/').map_or(".", |(folder, _)| folder).to_string(),
        "realpath" | "readlink" => (*plain.first()?).to_string(),
        "wc" => {
            let input = input?;
            let has = |option: &str| words.iter().any(|word| word == option);
            let n = if has("-l") {
                input.matches('\n').count()
            } else if has("-w") {
                input.split_whitespace().count()
            } else {
                return None;
            };
            n.to_string()
        }
        "head" => lines(input?.lines().take(count(words)?)),
        "tail" => {
            let all: Vec<&str> = input?.lines().collect();
            match words.iter().find_map(|word| word.strip_prefix('+')) {
                Some(from) => lines(all.iter().skip(from.parse::<usize>().ok()?.saturating_sub(1))),
                None => lines(&all[all.len() - count(words)?.min(all.len())..]),
            }
        }
        "cut" => cut(words, input?)?,
        "tr" => return translated(words, input?),
        "sed" => substituted(&plain, input?)?,
        "grep" => {
            let options: String = words.iter().filter_map(|word| word.strip_prefix('-')).collect();
            if options.contains(|c| !"vcqE".contains(c)) {
                return None;
            }
            let finds = if options.contains('E') { regular::finds } else { regular::finds_basic };
            let fits = |line: &str| finds(plain.first()?, line).map(|fits| fits != options.contains('v'));
            let mut found = Vec::new();
            for line in input?.lines() {
                found.extend(fits(line)?.then_some(line));
            }
            if options.contains('c') { found.len().to_string() } else { lines(found) }
        }
        "awk" => {
            let program = text(&words[words.len().checked_sub(1)?..]).replace(' ', "");
            let at: usize = program.strip_prefix("{print$")?.strip_suffix('}')?.parse().ok()?;
            let separator =
                words.iter().find_map(|word| word.strip_prefix("-F")).filter(|_| words.len() == 2);
            let field = |line: &str| match separator {
                Some(sign) => line.split(sign).nth(at.wrapping_sub(1)).unwrap_or_default().to_string(),
                None => line.split_whitespace().nth(at.wrapping_sub(1)).unwrap_or_default().to_string(),
            };
            lines(input?.lines().map(field))
        }
        // `yq .a.b`: what stands at a place of a configuration.
        "yq" | "jq" => {
            let path =
                plain.iter().find(|word| word.starts_with('.'))?.trim_start_matches('.').replace('.', "/");
            let whole: serde_json::Value = serde_yaml_ng::from_str(input?).ok()?;
            let value = whole.pointer(&format!("/{path}"))?;
            value.as_str().map_or_else(|| value.to_string(), str::to_string)
        }
        "sort" if words.is_empty() => {
            let mut all: Vec<&str> = input?.lines().collect();
            all.sort_unstable();
            lines(all)
        }
        _ => return None,
    };
    let end = if out.is_empty() || out.ends_with('\n') { "" } else { "\n" };
    Some(out + end)
}

fn lines(all: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    all.into_iter().map(|line| format!("{line}\n")).collect()
}

/// `-n 2`, `-n2`, `-2`, or ten lines.
fn count(words: &[String]) -> Option<usize> {
    match words {
        [] => Some(10),
        [n, ..] if n == "-n" => words.get(1)?.parse().ok(),
        [n, ..] => n.trim_start_matches("-n").trim_start_matches('-').parse().ok(),
    }
}

fn echo(words: &[String]) -> String {
    let options = words.iter().take_while(|w| ["-n", "-e", "-en", "-ne", "-E"].contains(&w.as_str())).count();
    let has = |letter: char| words[..options].iter().any(|word| word.contains(letter));
    let text = words[options..].join(" ");
    let text = if has('e') { unescaped(&text) } else { text };
    if has('n') { text } else { text + "\n" }
}

/// The text of a format, once for as many words as it takes, until none are left.
pub(super) fn printf(words: &[String]) -> Option<String> {
    let (format, mut words) = words.split_first()?;
    let format = unescaped(format);
    let mut out = String::new();
    loop {
        let mut chars = format.chars();
        let before = words.len();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut width = String::new();
            let kind = chars.by_ref().find(|c| {
                let is_width = c.is_ascii_digit();
                width.extend(is_width.then_some(*c));
                !is_width
            })?;
            let word = words.split_first().map(|(word, rest)| {
                words = rest;
                word.as_str()
            });
            match kind {
                '%' => out.push('%'),
                's' => out += word.unwrap_or_default(),
                'd' if width.starts_with('0') => {
                    out += &format!(
                        "{:0>width$}",
                        word.unwrap_or("0"),
                        width = width.parse::<usize>().ok()?.min(64)
                    );
                }
                'd' if width.is_empty() => out += word.unwrap_or("0"),
                _ => return None,
            }
        }
        if words.is_empty() || words.len() == before || out.len() > LONGEST {
            return Some(out);
        }
    }
}

fn seq(words: &[&str]) -> Option<String> {
    let numbers: Vec<i64> = words.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let (first, by, last) = match numbers[..] {
        [last] => (1, 1, last),
        [first, last] => (first, 1, last),
        [first, by, last] if by > 0 => (first, by, last),
        _ => return None,
    };
    Some(lines((first..=last).step_by(usize::try_from(by).ok()?).take(LONGEST / 8)))
}

/// The list of a node's GPUs, a line each.
fn gpus(words: &[String], devices: u64) -> Option<String> {
    let listed = words.iter().any(|w| ["-L", "--list-gpus"].contains(&w.as_str()));
    let asked = words.iter().find_map(|word| word.strip_prefix("--query-gpu="));
    let head = !words.iter().any(|word| word.contains("noheader"));
    let all = |text: &str| lines((0..devices).map(|i| text.replace('#', &i.to_string())));
    match asked {
        _ if listed => Some(all("GPU #: a device")),
        Some("index") if !head => Some(all("#")),
        Some("count") if !head => Some(all(&devices.to_string())),
        Some(field) if head => Some(format!("{field}\n") + &all("a device")),
        Some("name" | "gpu_name" | "uuid" | "gpu_uuid" | "gpu_bus_id") => Some(all("a device")),
        _ => None,
    }
}

/// `cut -d , -f 2`.
fn cut(words: &[String], input: &str) -> Option<String> {
    let all = words.join(" ");
    let option = |name: &str| {
        let at = words.iter().position(|word| word.starts_with(name))?;
        let rest = &words[at][name.len()..];
        Some(if rest.is_empty() { words.get(at + 1)?.as_str() } else { rest })
    };
    if all.contains("-c") || all.contains("--") {
        return None;
    }
    let separator = option("-d").map_or(Some('\t'), |sign| sign.chars().next())?;
    let field = option("-f")?;
    let (first, last) = field.split_once('-').unwrap_or((field, field));
    let (first, last): (usize, Option<usize>) = (first.parse().ok()?, last.parse().ok());
    let part = |line: &str| {
        let all: Vec<&str> = line.split(separator).collect();
        if all.len() == 1 {
            return line.to_string();
        }
        let end = last.unwrap_or(all.len()).min(all.len());
        all.get(first.saturating_sub(1)..end).unwrap_or_default().join(&separator.to_string())
    };
    Some(lines(input.lines().map(part)))
}

/// `tr , ' '`, `tr -d ' '`, and the two cases of letters.
fn translated(words: &[String], input: &str) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| unescaped(word)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["-d", set] if !set.contains(['[', '-']) => Some(input.replace(|c| set.contains(c), "")),
        ["[:upper:]" | "A-Z", "[:lower:]" | "a-z"] => Some(input.to_lowercase()),
        ["[:lower:]" | "a-z", "[:upper:]" | "A-Z"] => Some(input.to_uppercase()),
        [from, to] if from.chars().count() == 1 && to.chars().count() == 1 => Some(input.replace(from, to)),
        _ => None,
    }
}

/// `sed s/a/b/g`, of texts that are no expressions.
fn substituted(words: &[&str], input: &str) -> Option<String> {
    let [command] = words else { return None };
    let sign = command.strip_prefix('s')?.chars().next()?;
    let parts: Vec<&str> = command[1 + sign.len_utf8()..].split(sign).collect();
    let [from, to, flags @ ("" | "g")] = parts[..] else { return None };
    let is_plain = |text: &str| !text.contains(['.', '*', '[', '\\', '^', '$', '+', '?', '&', '(']);
    (is_plain(from) && is_plain(to))
        .then(|| lines(input.lines().map(|line| replaced(line, from, to, flags == "g"))))
}

/// True if a program reads the file that its last word names.
pub(super) fn reads_a_file(program: &str) -> bool {
    ["yq", "jq", "grep", "awk", "sed", "head", "tail", "wc", "cut", "sort"].contains(&program)
}

/// True for an option of grep by which it prints nothing: `-q`, `-qE`.
pub(super) fn is_quiet(option: &str) -> bool {
    option.starts_with('-') && !option.starts_with("--") && option.contains('q')
}

/// True for a program whose words are no arguments of a job: one of the system, or a server.
pub(super) fn is_apart(words: &[String]) -> bool {
    const APART: [&str; 32] = [
        "mkdir", "cd", "rm", "cp", "mv", "ls", "find", "pip*", "git", "wget", "curl", "apt*", "sed", "tar",
        "cat", "tee", "sleep", "wait", "kill", "pkill", "module", "conda", "ulimit", "trap", "chmod", "ln",
        "touch", "date", "which", "tail", "ds_ssh", "pdsh",
    ];
    const SERVES: [(&str, &[&str]); 2] =
        [("ray", &["start", "stop", "status"]), ("swift", &["rollout", "deploy", "infer", "sample", "app"])];
    let program = words[0].rsplit('/').next().unwrap_or_default();
    // The value of an option names no program.
    let is_value = |at: usize| at.checked_sub(1).is_some_and(|before| words[before].starts_with("--"));
    let serves = |(at, word): (usize, &String)| {
        let last = word.rsplit(['.', '_', '/']).next().unwrap_or_default();
        !word.starts_with('-')
            && !word.contains([' ', '='])
            && ["serve", "server"].contains(&last)
            && !is_value(at)
    };
    let does = |verbs: &[&str]| words.get(1).is_some_and(|word| verbs.contains(&word.as_str()));
    let is_served = SERVES.iter().any(|(name, verbs)| program == *name && does(verbs));
    is_served || words.iter().enumerate().any(serves) || APART.iter().any(|pattern| matches(pattern, program))
}
