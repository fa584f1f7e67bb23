//! What the shells of a command have counted, for people.

use script::builtins::{CountedStarts, StartOutcomes, is_for_programs};
use term::number;
use term::{Column, Table};

/// Programs that are shown; the others have fewer starts.
const SHOWN: usize = 12;

/// Why starts were not avoided, in the order in which it is told.
fn reasons(starts: &StartOutcomes) -> [(u64, &'static str, &'static str); 5] {
    [
        (
            starts.only_started,
            "only started",
            "programs that a shell only starts without a copy of itself",
        ),
        (starts.request, "for it to do", "options or outcomes that only the program has"),
        (
            starts.shell,
            "would show",
            "where the script could tell: a CHLD trap, a limit, variables for one command, a \
             redirection",
        ),
        (
            starts.variables,
            "variables",
            "exported variables or many arguments that are the program's to deal with",
        ),
        (starts.unknown, "another", "another program than the one that is known"),
    ]
}

/// The numbers in a sentence.
pub fn words(counted: &CountedStarts) -> String {
    if counted.shells == 0 {
        return "no start was avoided: no shell of the command took the builtins (interactive shells \
                do not, nor does bash -p, nor other shells than bash and dash)"
            .to_owned();
    }
    let known = &counted.known;
    let mut text = format!(
        "{} of {} avoided, in {}",
        number::count(known.avoided),
        number::counted(known.all() + counted.others, "start", "starts"),
        number::counted(counted.shells, "shell", "shells")
    );
    let others = (counted.others, "", "programs that becalm does not know");
    let all = std::iter::once(others).chain(reasons(known));
    let told: Vec<String> = all
        .filter(|(number, ..)| *number > 0)
        .map(|(number, _, reason)| format!("{} ({reason})", number::count(number)))
        .collect();
    if !told.is_empty() {
        text.push_str(&format!("; not avoided: {}", told.join(", ")));
    }
    let exported = exported_for_programs();
    if known.variables > 0 && !exported.is_empty() {
        text.push_str(&format!(" (exported: {})", exported.join(", ")));
    }
    text
}

/// Variables of becalm's own, and so of the command's, with which shells start each program.
fn exported_for_programs() -> Vec<String> {
    let all = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        is_for_programs(&name, &value.to_string_lossy()).then_some(name)
    });
    all.collect()
}

/// The same for each program that becalm knows.
pub fn table(counted: &CountedStarts, columns: usize) -> String {
    if counted.programs.is_empty() {
        return String::new();
    }
    let mut heads =
        vec![Column::text("program"), Column::number("starts"), Column::number("avoided")];
    let named = reasons(&counted.known).map(|(number, name, _)| (number > 0).then_some(name));
    heads.extend(named.iter().flatten().map(|name| Column::number(name)));
    let mut table = Table::new(heads);
    for program in counted.programs.iter().take(SHOWN) {
        let starts = &program.starts;
        let mut row = vec![
            program.name.to_owned(),
            number::count(starts.all()),
            number::count(starts.avoided),
        ];
        let numbers = reasons(starts).map(|(number, ..)| number::count(number));
        let shown = numbers.into_iter().zip(&named).filter(|(_, name)| name.is_some());
        row.extend(shown.map(|(number, _)| number));
        table.row(row);
    }
    table.render(columns)
}
