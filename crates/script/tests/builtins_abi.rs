//! What loadable/bash/bash.h declares is what bash's own headers (Debian's bash-builtins) declare, in each
//! version that it is for.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAIN: &str = r#"
#include <stddef.h>
#include <stdio.h>
int main(void) {
    printf("%zu %zu %zu %zu %zu\n", sizeof(struct builtin), offsetof(struct builtin, name),
           offsetof(struct builtin, function), offsetof(struct builtin, flags),
           offsetof(struct builtin, handle));
    printf("%zu %zu %zu\n", sizeof(WORD_LIST), offsetof(WORD_LIST, word), offsetof(WORD_DESC, word));
    printf("%zu %zu %zu %x\n", offsetof(SHELL_VAR, dynamic_value), offsetof(SHELL_VAR, attributes),
           sizeof(SHELL_VAR), ATT_NAMEREF);
    printf("%zu %zu %zu\n", offsetof(BUCKET_CONTENTS, data), offsetof(BUCKET_CONTENTS, times_found),
           sizeof(BUCKET_CONTENTS));
    printf("%d %d %d %d %d %d\n", BUILTIN_ENABLED, BUILTIN_DELETED, EX_DISKFALLBACK, FORK_SYNC, SUBSHELL_FORK,
           SUBSHELL_IGNTRAP);
}
"#;

/// What a program prints that is built with the headers below a root directory.
fn printed(headers: &str, root: &Path, directory: &Path) -> String {
    let (source, program) = (directory.join("sizes.c"), directory.join("sizes"));
    fs::write(&source, format!("{headers}{MAIN}")).unwrap();
    let mut cc = Command::new("cc");
    // Not for <shell.h>, of which there are two.
    cc.args(["-iquote", "loadable/bash"]);
    for part in ["", "include", "builtins"] {
        cc.arg("-I").arg(root.join("usr/include/bash").join(part));
    }
    let made = cc.arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap()
}

#[test]
fn the_declarations_are_those_of_bash() {
    let directory = tempfile::tempdir().unwrap();
    // 5.1 has no flag for what 5.2 calls by the last of these names, and lets it be.
    let bash = "#include <sys/types.h>
#include <config.h>
#include <shell.h>
#include <builtins.h>
#include <jobs.h>
#include <hashlib.h>
#include <variables.h>
#define ATT_NAMEREF att_nameref
#ifndef SUBSHELL_IGNTRAP
#define SUBSHELL_IGNTRAP 0x100
#endif
";
    let others = ["bullseye", "trixie", "testing"].map(testkit::installed::other_bash);
    for root in others.iter().map(PathBuf::as_path).chain([Path::new("/")]) {
        let ours = printed("#include \"bash.h\"\n", root, directory.path());
        assert_eq!(ours, printed(bash, root, directory.path()), "{}", root.display());
        assert_eq!(ours.lines().count(), 5);
    }
}
