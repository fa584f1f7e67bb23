//! What `becalm fix` answers.

use loader::bind::Binding;
use prove::Proof;
use serde_json::{Value, json};

use crate::{Bound, style};

/// A fix, planned or applied.
pub struct Fix<'a> {
    /// What is to be done, or was.
    pub binding: &'a Binding,
    /// Its name in the journal, once it was applied.
    pub applied: Option<&'a str>,
    /// Whether it was taken back, because the command then behaved otherwise.
    pub taken_back: bool,
    /// What was measured.
    pub proof: Option<&'a Proof>,
}

impl Fix<'_> {
    /// What was planned or done, then what was measured.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let bound = Bound::of(self.binding, self.applied);
        let Some(proof) = self.proof else { return bound.render(columns, next) };
        let mut text = bound.render(columns, "");
        text.push('\n');
        if self.taken_back {
            let line = "Taken back: with these changes the command did not behave as before.";
            text.push_str(&style::paint(style::MORE, line));
            text.push('\n');
        }
        text.push_str(&crate::proof(proof, columns, next));
        text
    }

    /// The whole as data (docs/schema/becalm.fix.md).
    pub fn to_value(&self) -> Value {
        json!({
            "schema": "becalm.fix/1",
            "binding": Bound::of(self.binding, self.applied).to_value(),
            "applied": self.applied,
            "taken_back": self.taken_back,
            "proof": self.proof,
        })
    }
}
