//! What a verb's page says of exit statuses: docs/exit-status.md, in short.

/// A status, and what it means.
type Meant = (&'static str, &'static str);

/// Verbs that pass on the status of a command that they run.
const RUN_A_COMMAND: [&str; 7] =
    ["check", "record", "run", "rehearse", "lab profile", "python scan", "fork lines"];

const OF_A_COMMAND: &[Meant] = &[
    ("the command's", "its own exit status, or its death by the same signal."),
    ("2", "wrong usage."),
    ("125", "becalm failed: one line on standard error says why."),
    ("126", "the command was found and cannot be executed."),
    ("127", "the command, or the interpreter that it names, was not found."),
];

const OF_PROVE: &[Meant] = &[
    ("0", "proven: the same behaviour, and fewer metadata operations or less time."),
    ("1", "not proven."),
    ("2", "wrong usage."),
    ("124", "a run took longer than --timeout."),
    ("125, 126, 127", "becalm failed, a command cannot be executed, or was not found."),
    ("128 + n", "becalm was asked to end by signal n."),
];

const OF_FIX: &[Meant] = &[
    (
        "0",
        "there is something to gain; with --apply it was changed, and the command behaves as before.",
    ),
    ("1", "there is nothing that you can do; or all was taken back."),
    ("2", "wrong usage."),
    ("124 to 127, 128 + n", "as of becalm-prove(1)."),
];

const OF_OTHERS: &[Meant] = &[
    ("0", "done."),
    ("1", "the answer is no, or becalm failed: one line on standard error says why."),
    ("2", "wrong usage."),
    ("141", "whoever read the output had seen enough."),
];

/// The statuses of a verb, given with all its words (`becalm elf tree`).
pub fn of(words: &str) -> &'static [Meant] {
    match words.trim_start_matches("becalm").trim_start() {
        "prove" => OF_PROVE,
        "fix" => OF_FIX,
        verb if RUN_A_COMMAND.contains(&verb) => OF_A_COMMAND,
        _ => OF_OTHERS,
    }
}
