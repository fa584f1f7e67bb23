//! Findings as GitHub's workflow commands: annotations beside the files.

use super::{Audit, AuditFinding, Level};

/// One line a finding.
pub fn annotations(audit: &Audit) -> String {
    audit.findings.iter().map(annotation).collect()
}

fn annotation(finding: &AuditFinding) -> String {
    let level = match finding.level {
        Level::Note => "notice",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let line = finding.line.map(|line| format!(",line={line}")).unwrap_or_default();
    let text = format!("{}: {}", finding.rule.words(), finding.text);
    format!(
        "::{level} file={}{line},title={}::{}\n",
        property(&finding.path.to_string()),
        finding.rule.name(),
        data(&text)
    )
}

/// A message, escaped as GitHub's toolkit does (packages/core/src/command.ts).
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The same for a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
