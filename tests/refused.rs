//! What is wrong is refused with what is allowed: the commands of `tests/data/refused.txt`, and parts of what they say.

use crate::command::{Folder, words};

#[test]
fn what_is_wrong_is_refused_with_what_is_allowed() {
    let (folder, mut shorts, mut wrong, mut commands) = (Folder::new(), Vec::new(), Vec::new(), 0);
    let mut lines = include_str!("data/refused.txt").lines().filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        if let Some(short) = line.strip_prefix("= ") {
            shorts.push(short.split_once(' ').expect("a name and what it stands for"));
        } else if let Some(command) = line.strip_prefix("$ ") {
            let whole = |line: String, (name, words): &(&str, &str)| line.replace(name, words);
            let line = shorts.iter().rev().fold(command.to_string(), whole);
            let line = format!("stepsim {}", line.replace("./", &format!("{}/", folder.path("").display())));
            let said = stepsim::cli::answer(&words(&line).map(Into::into).collect::<Vec<_>>());
            let said = said.err().map_or("nothing".into(), |failure| failure.to_string());
            let parts = lines.next().expect("what is said").split(" | ");
            wrong.extend(
                parts
                    .filter(|part| !said.contains(part))
                    .map(|part| format!("{line}\n  no `{part}` in {said}")),
            );
            commands += 1;
        } else if let Some((name, content)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
            folder.write(name, content.replace("\\n", "\n"));
        }
    }
    assert!(wrong.is_empty() && commands > 150, "of {commands}:\n{}", wrong.join("\n"));
}
