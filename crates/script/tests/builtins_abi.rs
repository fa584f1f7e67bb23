//! What loadable/bash/bash.h declares is what bash's own headers (Debian's bash-builtins) declare.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
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
    printf("%d %d %d %d %d\n", BUILTIN_ENABLED, EX_DISKFALLBACK, FORK_SYNC, SUBSHELL_FORK,
           SUBSHELL_IGNTRAP);
}
"#;

fn printed(headers: &str, directory: &Path) -> String {
    let (source, program) = (directory.join("sizes.c"), directory.join("sizes"));
    fs::write(&source, format!("{headers}{MAIN}")).unwrap();
    let mut cc = Command::new("cc");
    // Not for <shell.h>, of which there are two.
    cc.args(["-iquote", "loadable/bash"]);
    for part in ["/usr/include/bash", "/usr/include/bash/include"] {
        cc.arg("-I").arg(part);
    }
    let made = cc.arg("-I/usr/include/bash/builtins").arg(&source).arg("-o").arg(&program);
    let made = made.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap()
}

#[test]
fn the_declarations_are_those_of_bash() {
    let directory = tempfile::tempdir().unwrap();
    let bash = "#include <sys/types.h>\n#include <config.h>\n#include <shell.h>\n#include <builtins.h>\n#include <jobs.h>\n#include <hashlib.h>\n#include <variables.h>\n#define ATT_NAMEREF att_nameref\n";
    let ours = printed("#include \"bash.h\"\n", directory.path());
    assert_eq!(ours, printed(bash, directory.path()));
    assert_eq!(ours.lines().count(), 5);
}
