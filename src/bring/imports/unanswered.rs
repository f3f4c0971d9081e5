//! Variables that a script leaves open, and that a step hangs on.

use super::argument::Argument;
use super::beside::Beside;
use super::opened::is_configuration;
use super::syntax::{self, Open};
use super::table::{self, FormatTable};
use super::unknown::few;
use super::vocabulary::Vocabulary;
use stepsim_spec::SpecError;

/// The variables that a script leaves open and that a step hangs on, each with what is asked of it; those that choose
/// first.
pub(super) fn left_open(table: &FormatTable, mut open: Vec<Open>) -> Vec<(String, String)> {
    let matters = |name: &&String| table.rule(name).is_some_and(|rule| rule.changes_a_step());
    open.retain(|open| open.is_variable);
    open.sort_by_key(|open| open.choices.len() < 2);
    let words = open.into_iter().filter_map(|open| {
        let arguments: Vec<String> = open
            .arguments
            .iter()
            .filter(matters)
            .map(|name| format!("--{}", name.replace('_', "-")))
            .collect();
        let asked = match open.choices.as_slice() {
            [] if open.arguments.iter().any(|name| name == syntax::PROGRAM) => {
                "without it nothing runs".to_string()
            }
            [] if arguments.is_empty() => return None,
            [one] if arguments.is_empty() => format!("{one} or not"),
            [] | [_] => arguments.join(", "),
            choices => choices.join(" or "),
        };
        let words = format!("{} ({asked})", open.variable);
        Some((open.variable, words))
    });
    words.collect()
}

/// Refuses a script in which arguments that a step hangs on hang on a variable that nothing sets; those that hang on
/// what only a machine answers are doubts.
pub(super) fn unanswered(
    table: &FormatTable,
    open: &[Open],
    beside: &Beside,
    file: &str,
) -> Result<Vec<Argument>, SpecError> {
    let hangs_on = |open: &&Open| open.arguments.iter().any(|name| hangs(table, name, beside));
    let unread = |name: &String| match table.rule(name) {
        Some(rule) => rule.of_file && beside.more.is_empty(),
        None => !Vocabulary::shipped().is_harmless(name),
    };
    let (variables, mut machine): (Vec<&Open>, Vec<&Open>) =
        open.iter().filter(hangs_on).partition(|open| open.is_variable && !file.ends_with(".py"));
    machine.extend(open.iter().filter(|open| !hangs_on(open) && open.arguments.iter().any(unread)));
    let left = left_open(table, variables.into_iter().cloned().collect());
    if !left.is_empty() {
        let all = few(left.iter().map(|(_, words)| words.as_str()));
        return Err(
            SpecError::file(file, format!("hangs on what nothing sets: {all}")).hint(typed_line(&left, file))
        );
    }
    let doubt = |open: &Open| {
        let name = few(open.arguments.iter().map(String::as_str));
        let asks = if open.is_variable { "nothing sets" } else { "the script asks its machine" };
        Argument::doubted(name, open.variable.as_str().into(), format!("{asks}: {}", open.variable))
    };
    Ok(machine.into_iter().map(doubt).collect())
}

/// True if a step hangs on an argument whose value is open, and nothing beside the file says it.
fn hangs(table: &FormatTable, name: &str, beside: &Beside) -> bool {
    const DEVICES: [&str; 5] = ["$nodes", "$gpus_per_node", "$devices", "$job_devices", "$replica_devices"];
    if name == syntax::PROGRAM {
        return true;
    }
    let Some(rule) = table.rule(name).filter(|rule| rule.changes_a_step() && !rule.of_file) else {
        return false;
    };
    rule.targets().any(|to| {
        let of_model = to.starts_with("$model")
            || to.starts_with("$recipe")
            || to.starts_with("model.")
            || to == "$component";
        let said = (of_model && beside.model.is_some())
            || (beside.devices.is_some() && DEVICES.contains(&to))
            || (beside.batch.is_some() && to == "batch.global")
            || beside
                .stated
                .iter()
                .any(|path| path == to || to.strip_prefix(path.as_str()).is_some_and(|r| r.starts_with('.')));
        // A model that is not named is asked for by itself.
        !said && !to.starts_with("$model") && !to.starts_with("$recipe") && !table::LENGTHS.contains(&to)
    })
}

/// The way to say what a script leaves open: a variable before it, or an option behind it.
fn typed_line(left: &[(String, String)], file: &str) -> String {
    let names = left.iter().map(|(name, _)| name.as_str());
    let options: Vec<&str> = names.filter(|name| name.starts_with("--")).collect();
    if is_configuration(file) {
        return "type the line that runs the script which starts it, with them in front".to_string();
    }
    match (options.as_slice(), left) {
        ([], [(first, _), ..]) => format!("type the line that runs it: '{first}=... {file} ...'"),
        (options, _) => format!("type the line that runs it: '{file} {} ...'", options.join(" ... ")),
    }
}

/// The remedy where a script leaves open what is missing.
pub(super) fn where_open(error: SpecError, file: &str, open: &[(String, String)]) -> SpecError {
    let names_a_model = error.problem.starts_with("names a model");
    if open.is_empty() || names_a_model {
        return error;
    }
    let way_out = if file.ends_with(".py") {
        format!(
            "write them into a copy of it, or name the model beside it: stepsim plan {file} MODEL --on 8xh100"
        )
    } else {
        typed_line(open, file)
    };
    let left = few(open.iter().map(|(_, words)| words.as_str()));
    error.hint(format!("the script leaves open {left}; {way_out}"))
}
