//! The JSON Schemas in docs/schema are those of the types, and the pages beside them say the same.
//!
//! `BECALM_BLESS=1 cargo test -p becalm --test docs schemas` writes the files.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{answer, run};

use crate::BECALM;

fn said(words: &[&str]) -> String {
    let ran = run(Command::new(BECALM).arg("schema").args(words));
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{words:?}");
    ran.out()
}

/// The schemas, by their verbs, and where their files are, without the end of their names.
fn listed() -> Vec<(String, PathBuf)> {
    let list = answer::parse(said(&["--json"]));
    let verbs = list["schemas"].as_array().unwrap().iter();
    let verbs = verbs.map(|schema| schema["verb"].as_str().unwrap().to_owned());
    let file = |verb: &str| answer::directory().join(format!("becalm.{}", verb.replace(' ', ".")));
    verbs.map(|verb| (verb.clone(), file(&verb))).collect()
}

fn with_end(file: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}.{end}", file.display()))
}

#[test]
fn the_files_are_what_becalm_prints() {
    let mut files = BTreeSet::new();
    for (verb, file) in listed() {
        let (file, words) = (with_end(&file, "schema.json"), verb.split(' ').collect::<Vec<_>>());
        let schema = said(&words);
        if std::env::var_os("BECALM_BLESS").is_some() {
            write(&file, &schema).unwrap();
        }
        let is_same = read_to_string(&file).is_ok_and(|there| there == schema);
        assert!(is_same, "{} is not what becalm schema {verb} prints", file.display());
        files.insert(file);
    }
    let there = read_dir(answer::directory()).unwrap().map(|entry| entry.unwrap().path());
    let there: BTreeSet<_> = there.filter(|file| file.extension().unwrap() == "json").collect();
    assert_eq!(there, files);
}

#[test]
fn examples_are_as_their_schemas_say() {
    for (_, file) in listed() {
        let page = read_to_string(with_end(&file, "md")).unwrap();
        answer::check(page.as_bytes());
        page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).for_each(
            |example| {
                answer::parse(example);
            },
        );
    }
}

#[test]
fn pages_name_their_files_and_the_fields_of_their_schemas_and_no_others() {
    for (verb, file) in listed() {
        let page = with_end(&file, "md");
        let text = read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
        let json = with_end(&file, "schema.json");
        let link = format!("({})", json.file_name().unwrap().display());
        assert!(text.contains(&link), "{page:?} does not link to its file");
        let schema: Value = serde_json::from_str(&read_to_string(json).unwrap()).unwrap();
        for row in rows(&text) {
            let mut found = vec![&schema];
            for part in row.split('.') {
                found = found.into_iter().flat_map(|one| inner(one, part, &schema)).collect();
            }
            assert!(!found.is_empty(), "{page:?}: {verb} has no field {row}");
        }
        let named = named_from(&page, &mut BTreeSet::new());
        let mut fields = BTreeSet::new();
        all_fields(&schema, &mut fields);
        let missing: Vec<_> = fields.into_iter().filter(|field| !named.contains(*field)).collect();
        assert!(missing.is_empty(), "{page:?}, and what it links to, do not name {missing:?}");
    }
}

/// The fields that a page's tables of fields have, `a.b[].c`.
fn rows(page: &str) -> impl Iterator<Item = &str> {
    let tables = page.split("| field | type | meaning |\n").skip(1);
    let tables = tables.map(|rest| rest.split("\n\n").next().unwrap());
    let cells = tables.flat_map(str::lines).filter_map(|row| row.strip_prefix("| `"));
    let cells = cells.filter_map(|row| row.split_once("` | ")).map(|(cell, _)| cell);
    cells.flat_map(|cell| cell.split("`, `"))
}

/// What a schema says of a field, `a`, or of the elements of one, `a[]`.
fn inner<'a>(schema: &'a Value, part: &str, root: &'a Value) -> Vec<&'a Value> {
    let name = part.trim_end_matches("[]");
    let mut found: Vec<_> =
        in_place(schema, root).iter().filter_map(|one| one["properties"].get(name)).collect();
    for _ in 0..part.matches("[]").count() {
        let all = found.iter().flat_map(|one| in_place(one, root));
        found = all.filter_map(|one| one.get("items")).collect();
    }
    found
}

/// A schema, and all that describe the same value.
fn in_place<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    let mut all = vec![schema];
    if let Some(name) = schema["$ref"].as_str() {
        all.extend(in_place(root.pointer(&name[1..]).unwrap(), root));
    }
    for branches in ["anyOf", "oneOf", "allOf"] {
        let branches = schema[branches].as_array().into_iter().flatten();
        all.extend(branches.flat_map(|branch| in_place(branch, root)));
    }
    all
}

/// The names of all fields that stand in a schema, and what those say that tell kinds apart.
fn all_fields<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Object(object) => {
            let fields = object.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (name, field) in fields {
                found.insert(name);
                found.extend(field["const"].as_str().filter(|_| name != "schema"));
            }
            object.values().for_each(|inner| all_fields(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| all_fields(inner, found)),
        _ => {}
    }
}

/// The words that a page, or one of this directory that it leads to, has as code.
fn named_from(page: &Path, seen: &mut BTreeSet<PathBuf>) -> BTreeSet<String> {
    if !seen.insert(page.to_owned()) {
        return BTreeSet::new();
    }
    let text = read_to_string(page).unwrap();
    // Of one line, and of a block: what stands between one and the next of them.
    let code = text.split('`').skip(1).step_by(2);
    let words =
        code.flat_map(|code| code.split(|char: char| !char.is_alphanumeric() && char != '_'));
    let mut words: BTreeSet<_> = words.map(str::to_owned).collect();
    for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
        if link.ends_with(".md") && !link.contains("://") {
            let next = page.parent().unwrap().join(link).canonicalize().unwrap();
            if next.starts_with(answer::directory()) || link.ends_with("recording-format.md") {
                words.extend(named_from(&next, seen));
            }
        }
    }
    words
}
