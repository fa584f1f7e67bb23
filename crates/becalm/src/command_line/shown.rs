//! The command line without what help does not show: for what is generated from it.

use clap::builder::Resettable;
use clap::{ArgGroup, Command, CommandFactory, ValueHint};

use crate::Cli;

/// becalm's verbs and options as help shows them; built, so that each verb knows all its words.
pub fn shown() -> Command {
    let mut command = without_hidden(&Cli::command()).disable_help_subcommand(true);
    command.build();
    command
}

/// clap can take nothing out of a command: it is made anew of what stays. So what is shown names nothing
/// hidden as its condition: the hidden option names it.
fn without_hidden(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    // What follows a `--` is a command and its own arguments.
    let arguments = arguments.map(|arg| match arg.is_last_set() {
        true => arg.clone().value_hint(ValueHint::CommandWithArguments),
        false => arg.clone(),
    });
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new(command.get_name().to_owned())
        .version(Resettable::from(command.get_version().map(|version| version.to_owned().into())))
        .about(Resettable::from(command.get_about().cloned()))
        .long_about(Resettable::from(command.get_long_about().cloned()))
        .after_help(Resettable::from(command.get_after_help().cloned()))
        .disable_help_flag(command.is_disable_help_flag_set())
        .subcommand_required(command.is_subcommand_required_set())
        .args(arguments)
        .groups(command.get_groups().map(|group| shown_of(group, command)))
        .subcommands(verbs.map(without_hidden))
}

/// A group without its hidden members.
fn shown_of(group: &ArgGroup, command: &Command) -> ArgGroup {
    let hidden = command.get_arguments().filter(|arg| arg.is_hide_set());
    let hidden: Vec<_> = hidden.map(|arg| arg.get_id()).collect();
    let members = group.get_args().filter(|id| !hidden.contains(id));
    ArgGroup::new(group.get_id().clone())
        .args(members.cloned())
        .multiple(true)
        .required(group.is_required_set())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &Command, found: &mut Vec<String>) {
        for verb in command.get_subcommands() {
            found.push(verb.get_bin_name().unwrap_or_default().to_owned());
            names(verb, found);
        }
    }

    #[test]
    fn what_help_hides_is_not_shown_and_all_else_is() {
        let mut found = Vec::new();
        names(&shown(), &mut found);
        let has = |words: &str| found.iter().any(|name| name == words);
        assert!(has("becalm elf tree") && has("becalm man"), "{found:?}");
        assert!(!has("becalm aslr") && !has("becalm profile") && !has("becalm help"), "{found:?}");
        let record = shown().find_subcommand("record").map(|verb| {
            verb.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
        });
        let options: Vec<String> = record.unwrap_or_default();
        assert!(options.contains(&"output".to_owned()), "{options:?}");
        assert!(!options.contains(&"old-kernel".to_owned()), "{options:?}");
    }
}
