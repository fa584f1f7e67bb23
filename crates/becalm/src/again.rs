//! The command line of becalm that was typed, to be pasted with options more: all that was asked
//! for stays asked for, but that nothing is done.

/// `becalm VERB more… rest…`, where the verb is of so many words, without `--dry-run`.
pub fn with(verb: usize, more: &[&str]) -> String {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let at = verb.min(words.len());
    words.splice(at..at, more.iter().map(Into::into));
    let command = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let command = words.split_off(command);
    words.retain(|word| word != "--dry-run");
    words.extend(command);
    format!("becalm {}", term::shell_line(words))
}
