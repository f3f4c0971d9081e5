//! Checks of README and book: commands that exist, links that lead somewhere, words that are explained.

use clap::error::ErrorKind;

use stepsim::read::analysis::stall_cause::StallCause;
use stepsim::spec::{Kind, catalog};

/// The README, and the pages of the book.
fn pages() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut pages, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).expect("docs/").flatten().map(|entry| entry.path()) {
            match path.extension().and_then(|e| e.to_str()) {
                Some("md") => pages.push(path),
                None if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    let page =
        |p: std::path::PathBuf| (p.display().to_string(), std::fs::read_to_string(&p).expect("a page"));
    pages.into_iter().map(page).collect()
}

/// Commands of a page: each with whether it stands in a block, where it must be whole.
fn commands(page: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for (i, part) in page.split("```").enumerate() {
        if i % 2 == 1 {
            let lines = part.replace("\\\n", " ");
            let bare = lines.lines().map(|l| l.split(" #").next().unwrap_or_default());
            found.extend(bare.flat_map(|l| l.split("&&")).map(|c| (true, c.trim().to_string())));
        } else {
            found.extend(part.split('`').skip(1).step_by(2).map(|c| (false, c.replace('\n', " "))));
        }
    }
    let program = |(block, text): (bool, String)| {
        let text = text.replace("cargo run --release -- ", "stepsim ");
        (text.starts_with("stepsim ") && !text.contains('…')).then_some((block, text))
    };
    found.into_iter().filter_map(program).collect()
}

/// The words of a command; quotes keep blanks.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().expect("there is one").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Every command that a page shows is understood, and what it names is shipped.
#[test]
fn the_commands_of_the_pages_exist() {
    let mut seen = 0;
    for (page, text) in pages() {
        for (block, command) in commands(&text) {
            let words = words(&command);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match stepsim::cli::definition().try_get_matches_from(&words) {
                Err(e) if !block && e.kind() == ErrorKind::MissingRequiredArgument => {}
                Err(e) if e.kind() == ErrorKind::DisplayHelp => {}
                Err(e) => panic!("{page}: `{command}`\n{e}"),
                Ok(_) => {}
            }
            if let ["stepsim", "run" | "inspect" | "compare", name, ..] = words[..]
                && !name.starts_with('-')
                && !name.ends_with(".json")
                && name.chars().any(|c| c.is_ascii_lowercase())
            {
                assert!(catalog::text(Kind::Workload, name).is_some(), "{page}: `{command}`");
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} commands found");
}

/// Files that a page links to are there.
#[test]
fn the_links_of_the_pages_lead_somewhere() {
    for (page, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") {
                let folder = std::path::Path::new(&page).parent().expect("a folder");
                assert!(folder.join(file).exists(), "{page}: {link}");
            }
        }
    }
}

/// The pages that a page links to.
fn linked(page: &str, text: &str) -> Vec<std::path::PathBuf> {
    let folder = std::path::Path::new(page).parent().expect("a folder");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = links.filter_map(|link| link.split('#').next()).filter(|file| file.ends_with(".md"));
    files.filter_map(|file| folder.join(file).canonicalize().ok()).collect()
}

/// Every page of the book is two links away from README at most; pages for who carries on are behind CONTRIBUTING.
#[test]
fn every_page_is_two_steps_from_readme() {
    let all = pages();
    let text = |path: &std::path::Path| std::fs::read_to_string(path).expect("a page");
    let (readme, front) = all.iter().find(|(page, _)| page.ends_with("README.md")).expect("a README");
    let mut near = linked(readme, front);
    for page in near.clone() {
        near.extend(linked(&page.display().to_string(), &text(&page)));
    }
    let far: Vec<_> = all
        .iter()
        .filter_map(|(page, _)| std::path::Path::new(page).canonicalize().ok())
        .filter(|page| !page.ends_with("README.md") && !near.contains(page))
        .collect();
    assert!(far.is_empty(), "more than two steps from README: {far:?}");
}

/// Every cause of a stall that a report may name stands in the glossary.
#[test]
fn the_glossary_has_every_stall() {
    let all = pages();
    let (_, glossary) = all.iter().find(|(page, _)| page.ends_with("glossary.md")).expect("a glossary");
    for cause in StallCause::ALL {
        assert!(glossary.contains(&format!("**{}**", cause.name())), "{}", cause.name());
    }
}
