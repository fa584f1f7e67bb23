//! Holds a verb's JSON against its schema in docs/schema/, both ways.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A schema: its fields (`a.b[].c`), with their type, from the rows of its tables
/// (`` | `field` | type | meaning | ``).
pub struct Schema {
    fields: BTreeMap<String, Field>,
    /// What a value of each `kind` has beside that, from rows
    /// (`` | … | `kind`, `kind` | `field`, `field`: meaning | ``).
    kinds: BTreeMap<String, BTreeSet<String>>,
    example: String,
    report: Option<Box<Schema>>,
}

struct Field {
    kind: String,
    /// Where the meaning ends in `(only …)`: the words after 'only'.
    only: Option<String>,
}

impl Schema {
    /// That of a page.
    pub fn of(document: &str) -> Schema {
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
        let fields = rows.map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            let (kind, meaning) = rest.split_once(" | ").unwrap();
            let only = meaning.split_once("(only ").map(|(_, only)| only.to_owned());
            (name.to_owned(), Field { kind: kind.to_owned(), only })
        });
        let rows =
            document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| `"));
        let columns = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
        let kinds = columns.filter(|columns| columns.len() == 3).flat_map(|columns| {
            let fields: BTreeSet<_> = quoted(columns[2]).map(str::to_owned).collect();
            quoted(columns[1])
                .map(move |kind| (kind.to_owned(), fields.clone()))
                .collect::<Vec<_>>()
        });
        let kinds = kinds.collect();
        let example = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        Schema { fields: fields.collect(), kinds, example: example.to_owned(), report: None }
    }

    /// The same, where fields of the type `run` and `row` have the fields of the report's schema.
    pub fn over(self, report: Schema) -> Schema {
        Schema { report: Some(Box::new(report)), ..self }
    }

    /// The page's example.
    pub fn example(&self) -> Value {
        serde_json::from_str(&self.example).unwrap()
    }

    /// Every field that is documented for `context` is there, and every field that is there is
    /// documented.
    pub fn holds(&self, value: &Value, context: &str) {
        for (name, field) in &self.fields {
            if field.only.as_ref().is_none_or(|only| only.contains(context)) {
                assert!(has(value, name), "{context}: no {name} in {value:#}");
            }
        }
        self.check("", value);
    }

    /// A value has what its kind is documented to have, all of that and nothing else.
    fn check_kind(&self, value: &Value) {
        let kind = value["kind"].as_str().unwrap_or_else(|| panic!("no kind: {value:#}"));
        let fields = self.kinds.get(kind).unwrap_or_else(|| panic!("{kind} is not documented"));
        let keys = value.as_object().unwrap().keys().filter(|key| *key != "kind");
        assert_eq!(keys.cloned().collect::<BTreeSet<_>>(), *fields, "{kind}");
    }

    /// Every field of the value at `place` is documented.
    fn check(&self, place: &str, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, inner) in object {
                    let name =
                        if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                    let field = self.fields.get(&name);
                    let field = field.unwrap_or_else(|| panic!("{name} is not documented"));
                    let report = self.report.as_deref().unwrap_or(self);
                    match field.kind.as_str() {
                        "run" => report.check("", inner),
                        "row" => report.check("rows[]", inner),
                        "list of paths" => self.check("only_before", inner),
                        // Their names are told beside the table.
                        "numbers by name" => {}
                        "by kind" => self.check_kind(inner),
                        "list by kind" => {
                            inner.as_array().unwrap().iter().for_each(|one| self.check_kind(one));
                        }
                        _ => self.check(&name, inner),
                    }
                }
            }
            Value::Array(list) => {
                list.iter().for_each(|one| self.check(&format!("{place}[]"), one));
            }
            _ => {}
        }
    }
}

/// The words of a text that are written as code.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a field is in a value; where it is in a list, in every element and at least one.
fn has(value: &Value, field: &str) -> bool {
    let (first, rest) = field.split_once('.').map_or((field, None), |(a, b)| (a, Some(b)));
    let (name, is_list) = first.strip_suffix("[]").map_or((first, false), |name| (name, true));
    let Some(inner) = value.get(name) else { return false };
    match (is_list, rest) {
        (true, Some(rest)) => inner
            .as_array()
            .is_some_and(|list| !list.is_empty() && list.iter().all(|one| has(one, rest))),
        (true, None) => inner.is_array(),
        (false, Some(rest)) => has(inner, rest),
        (false, None) => true,
    }
}
