//! JSON that is safe on a terminal too.

use serde::Serialize;

/// `value` as indented JSON that ends in a newline, without a raw control character in it.
///
/// # Errors
/// If the value has no JSON form.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(recording::json::indented(value)? + "\n")
}
