//! `becalm run --builtins`: programs that bash is asked for by their paths, as configure does
//! (`MKDIR_P='/usr/bin/mkdir -p'`).

use crate::builtins::{Script, same_with};
use crate::counts::counted;

/// In bash, and in POSIX mode.
#[track_caller]
fn same(script: &str) -> String {
    same_with(script, &["bash", "--posix", "script"], &[]);
    same_with(script, &["bash", "script"], &[])
}

#[test]
fn a_program_that_is_named_by_its_path_does_and_says_the_same() {
    same(
        "/usr/bin/mkdir x; /bin/rm file; ls; /usr/bin/mkdir x; echo $?; /bin/mkdir -p a/b; /usr/bin/basename a/b",
    );
    same(
        "R=/bin/rm; $R -f file; \"$R\" x; echo $?; /nowhere/rm x; echo $?; ./mkdir; echo $?; mkdir sort; ./sort; echo $?",
    );
    same("set -e; trap 'echo end $?' EXIT; /bin/mkdir a; /bin/mkdir a; echo never");
    same(
        "(/bin/mkdir a; /bin/mkdir b); /bin/cat file | /bin/sed s/c/C/; x=$(/bin/cat file | /bin/sed s/c/d/); echo $x $?",
    );
    same("x=1; /bin/cat <<E\n$x\nE\nexec /bin/cat file");
    same(
        "trap 'echo c' CHLD; /bin/mkdir q; trap - CHLD; LC_ALL=C /bin/mkdir r; LC_ALL=xx /bin/mkdir r; ulimit -f 0; /bin/cat file > z; echo $?",
    );
    same(
        "command /bin/rm file; command -p /bin/mkdir v; ls; env /bin/mkdir w; set -x; /bin/mkdir z; exec /bin/mkdir script",
    );
    same(
        "/bin/rm $(printf '%s ' {1..40000}) 2>&1 | tail -1; echo $? $_; /bin/mkdir x; echo $_; trap 'echo $BASH_COMMAND' DEBUG; /bin/rmdir x",
    );
}

#[test]
fn what_is_asked_about_a_path_is_answered_as_ever() {
    same(
        "type /bin/rm; command -v /bin/rm; command -V /bin/mkdir; hash /bin/rm; hash; hash -t /bin/rm; type -a /bin/rm; type -t /bin/rm",
    );
    same("builtin /bin/rm file; echo $?; builtin -- /bin/rm x; echo $?; enable -n /bin/rm; ls");
    same("bash -r -c '/bin/rm file'; set -r; /bin/rm file; echo $?; ls");
    same("/bin/rm() { echo mine; }; /bin/rm file; ls; unset -f /bin/rm; /bin/rm file; ls");
}

/// A name says nothing: the file does.
#[test]
fn another_file_of_the_name_is_what_it_is() {
    same(
        "printf '#!/bin/sh\\necho own $0 $*\\n' > rm; chmod +x rm; ./rm a; PATH=.:$PATH; rm a; chmod -x rm; ./rm; echo $?",
    );
    same("printf 'echo no $0 $*\\n' > sed; ./sed a; echo $?; chmod +x sed; ./sed a");
    same("cp /bin/mkdir .; ./mkdir x; ./mkdir x; ln -s /bin/grep egrep; ./egrep c file; ls");
    same("ln -s /bin/sed grep; ./grep s/c/d/ file; cp /bin/cat rm; ./rm file; ls");
}

#[test]
fn a_program_that_is_named_by_its_path_makes_no_process() {
    let script =
        "/usr/bin/mkdir x; /bin/rm file; x=$(/usr/bin/basename a/b); /bin/cat script > copy\n";
    let starts = Script::new(script).starts();
    assert_eq!(starts.len(), 1, "{starts:?}");
    let said = counted(&format!("{script}/bin/rm x"), &["bash", "script"]);
    let numbers = &said["builtins"]["counted"];
    assert_eq!(
        (&numbers["avoided"], &numbers["request"], &numbers["others"]),
        (&4.into(), &1.into(), &0.into()),
        "{said:#}"
    );
}
