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
fn a_plan_has_a_page() {
    let page = page_of("plan tiny-4 -o planned.json");
    assert!(page.contains("stepsim whatif planned.json") && page.contains("a step"));
}
