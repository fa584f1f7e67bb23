//! GitHub's annotations: workflow commands, a line each, which its runner reads on either stream.

use explain::Findings;
use recording::ExitStatus;

use super::answer::{BudgetAnswer, BudgetVerdict};

/// Lines of reasons in an annotation.
const REASONS: usize = 5;

/// An error for each limit that is not kept; a notice where all are.
pub fn of(answer: &BudgetAnswer, findings: &Findings) -> String {
    let title = property(&format!("becalm: {}", findings.program));
    let mut text = String::new();
    for limit in answer.limits.iter().filter(|limit| limit.verdict != BudgetVerdict::Within) {
        let why = match limit.verdict {
            BudgetVerdict::Over => answer.reasons(REASONS),
            _ => answer.notes.clone(),
        };
        let lines: Vec<_> = std::iter::once(limit.sentence()).chain(why).collect();
        text.push_str(&format!("::error title={title}::{}\n", data(&lines.join("\n"))));
    }
    if let Some(failed) = findings.totals.status.and_then(ExitStatus::failure) {
        text.push_str(&format!("::error title={title}::the command {}\n", data(&failed)));
    }
    if text.is_empty() {
        let limits: Vec<_> = answer.limits.iter().map(|limit| limit.sentence()).collect();
        text = format!("::notice title={title}::{}\n", data(&limits.join("\n")));
    }
    text
}

/// As the runner's own library escapes what a command says (@actions/core, `escapeData`).
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// And what a property holds (`escapeProperty`).
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{data, property};

    #[test]
    fn nothing_of_a_name_ends_the_line_or_begins_another_command() {
        assert_eq!(data("50%\r\n::error::x"), "50%25%0D%0A::error::x");
        assert_eq!(property("a:b,c%"), "a%3Ab%2Cc%25");
    }
}
