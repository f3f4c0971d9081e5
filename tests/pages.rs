//! Pages of commands: each stands alone, says what its report says, and holds the command that made it.

use std::fs;

use snapbox::cmd::Command;
use tempfile::TempDir;

/// The page that a command writes to `--html`.
fn page_of(folder: &TempDir, words: &[&str]) -> String {
    let path = folder.path().join("page.html");
    let command = Command::new(env!("CARGO_BIN_EXE_stepsim"))
        .current_dir(folder.path())
        .args(words)
        .arg("--html")
        .arg(&path);
    command.assert().success();
    let page = fs::read_to_string(&path).expect("a page");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{words:?}: {outside}");
    }
    assert!(
        page.ends_with("</body></html>\n") && page.contains(&format!("<pre>stepsim {}", words[0])),
        "{words:?}"
    );
    page
}

#[test]
fn a_page_of_what_ifs_has_a_bar_and_a_row_for_each_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["whatif", "tiny-4", "--scale", "matrix=2", "--without", "exposed"];
    let page = page_of(&folder, &words);
    // Two changes, and both at once.
    assert_eq!(
        page.matches("<td>matrix × 2").count() + page.matches("<td>without exposed").count(),
        3,
        "{page}"
    );
    assert!(page.contains("class=\"gain\"") && page.contains("a step, unchanged"));
}

#[test]
fn a_page_of_a_search_ranks_and_says_what_was_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = page_of(&folder, &["search", "tiny-4", "--top", "3"]);
    assert!(page.matches("<summary>command").count() <= 3 && page.contains("stepsim run tiny-4 -t "));
    for section in ["Ranking", "The best, from the peak to MFU", "What was left out"] {
        assert!(page.contains(&format!("<h2>{section}</h2>")), "{section}");
    }
}

#[test]
fn days_jobs_and_plans_have_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = ["reliability.checkpoint.stall_s=60", "reliability.checkpoint.safe_after_s=0"];
    let days =
        ["goodput", "--step-s", "12", "--devices", "1024", "--runs", "20", "--set", checkpoint[0], "--set"];
    let page = page_of(&folder, &[&days[..], &checkpoint[1..]].concat());
    assert!(page.contains("Where the days went") && page.contains("restarts"));
    let page = page_of(&folder, &["share", "tiny-4@0-3", "tiny-4@4-7", "-t", "switch:8,450,1"]);
    assert!(page.contains("Alone and together") && page.contains("slower by"));
    let page = page_of(&folder, &["plan", "tiny-4", "-o", "planned.json"]);
    assert!(page.contains("stepsim whatif planned.json") && page.contains("a step"));
}
