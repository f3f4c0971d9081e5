//! How the program says what it can do: commands in groups, `-h` on ten lines, `--help` with examples first.

use clap::Command;

/// The commands by what one wants, in this order.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Simulate", &["plan", "run", "estimate", "compare", "share"]),
    ("Understand", &["open", "inspect", "whatif", "diff", "analyze"]),
    ("Choose", &["search", "sweep", "fill", "knee"]),
    ("Bring in", &["import"]),
    ("Hold against measurements", &["normal", "gate", "score", "learn", "kernels"]),
    ("Parts of a step, and beyond it", &["schedule", "collective", "goodput"]),
    ("Files", &["list", "show", "schema", "completions", "man"]),
];

/// Options that `-h` shows without a short form.
const USUAL: [&str; 2] = ["sets", "report"];

/// The command line with its help arranged.
pub(super) fn arranged(command: Command) -> Command {
    let groups = groups(&command);
    let template = format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\n{{options}}{{after-help}}");
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_string()).collect();
    let command = names.into_iter().fold(command, |command, name| command.mut_subcommand(name, concise));
    command.help_template(template).subcommand_help_heading("Commands")
}

/// The commands, each with what it does; those that no group names come last.
fn groups(command: &Command) -> String {
    let about =
        |name: &str| command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
    let mut text = String::new();
    let mut group = |head: &str, names: &mut dyn Iterator<Item = &str>| {
        let lines: Vec<String> =
            names.filter_map(|name| Some(format!("  {name:<12} {}\n", about(name)?))).collect();
        if !lines.is_empty() {
            text += &format!("{head}:\n{}", lines.concat());
        }
    };
    for (head, names) in GROUPS {
        group(head, &mut names.iter().copied());
    }
    let named = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    group("Others", &mut command.get_subcommands().map(Command::get_name).filter(|name| !named(name)));
    text
}

/// A command whose `-h` shows what is used every day, and whose `--help` shows all, examples first.
fn concise(command: Command) -> Command {
    let name = command.get_name().to_string();
    if command.is_subcommand_required_set() {
        return command;
    }
    let examples = command.get_after_help().cloned();
    let hidden = |arg: &clap::Arg| {
        !arg.is_positional() && arg.get_short().is_none() && !USUAL.contains(&arg.get_id().as_str())
    };
    let options = command.get_arguments().filter(|arg| hidden(arg) && !arg.is_hide_set()).count();
    let command = command.mut_args(|arg| if hidden(&arg) { arg.hide_short_help(true) } else { arg });
    let more = match options {
        0 => format!("Examples: stepsim {name} --help"),
        n => format!("{n} more options, and examples: stepsim {name} --help"),
    };
    let command = command.after_help(more).after_long_help("");
    match examples {
        Some(text) => command.before_long_help(text),
        None => command,
    }
}
