//! The verbs as `becalm --help` groups them.

use clap::Command;

/// The headings, and the verbs below each, in the order in which they are met.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start here", &["check", "fix", "run", "prove", "undo", "calm", "doctor"]),
    ("Recordings", &["record", "report", "browse", "diff", "merge", "export", "attach"]),
    ("What if", &["rehearse", "scale", "calibrate"]),
    ("By storm", &["elf", "python", "modules", "fork", "image"]),
    ("Laboratory", &["lab"]),
    ("Your shell", &["completions", "man"]),
    ("For programs", &["schema"]),
];

/// Wide enough for every verb, and two blanks.
const INDENT: usize = 15;

/// The same command, whose help lists its verbs in groups: clap has no headings for them.
pub fn grouped(command: Command) -> Command {
    let heading = *command.get_styles().get_header();
    let name = *command.get_styles().get_literal();
    let columns = term::width::terminal().min(100).saturating_sub(INDENT).max(20);
    let mut list = String::new();
    for (group, verbs) in GROUPS {
        list.push_str(&format!("{heading}{group}:{heading:#}\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = term::width::wrap(&about, columns);
            let about = about.trim_end().replace('\n', &format!("\n{:INDENT$}", ""));
            let gap = " ".repeat((INDENT - 2).saturating_sub(verb.len()));
            list.push_str(&format!("  {name}{verb}{name:#}{gap}{about}\n"));
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_verb_that_is_shown_stands_in_exactly_one_group() {
        let command = crate::Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(listed.len(), shown.len(), "a verb stands twice: {listed:?}");
        assert_eq!(listed[0], "check");
    }
}
