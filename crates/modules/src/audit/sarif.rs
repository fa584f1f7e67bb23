//! Findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which code
//! scanning services read.

use serde_json::{Value, json};

use super::{Audit, AuditFinding, AuditRule, Level};

/// The findings as a SARIF log.
pub fn sarif(audit: &Audit, version: &str) -> Value {
    let rules: Vec<Value> = AuditRule::ALL.iter().map(|rule| described(*rule)).collect();
    let results: Vec<Value> = audit.findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "becalm", "version": version, "rules": rules } },
            "results": results,
        }],
    })
}

fn described(rule: AuditRule) -> Value {
    json!({
        "id": rule.name(),
        "shortDescription": { "text": rule.words() },
        "help": { "text": rule.advice() },
        "defaultConfiguration": { "level": level(rule.level()) },
    })
}

fn result(finding: &AuditFinding) -> Value {
    let mut place = json!({ "artifactLocation": { "uri": uri(finding.path.bytes()) } });
    if let Some(line) = finding.line {
        place["region"] = json!({ "startLine": line });
    }
    json!({
        "ruleId": finding.rule.name(),
        "ruleIndex": AuditRule::ALL.iter().position(|rule| *rule == finding.rule),
        "level": level(finding.level),
        "message": { "text": format!("{}: {}", finding.rule.words(), finding.text) },
        "locations": [{ "physicalLocation": place }],
    })
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

/// A path as a URI (RFC 3986): absolute ones as `file:`, others as they are.
fn uri(path: &[u8]) -> String {
    let mut uri = String::from(if path.starts_with(b"/") { "file://" } else { "" });
    for byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
