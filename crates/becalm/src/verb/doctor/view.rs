//! The screen of `becalm doctor`: a headline, a table of a screen, and what to do.

use doctor::{Diagnosis, MachineProbe, ProbeAnswer};
use term::{Cell, Column, Table, style, width};

/// From this width on, the table says what was seen, too.
const WIDE: usize = 140;

/// The diagnosis as text for a terminal that is `columns` wide, with colour.
pub fn render(diagnosis: &Diagnosis, columns: usize) -> String {
    let mut text = format!("{}\n\n", style::paint(style::HEADLINE, headline(diagnosis)));
    text.push_str(&table(&diagnosis.probes, columns).render(columns));
    text.push('\n');
    for (titles, note) in notes(&diagnosis.probes) {
        text.push_str(&wrapped(&format!("{}: {note}", titles.join("; ")), columns));
    }
    if diagnosis.can_record {
        let next = style::paint(style::COMMAND, "becalm check -- COMMAND");
        text.push_str(&format!("\nNext: {next}\n"));
    }
    text
}

fn headline(diagnosis: &Diagnosis) -> &'static str {
    match diagnosis.backend {
        Some("ptrace") => "becalm can record commands here, but slowly: see outer seccomp filter.",
        Some(_) => "becalm can record commands here.",
        None => "becalm cannot record commands here: see ptrace and seccomp filter.",
    }
}

fn table(probes: &[MachineProbe], columns: usize) -> Table {
    let mut header =
        vec![Column::text("what"), Column::text("answer"), Column::path("becalm uses it for")];
    if columns >= WIDE {
        header.push(Column::path("what was seen"));
    }
    let mut table = Table::new(header);
    for probe in probes {
        let style = match probe.answer {
            ProbeAnswer::Works => style::LESS,
            ProbeAnswer::Refused => style::MORE,
            ProbeAnswer::Absent | ProbeAnswer::Present | ProbeAnswer::Unknown => style::NONE,
        };
        let seen = probe.detail.clone().or_else(|| refusal(probe)).unwrap_or_default();
        table.row([
            probe.title.into(),
            Cell::styled(probe.answer.word(), style),
            probe.used_for.into(),
            seen.into(),
        ]);
    }
    table
}

/// The notes, with the titles that each is about: what is true of several is said once.
fn notes(probes: &[MachineProbe]) -> Vec<(Vec<&str>, String)> {
    let mut notes: Vec<(Vec<&str>, String)> = Vec::new();
    for probe in probes {
        let Some(note) = note(probe) else { continue };
        match notes.iter_mut().find(|(_, said)| *said == note) {
            Some((titles, _)) => titles.push(probe.title),
            None => notes.push((vec![probe.title], note)),
        }
    }
    notes
}

/// What a person must know beyond the answer: who refused, what is there, what to do.
fn note(probe: &MachineProbe) -> Option<String> {
    let said = match (refusal(probe), &probe.detail) {
        (Some(refusal), _) => format!("refused by {refusal}."),
        (None, Some(detail)) if probe.remedy.is_some() || probe.answer == ProbeAnswer::Present => {
            format!("{detail}.")
        }
        _ => return None,
    };
    let remedy = probe.remedy.as_ref().map(|remedy| format!(" {remedy}")).unwrap_or_default();
    Some(said + &remedy)
}

fn refusal(probe: &MachineProbe) -> Option<String> {
    let refusal = probe.refusal.as_ref()?;
    let error = refusal.error.as_ref().map(|error| format!(", {error}")).unwrap_or_default();
    Some(format!("{} ({}{error})", refusal.what, refusal.call))
}

/// A paragraph, its later lines indented.
fn wrapped(paragraph: &str, columns: usize) -> String {
    let mut text = String::new();
    let mut taken = 0;
    for word in paragraph.split_whitespace() {
        let room = width::of(word) + 1;
        if taken > 0 && taken + room > columns {
            text.push_str("\n  ");
            taken = 2;
        } else if taken > 0 {
            text.push(' ');
            taken += 1;
        }
        text.push_str(word);
        taken += room - 1;
    }
    text + "\n"
}
