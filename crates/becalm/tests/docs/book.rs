//! The documentation leads somewhere: every link to a file reaches it, and every page of the book is
//! in its table of contents.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages below a directory, and in it.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(pages_below(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
    pages
}

fn pages_below(directory: &Path) -> Vec<PathBuf> {
    // What a build leaves behind is no part of the book.
    if directory.ends_with("target") { Vec::new() } else { pages(directory) }
}

/// The files that a page links to, `[text](file.md#place)`, as full paths.
fn links(page: &Path) -> BTreeSet<PathBuf> {
    let text = read_to_string(page).unwrap();
    // Code is quoted, not linked.
    let prose = text.split("```").step_by(2).collect::<String>();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .map(|target| page.parent().unwrap().join(target.split('#').next().unwrap()))
        .collect()
}

#[test]
fn every_link_to_a_file_reaches_it() {
    let root = repository();
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name));
    for page in pages(&root.join("docs")).into_iter().chain(top) {
        for target in links(&page) {
            assert!(target.exists(), "{}: {} is not there", page.display(), target.display());
        }
    }
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let docs = repository().join("docs");
    let summary = docs.join("SUMMARY.md");
    let listed = links(&summary);
    let missing: Vec<_> = pages(&docs)
        .into_iter()
        .filter(|page| *page != summary && !listed.contains(page))
        .collect();
    assert!(missing.is_empty(), "not in SUMMARY.md: {missing:?}");
}
