//! JUnit XML: a test case for each limit, as continuous integration shows it.
//!
//! The form is that of the `junit-10.xsd` that Jenkins publishes, as GitLab and others read it.

use explain::Findings;
use recording::ExitStatus;

use super::answer::{BudgetAnswer, BudgetVerdict};

/// Lines of reasons in a failure.
const REASONS: usize = 20;

/// The report.
pub fn of(answer: &BudgetAnswer, findings: &Findings) -> String {
    let of = |verdict| answer.limits.iter().filter(|limit| limit.verdict == verdict).count();
    // A command that fails is no pass, whatever its start had.
    let failed = findings.totals.status.and_then(ExitStatus::failure);
    let tests = answer.limits.len() + usize::from(failed.is_some());
    let failures = of(BudgetVerdict::Over);
    let errors = of(BudgetVerdict::NotKnown) + usize::from(failed.is_some());
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let program = term::xml(&findings.program);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n\
         <testsuite name=\"becalm check\" {counts} skipped=\"0\" time=\"0\">\n"
    );
    for limit in &answer.limits {
        let name = term::xml(&format!("{} at most {} ({})", limit.limit, limit.most, limit.by));
        text.push_str(&format!("<testcase classname=\"{program}\" name=\"{name}\" time=\"0\">"));
        let (element, lines) = match limit.verdict {
            BudgetVerdict::Within => {
                text.push_str("</testcase>\n");
                continue;
            }
            BudgetVerdict::NotKnown => ("error", answer.notes.clone()),
            BudgetVerdict::Over => ("failure", answer.reasons(REASONS)),
        };
        let message = term::xml(&limit.sentence());
        let why = term::xml(&lines.join("\n"));
        text.push_str(&format!(
            "\n<{element} type=\"budget\" message=\"{message}\">{why}</{element}>\n</testcase>\n"
        ));
    }
    if let Some(failed) = failed {
        let message = term::xml(&format!("the command {failed}"));
        text.push_str(&format!(
            "<testcase classname=\"{program}\" name=\"the command ends with 0\" time=\"0\">\n\
             <error type=\"command\" message=\"{message}\"></error>\n</testcase>\n"
        ));
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}
