//! One page: clap's sections, and those that clap has no name for.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::exit_status;

/// The name of a verb's page: `becalm-elf-tree.1`.
pub fn file_name(verb: &Command) -> String {
    format!("{}.1", name(verb))
}

/// As man finds it: `becalm-elf-tree`.
fn name(verb: &Command) -> String {
    words(verb).replace(' ', "-")
}

/// As it is typed: `becalm elf tree`.
fn words(verb: &Command) -> &str {
    verb.get_bin_name().unwrap_or(verb.get_name())
}

/// The page of a verb of the [built](Command::build) command line.
pub fn of(verb: &Command) -> std::io::Result<String> {
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let named = verb.clone().override_usage(usage).subcommand_help_heading("VERBS");
    let man = Man::new(named);
    // Not clap's: it leaves the date out, and what follows is then taken for it.
    let title = name(verb).to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH {title} 1 \"\" \"becalm {version}\" becalm\n").into_bytes();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if verb.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    after_help(&mut roff, verb);
    section(&mut roff, "EXIT STATUS");
    for (status, meaning) in exit_status::of(words(verb)) {
        roff.control("TP", []).text([bold(*status)]).text([roman(*meaning)]);
    }
    section(&mut roff, "SEE ALSO");
    roff.text([roman(related(verb).join(", "))]);
    roff.to_writer(&mut page)?;
    Ok(in_ascii(&String::from_utf8_lossy(&page)))
}

/// As roff writes other characters (groff_char(7)): not every reader of pages takes them as they are.
fn in_ascii(page: &str) -> String {
    // An empty line between two breaks, as clap writes it, is a space.
    let page = page.replace("\n.br\n\n.br\n", "\n.sp\n");
    let escaped = |char: char| match char.is_ascii() {
        true => char.to_string(),
        false => format!("\\[u{:04X}]", u32::from(char)),
    };
    page.chars().map(escaped).collect()
}

fn section(roff: &mut Roff, heading: &str) {
    roff.control("SH", [heading]);
}

/// What ends the help: texts, and last the examples, line by line as they stand.
fn after_help(roff: &mut Roff, verb: &Command) {
    let text = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    let at = text.rfind("Example").unwrap_or(text.len());
    let (notes, examples) = text.split_at(at);
    for (heading, lines) in [("NOTES", notes), ("EXAMPLES", examples)] {
        let lines = lines.trim();
        let lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with("Example")).collect();
        if lines.is_empty() {
            continue;
        }
        section(roff, heading);
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
}

/// The page of what the verb is a part of.
fn related(verb: &Command) -> Vec<String> {
    let mut related = Vec::new();
    let mut words: Vec<&str> = words(verb).split(' ').collect();
    while words.pop().is_some() && !words.is_empty() {
        related.insert(0, format!("{}(1)", words.join("-")));
    }
    related.push("strace(1)".to_owned());
    related.push("ld.so(8)".to_owned());
    related
}
