//! Every answer in JSON is held against its schema, docs/schema/*.schema.json, more strictly than the
//! file: a field that it does not name fails.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

/// How an answer begins, on one line or indented.
const BEGINNINGS: [&str; 2] = ["{\"schema\":\"becalm.", "{\n  \"schema\": \"becalm."];

/// An answer that was printed or written, read and checked.
#[track_caller]
pub fn parse(text: impl AsRef<[u8]>) -> Value {
    let text = text.as_ref();
    check(text);
    serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

/// The example of a page of docs/schema.
#[track_caller]
pub fn example(page: &str) -> Value {
    let text = fs::read_to_string(directory().join(page)).unwrap();
    parse(text.split("```json\n").nth(1).unwrap().split("```").next().unwrap())
}

/// Checks all answers that stand in what was printed or written, whatever else does.
#[track_caller]
pub fn check(said: &[u8]) {
    let Ok(text) = std::str::from_utf8(said) else { return };
    let mut at = 0;
    while let Some(begin) = next(text, at) {
        at = begin + 1;
        let mut values = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Value>();
        // One that is cut off is for the test to judge.
        let Some(Ok(answer)) = values.next() else { continue };
        let lines = (answer["type"] == "header").then_some(values).into_iter().flatten();
        holds(&answer, &answer["schema"]);
        lines.map_while(Result::ok).for_each(|line| holds(&line, &answer["schema"]));
    }
}

/// Where the next answer begins: at the beginning of a line.
fn next(text: &str, from: usize) -> Option<usize> {
    let all = BEGINNINGS.iter().filter_map(|beginning| {
        let found = text[from..].match_indices(beginning).map(|(at, _)| from + at);
        found.into_iter().find(|&at| at == 0 || text.as_bytes()[at - 1] == b'\n')
    });
    all.min()
}

/// Fails where a value is not as the schema of that name says.
#[track_caller]
fn holds(value: &Value, name: &Value) {
    let schema = named(name.as_str().unwrap());
    let errors = schema.iter_errors(value).take(3);
    let errors: Vec<_> =
        errors.map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {}\n{value:#}", errors.join("\n"));
}

/// The directory of the schemas.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").canonicalize().unwrap()
}

/// The schema of a name such as `becalm.check/1`, read once.
#[track_caller]
fn named(name: &str) -> Arc<Validator> {
    static READ: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let mut read = READ.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(schema) = read.get(name) {
        return schema.clone();
    }
    let file = name.split_once('/').map_or(name, |(file, _)| file);
    let file = directory().join(file.to_owned() + ".schema.json");
    let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut schema: Value = serde_json::from_slice(&text).unwrap();
    be_strict(&mut schema, true);
    let schema = Arc::new(jsonschema::validator_for(&schema).unwrap());
    read.insert(name.to_owned(), schema.clone());
    schema
}

/// Has a schema refuse what it does not name: where a whole value is described, and not a part of
/// one, as by the branches of `anyOf` and by what is referred to.
fn be_strict(schema: &mut Value, is_whole: bool) {
    let Some(object) = schema.as_object_mut() else { return };
    const IN_PLACE: [&str; 5] = ["properties", "$ref", "anyOf", "oneOf", "allOf"];
    if is_whole && IN_PLACE.iter().any(|key| object.contains_key(*key)) {
        object.insert("unevaluatedProperties".to_owned(), json!(false));
    }
    for (key, inner) in object {
        match (key.as_str(), inner) {
            ("properties", Value::Object(fields)) => {
                fields.values_mut().for_each(|field| be_strict(field, true));
            }
            ("$defs", Value::Object(types)) => {
                types.values_mut().for_each(|one| be_strict(one, false));
            }
            ("prefixItems", Value::Array(items)) => {
                items.iter_mut().for_each(|item| be_strict(item, true));
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(branches)) => {
                branches.iter_mut().for_each(|branch| be_strict(branch, false));
            }
            ("items" | "additionalProperties", inner) => be_strict(inner, true),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(mut schema: Value) -> Validator {
        be_strict(&mut schema, true);
        jsonschema::validator_for(&schema).unwrap()
    }

    #[test]
    fn a_field_that_is_not_named_fails_wherever_it_stands() {
        let schema = strict(json!({
            "anyOf": [
                { "properties": { "a": { "anyOf": [{ "$ref": "#/$defs/A" }, { "type": "null" }] } } },
                { "properties": { "b": { "items": { "$ref": "#/$defs/A" } } } },
            ],
            "$defs": { "A": { "oneOf": [{ "required": ["x"], "properties": { "x": {} } }] } },
        }));
        for good in
            [json!({}), json!({ "a": { "x": 1 } }), json!({ "a": null }), json!({ "b": [] })]
        {
            assert!(schema.is_valid(&good), "{good}");
        }
        for bad in [
            json!({ "c": 1 }),
            json!({ "a": { "x": 1, "y": 1 } }),
            json!({ "b": [{ "x": 1, "y": 1 }] }),
        ] {
            assert!(!schema.is_valid(&bad), "{bad}");
        }
    }

    #[test]
    fn answers_are_found_among_other_lines() {
        let text = "a\n{\n  \"schema\": \"becalm.x/1\"\n}\n x {\"schema\":\"becalm.y/1\"}\n{\"schema\":\"becalm.z/1\"}";
        let first = next(text, 0).unwrap();
        assert_eq!(first, 2);
        let second = next(text, first + 1).unwrap();
        assert!(text[second..].starts_with("{\"schema\":\"becalm.z"));
        assert_eq!(next(text, second + 1), None);
    }
}
