//! Every command of the README and of the documentation is run, in the order of its page, and says
//! what the page shows. `page/mod.rs` says how a page tells what cannot be.
//!
//! `BECALM_BLESS=1 cargo test -p becalm --test docs` writes what the commands say into the
//! pages; what a page leaves out with `…` at the head or the end stays left out.

use std::fs::{read_to_string, write};
use std::path::{Path, PathBuf};

use crate::page::scene::{Said, Stage, repository};
use crate::page::words::{first_difference, tells, words};
use crate::page::{Block, Entry, blocks, with_shown};

/// All pages, by their paths in the repository.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut directories = vec![PathBuf::from("docs")];
    while let Some(directory) = directories.pop() {
        for entry in repository().join(&directory).read_dir().unwrap() {
            let path = directory.join(entry.unwrap().file_name());
            match repository().join(&path).is_dir() {
                true => directories.push(path),
                false if path.extension().is_some_and(|end| end == "md") => {
                    pages.push(path.to_str().unwrap().to_owned());
                }
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

/// The pages of a test: one test each would build each scene alone, all in one would take too long.
fn of_part(part: usize, of: usize) -> Vec<String> {
    let only = std::env::var("BECALM_PAGE").unwrap_or_default();
    let has_commands = |page: &String| !blocks(&text(page)).is_empty();
    let all = pages().into_iter().filter(has_commands).filter(|page| page.contains(&only));
    all.enumerate().filter(|(at, _)| at % of == part).map(|(_, page)| page).collect()
}

fn text(page: &str) -> String {
    read_to_string(repository().join(page)).unwrap()
}

fn runs(part: usize, of: usize) {
    let wrong: Vec<_> = of_part(part, of).iter().flat_map(|page| check(page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with a page.
fn check(page: &str) -> Vec<String> {
    let start = std::time::Instant::now();
    let all = blocks(&text(page));
    let (run, not): (Vec<_>, Vec<_>) = all.iter().partition(|block| block.not_run.is_none());
    for block in not {
        println!("not run: {page}:{}: {}", block.line, block.not_run.as_deref().unwrap());
    }
    let entries: Vec<&Entry> = run.iter().flat_map(|block| &block.entries).collect();
    if entries.is_empty() {
        return Vec::new();
    }
    let mut said = Stage::of(page).types(&entries).into_iter();
    let mut wrong = Vec::new();
    for block in run {
        let said: Vec<Said> = said.by_ref().take(block.entries.len()).collect();
        wrong.extend(wrong_with(block, &said).map(|why| format!("{page}:{}: {why}", block.line)));
        if std::env::var_os("BECALM_BLESS").is_some()
            && block.is_session
            && block.as_it_was.is_none()
        {
            bless(page, block, &said);
        }
    }
    println!("{page}: {} commands, {:.1} s", entries.len(), start.elapsed().as_secs_f64());
    wrong
}

fn wrong_with(block: &Block, said: &[Said]) -> Option<String> {
    for (at, (entry, said)) in block.entries.iter().zip(said).enumerate() {
        let expected = block.status.get(at).copied().unwrap_or(0);
        let real = said.lines.join("\n");
        if said.status != Some(expected) {
            return Some(format!("`{}` ended with {:?}:\n{real}", entry.command, said.status));
        }
        if entry.shown.iter().all(|line| line.trim().is_empty()) || block.as_it_was.is_some() {
            continue;
        }
        let (shown, told) = (words(&entry.shown), words(&said.lines));
        if !tells(&shown, &told) {
            let word = first_difference(&shown, &told);
            return Some(format!("`{}` shows otherwise, at {word:?}:\n{real}", entry.command));
        }
    }
    None
}

/// Writes what was said into the page. A page gets shorter or longer by that, so the block is
/// looked up by what it types.
fn bless(page: &str, block: &Block, said: &[Said]) {
    let text = text(page);
    let commands =
        |block: &Block| block.entries.iter().map(|entry| entry.command.clone()).collect::<Vec<_>>();
    let now = blocks(&text)
        .into_iter()
        .find(|now| now.line >= block.line.min(now.line) && commands(now) == commands(block));
    let Some(now) = now else { return };
    let lines: Vec<_> = now
        .entries
        .iter()
        .zip(said)
        .map(|(entry, said)| match tells(&words(&entry.shown), &words(&said.lines)) {
            true => entry.shown.clone(),
            false => kept(&entry.shown, &said.lines),
        })
        .collect();
    write(repository().join(page), with_shown(&text, &now, &lines)).unwrap();
}

/// As much of the head and of the end as is shown now.
fn kept(shown: &[String], said: &[String]) -> Vec<String> {
    let left_out = |line: &String| line.trim() == "…";
    if shown.iter().all(|line| line.trim().is_empty()) {
        return shown.to_vec();
    }
    let (Some(head), Some(end)) =
        (shown.iter().position(left_out), shown.iter().rev().position(left_out))
    else {
        return said.to_vec();
    };
    if head + end >= said.len() {
        return said.to_vec();
    }
    let dots = ["…".to_owned()];
    [&said[..head], &dots, &said[said.len() - end..]].concat()
}

#[test]
fn every_command_of_a_page_runs_and_says_what_is_shown() {
    runs(0, 4);
}

#[test]
fn every_command_of_a_second_quarter_of_the_pages_does() {
    runs(1, 4);
}

#[test]
fn every_command_of_a_third_quarter_does() {
    runs(2, 4);
}

#[test]
fn every_command_of_the_last_quarter_does() {
    runs(3, 4);
}

#[test]
fn what_is_shown_is_strict_on_words_and_loose_on_numbers() {
    let holds = |shown: &str, said: &str| {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        tells(&words(&lines(shown)), &words(&lines(said)))
    };
    assert!(holds("Bound 121 files in 1.2 s", "Bound 7 files in 3 min 4 s"));
    assert!(holds("/opt/a has 3 names", "/tmp/x/opt/a\nhas 4 names"));
    assert!(holds("a b\n…\ny z", "a b c d\ny z"));
    assert!(holds("/opt/st…/app 1", "/opt/store/app 2"));
    assert!(!holds("3 questions asked", "3 operations asked"));
    assert!(!holds("a b", "a b c"));
    assert!(!holds("a b c", "a b"));
}

#[test]
fn no_marks_but_those_that_are_needed() {
    let all = pages();
    let marked =
        |page: &String| blocks(&text(page)).iter().filter(|block| block.not_run.is_some()).count();
    let marked: usize = all.iter().map(marked).sum();
    assert!(marked <= 12, "{marked} blocks are not run");
    assert!(Path::new(&repository().join("tests/docs")).is_dir());
}
