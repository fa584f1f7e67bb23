//! JUnit XML: a test case for each limit, as continuous integration shows it.
//!
//! The form is that of the `junit-10.xsd` that Jenkins publishes, as GitLab and others read it.

use explain::Findings;

use super::answer::{BudgetAnswer, BudgetVerdict};
use super::baseline::failure_of;

/// Lines of reasons in a failure.
const REASONS: usize = 20;

/// The report.
pub fn of(answer: &BudgetAnswer, findings: &Findings) -> String {
    let of = |verdict| answer.limits.iter().filter(|limit| limit.verdict == verdict).count();
    // A command that fails is no pass, whatever its start had.
    let failed = failure_of(findings.totals.status);
    let tests = answer.limits.len() + usize::from(failed.is_some());
    let failures = of(BudgetVerdict::Over);
    let errors = of(BudgetVerdict::NotKnown) + usize::from(failed.is_some());
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let program = escaped(&findings.program);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n\
         <testsuite name=\"becalm check\" {counts} skipped=\"0\" time=\"0\">\n"
    );
    for limit in &answer.limits {
        let name = escaped(&format!("{} at most {} ({})", limit.limit, limit.most, limit.by));
        text.push_str(&format!("<testcase classname=\"{program}\" name=\"{name}\" time=\"0\">"));
        let (element, lines) = match limit.verdict {
            BudgetVerdict::Within => {
                text.push_str("</testcase>\n");
                continue;
            }
            BudgetVerdict::NotKnown => ("error", answer.notes.clone()),
            BudgetVerdict::Over => ("failure", answer.reasons(REASONS)),
        };
        let message = escaped(&limit.sentence());
        let why = escaped(&lines.join("\n"));
        text.push_str(&format!(
            "\n<{element} type=\"budget\" message=\"{message}\">{why}</{element}>\n</testcase>\n"
        ));
    }
    if let Some(failed) = failed {
        let message = escaped(&format!("the command {failed}"));
        text.push_str(&format!(
            "<testcase classname=\"{program}\" name=\"the command ends with 0\" time=\"0\">\n\
             <error type=\"command\" message=\"{message}\"></error>\n</testcase>\n"
        ));
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// Text for XML 1.0 (its production 2 says which characters there are), in an element or an
/// attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(char),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_xml_has_no_room_for_is_replaced_and_what_it_reads_is_spelt_out() {
        assert_eq!(escaped("a<b>&\"c'\n"), "a&lt;b&gt;&amp;&quot;c&apos;\n");
        assert_eq!(escaped("]]>\u{1b}\u{0}\u{ffff}\r"), "]]&gt;\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    }
}
