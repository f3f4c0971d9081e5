//! Pages of commands: each stands alone, says what its report says, and holds the command that made it.

use crate::command::Folder;

/// The page that a command writes to `--html`.
fn page_of(line: &str) -> String {
    let folder = Folder::new();
    folder.stepsim(&format!("{line} --html page.html")).ok();
    let page = folder.text("page.html");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{line}: {outside}");
    }
    let command = line.split(' ').next().unwrap_or_default();
    assert!(
        page.ends_with("</body></html>\n") && page.contains(&format!("<pre>stepsim {command}")),
        "{line}"
    );
    page
}

#[test]
fn a_page_of_what_ifs_has_a_bar_and_a_row_for_each_change() {
    let page = page_of("whatif tiny-4 --scale matrix=2 --without exposed");
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
    let page = page_of("search tiny-4 --top 3");
    assert!(page.matches("<summary>command").count() <= 3 && page.contains("stepsim run tiny-4 -t "));
    for section in ["Ranking", "The best, from the peak to MFU", "What was left out"] {
        assert!(page.contains(&format!("<h2>{section}</h2>")), "{section}");
    }
}

#[test]
fn days_jobs_and_plans_have_pages() {
    let page = page_of(
        "goodput --step-s 12 --devices 1024 --runs 20 --set reliability.checkpoint.stall_s=60 \
         --set reliability.checkpoint.safe_after_s=0",
    );
    assert!(page.contains("Where the days went") && page.contains("restarts"));
    let page = page_of("share tiny-4@0-3 tiny-4@4-7 -t switch:8,450,1");
    assert!(page.contains("Alone and together") && page.contains("slower by"));
    let page = page_of("plan tiny-4 -o planned.json");
    assert!(page.contains("stepsim whatif planned.json") && page.contains("a step"));
}
