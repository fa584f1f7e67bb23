//! Each builtin beside its program, over the options that scripts use, and over odd operands: the
//! same output, complaints, status, and the same files, as root and as an ordinary user.
#![allow(clippy::unwrap_used)]

mod same;

use same::{NAMES, all_same, of_other_releases, quoted, same};

/// These would wait for somebody at the pipe's other end.
fn would_wait(program: &str, name: &str) -> bool {
    let of = program.rsplit("; ").next().unwrap_or(program);
    name == "fifo" && ["cat", "cp", "grep", "sed", "head"].iter().any(|at| of.starts_with(at))
}

/// One script for each set of options: all operands one after the other.
fn one_by_one(program: &str, options: &[&str]) {
    let names: Vec<&str> = NAMES.iter().copied().filter(|at| !would_wait(program, at)).collect();
    let scripts: Vec<String> = options
        .iter()
        .map(|options| {
            let lines = names.iter().map(|name| {
                let name = quoted(name);
                format!("{program} {options} {name}; echo \"$?\"\n")
            });
            lines.collect()
        })
        .collect();
    all_same(&scripts);
}

/// A script, and a scene, for each pair of operands.
fn in_pairs(program: &str, options: &[&str], names: &[&str]) {
    let mut scripts = Vec::new();
    for options in options {
        for one in names {
            for other in names {
                let (one, other) = (quoted(one), quoted(other));
                scripts.push(format!("{program} {options} {one} {other}; echo \"$?\"\n"));
            }
        }
    }
    all_same(&scripts);
}

const PAIRED: &[&str] = &[
    "plain",
    "-dash",
    "é",
    "readonly",
    "directory",
    "directory/",
    "filled",
    "filled/plain",
    "locked",
    "locked/inside",
    "link",
    "dangling",
    "to directory",
    "hard",
    "hard too",
    "",
    ".",
    "missing",
    "missing/",
];

#[test]
fn dirname_and_basename_say_what_the_programs_say() {
    one_by_one("dirname", &["", "--", "-z", "--zero", "--help", "--version", "-x", "a/b //", "/"]);
    one_by_one("basename", &["", "--", "-a", "-s .c", "--suffix=n", "-z", "--help", "a/b.c", "/"]);
    in_pairs("basename", &["", "--"], &["/a/plain", "plain", "ain", "", "/", "//", "n/", "é"]);
}

#[test]
fn readlink_realpath_and_cat_say_what_the_programs_say() {
    one_by_one("readlink", &["", "--", "-f", "-e", "-m", "-n", "-fn", "link", "-v"]);
    one_by_one("realpath", &["", "--", "-e", "-m", "-s", "--relative-to=/", "link"]);
    one_by_one("cat < /dev/null", &["", "--", "-n", "-A", "plain", "-", "-u"]);
}

#[test]
fn mkdir_and_rmdir_do_what_the_programs_do() {
    for umask in ["", "umask 0; ", "umask 077; ", "umask 0777; ", "umask 0277; "] {
        let with = |program| format!("{umask}{program}");
        one_by_one(&with("mkdir"), &["", "-p", "--parents", "-m 700", "-pv", "-p -- new/er", "x"]);
    }
    one_by_one("rmdir", &["", "--", "-p", "-v", "--ignore-fail-on-non-empty", "directory"]);
}

#[test]
fn rm_and_touch_and_chmod_do_what_the_programs_do() {
    let rm = ["", "--", "-f", "-r", "-rf", "-fr", "-v", "-i", "-I", "-d", "--force", "plain", "-R"];
    one_by_one("rm", &rm);
    one_by_one("touch", &["", "--", "-c", "-a", "-m", "-d 2001-01-01", "-r plain", "plain"]);
    let chmod = [
        "644",
        "0755",
        "4711",
        "7",
        "00644",
        "8",
        "+x",
        "u+x",
        "a+x",
        "-x",
        "-R 700",
        "-v 600",
        "u=rw,go=",
        "-- 600",
        "600 plain",
        "--reference=plain",
    ];
    one_by_one("chmod", &chmod);
    one_by_one("umask 027; chmod", &["+x", "a+x", "+w"]);
}

#[test]
fn mv_does_what_the_program_does() {
    in_pairs("mv", &["", "-f"], PAIRED);
    one_by_one("mv", &["-n plain", "-v plain", "-t directory", "-i plain", "-T plain", "-b plain"]);
    let many = ["plain é 'a b'", "plain filled/plain", "plain missing é", "locked/inside plain"];
    for operands in many {
        for directory in ["directory", "filled/", "locked", "missing", "plain", "'to directory'"] {
            same(&format!("mv {operands} {directory}; echo $?"));
            same(&format!("mv -f -- {operands} {directory}; echo $?"));
        }
    }
}

/// What is moved first may be the directory, or lead to it.
#[test]
fn mv_moves_all_to_where_the_directory_was() {
    same("mkdir d; ln -s d l; mv l plain l; echo $?; ls d l");
    same("mkdir s x; mv s plain s/../x; echo $?; ls x; mv plain directory hard filled; echo $?");
}

#[test]
fn cp_does_what_the_program_does() {
    in_pairs("cp", &["", "-f"], PAIRED);
    for umask in ["umask 0; ", "umask 077; ", "umask 0777; "] {
        one_by_one(
            &format!("{umask}cp"),
            &["plain", "-- plain", "-p plain", "-T plain", "-n plain"],
        );
    }
    one_by_one(
        "cp",
        &["-r directory", "-a link", "-v plain", "-i plain", "-t directory", "-b plain"],
    );
    for operands in
        ["plain é 'a b'", "plain filled/plain", "plain missing é", "locked/inside plain"]
    {
        for directory in ["directory", "filled/", "locked", "missing", "plain", "'to directory'"] {
            same(&format!("cp {operands} {directory}; echo $?"));
        }
    }
    same(
        "truncate -s 100000 holes; cp holes new; chmod 4755 plain; cp plain mine; cp /bin/true t; ./t; cp /dev/null n",
    );
    same(
        "chmod 600 plain; cp plain new; cp new plain; cp plain readonly; echo $?; cp noread new; echo $?; cp plain plain; echo $?",
    );
    same("ulimit -f 1; head -c 5000 /dev/zero > big; cp big new; echo $?; cp plain small; echo $?");
    same(
        "head -c 300000 /dev/zero > big; cp big new; cmp big new; cp /proc/self/comm s; echo $?; cp plain /dev/full; echo $?",
    );
}

#[test]
fn ls_says_what_the_program_says() {
    one_by_one(
        "ls",
        &[
            "",
            "--",
            "-1",
            "-a",
            "-A",
            "-d",
            "-aA",
            "-1d .",
            "plain",
            "directory filled",
            "-l --time-style=+",
            "-F",
            "-r",
        ],
    );
    in_pairs("ls", &["", "-d", "-1a"], PAIRED);
    for line in [
        "ls",
        "ls -a",
        "ls -d",
        "ls -d *",
        "ls *",
        "ls . filled",
        "ls directory",
        "ls link link",
        "ls filled plain directory é",
    ] {
        same(&format!(
            "{line}; x=$({line}); echo \"$x $?\"; {line} | cat; {line} > out; cat out; {line} >&-; echo $?"
        ));
        same(&format!(
            "export LC_ALL=en_US.UTF-8; {line}; QUOTING_STYLE=c {line}; export QUOTING_STYLE=shell; {line}"
        ));
        same(&format!(
            "export LC_ALL=C; {line}; {line} > /dev/full; echo $?; cd locked; {line}; cd /; cd - > /dev/null; {line}"
        ));
    }
    same(
        "for i in {1..500}; do : > some-$i; done; ls; ls | wc -l; ls > out; wc -l out; x=$(ls); echo ${#x}",
    );
    same(
        "ls /proc/self/fd | wc -l; ls -d /proc/self /dev/fd; ls /dev/fd | wc -l; ls -d /proc/self/exe; ls /proc/$$/task | wc -l",
    );
}

#[test]
fn a_directory_that_may_not_be_entered_is_the_programs_to_complain_about() {
    same("mkdir d; cd d; chmod 600 .; ls -d; echo $?; ls; ls -d .; ls -a");
}

/// Of a moment that may be another when it is asked again, what is not.
#[test]
fn date_says_what_the_program_says() {
    let formats = [
        "+%Y-%m-%d",
        "+%F",
        "+%j %y",
        "+%H",
        "+%%%n%t",
        "+",
        "+x y",
        "+%",
        "+%q",
        "+%-d",
        "+%_m",
        "+%Z",
        "+%z",
        "+%A",
        "+%é",
        "é",
    ];
    for format in formats.map(quoted) {
        for options in
            ["", "-u", "--utc", "-u -u", "--", "-d @0", "-u -d @951782400", "-R -d @0", "-r plain"]
        {
            same(&format!(
                "date {options} {format}; echo $?; x=$(date {options} {format}); echo \"$x\""
            ));
        }
    }
    same(
        "a=$(date +%s); b=$(/bin/date +%s); c=$(command date +%s); ((a <= b && b <= c && c - a < 9)); echo $? ${#a}",
    );
    same(
        "a=$(date -u +%F,%T); b=$(TZ= date +%F,%T); [[ ${a%:*} = ${b%:*} ]] || date; x=$(date +%N); echo ${#x}; export TZ=Asia/Tokyo; date +%H; date -u +%H",
    );
}

#[test]
fn ln_does_what_the_program_does() {
    in_pairs("ln", &["", "-s", "-sf"], PAIRED);
    one_by_one("ln", &["-sfn plain", "-snf plain", "-f plain", "-sr plain", "-s", "-sv plain"]);
}

#[test]
fn programs_that_are_only_started_are_the_programs() {
    one_by_one("grep", &["content", "-c o", "-q x", "-rn plain", "--nope"]);
    one_by_one("sed", &["s/o/0/", "-n 1p", "--nope"]);
    one_by_one("head", &["-n 1", "-c 3"]);
}

#[test]
fn output_that_cannot_be_written_is_the_programs_to_complain_about() {
    for program in ["dirname a/b", "basename a/b", "cat plain", "readlink link", "realpath plain"] {
        same(&format!("{program} > /dev/full; echo $?"));
        same(&format!("{program} >&-; echo $?"));
        same(&format!("{program} > locked/new; echo $?"));
        same(&format!("exec 3>&1 > >(:); wait $!; {program}; echo $? >&3"));
        same(&format!("{program} > new; {program} >> new; {program} 2>&1 >> plain; echo $?"));
        same(&format!("{program} | cat; echo \"${{PIPESTATUS[@]}}\""));
    }
}

#[test]
fn variables_that_change_a_program_reach_it() {
    same("POSIXLY_CORRECT=1 mkdir one -p; echo $?; export POSIXLY_CORRECT=1; mkdir two -p; ls");
    same("LC_ALL=C mkdir plain; LC_ALL=C.UTF-8 mkdir plain; export LC_ALL=C; rm é x");
    same("PATH=/nowhere mkdir x; echo $?; PATH=/nowhere; mkdir x; echo $?; hash");
    same("mkdir() { echo mine \"$@\"; }; mkdir x; command mkdir y; unset -f mkdir; mkdir z");
}

/// Of whichever sign the processor's plain char is: on Arm it has none.
#[test]
fn what_is_no_ascii_is_the_programs() {
    same(
        "expr mél : 'm.l'; expr mél : 'm..l'; x=$(expr é : '.*'); echo \"$x\"; echo mél > new; sed 's/^..//' new; \
         echo mél | sed 's/./x/3'; grep -c '^m.l$' new; printf '\\351x\\n' | grep -c '^.x'; cut -c 1-2 new",
    );
}

/// With POSIXLY_CORRECT alone, and in POSIX mode, which has bash set it for itself.
#[test]
fn posix_mode_changes_nothing_of_what_is_done_in_bash() {
    let lines = [
        "mkdir one two; echo $?; mkdir -p one/a/b -p; echo $?; mkdir plain; echo $?; ls",
        "rmdir directory; echo $?; rmdir filled; echo $?; rmdir missing -p; echo $?",
        "rm -f plain missing; echo $?; rm 'a b' -f; echo $?; rm -rf link -v; echo $?; rm filled",
        "mv -f plain new; echo $?; mv new directory; echo $?; mv é -f; echo $?; mv missing x",
        "cat plain 'a b'; cat plain -n; cat missing; cat plain > out; echo $?",
        "chmod 600 plain; chmod +x hard; echo $?; chmod 644 plain -v; echo $?; chmod 8 plain",
        "ln -s plain made; echo $?; ln plain hard3; echo $?; ln -sf plain made -v; echo $?",
        "touch new plain; echo $?; touch new -c; echo $?; touch 0101000099 new; echo $?; ls",
        "dirname a/b c; dirname a/b -z; basename a/b.c .c; basename -- -x; basename a -a; echo $?",
        "readlink link; readlink -f link -n; echo $?; realpath link; realpath missing -e; echo $?",
        "f() { rm -f \"$1\"; }; x=1 f plain; echo $?; x=2 rm -f hard; echo \"$x\"; ls",
        "set -e; mkdir plain || echo no; mkdir directory; echo never",
        "trap 'echo end' EXIT; cat plain | cat; echo \"${PIPESTATUS[@]}\"; exec rm plain",
        "echo \"$POSIXLY_CORRECT $SHELLOPTS\"; env | grep -c POSIX; command -v mkdir; type rm",
    ];
    let modes = [
        "set -o posix",
        "POSIXLY_CORRECT=1",
        "export POSIXLY_CORRECT=1",
        "export _POSIX2_VERSION=199209",
        "set -o posix; export _POSIX2_VERSION=199209",
        "set -a; set -o posix",
    ];
    let scripts = modes.iter().flat_map(|mode| lines.map(|line| format!("{mode}\n{line}\n")));
    all_same(&scripts.collect::<Vec<_>>());
}

/// Scripts of sed's, each on files and on standard input: done in bash, refused, or wrong.
#[test]
fn sed_does_what_the_program_does() {
    let scripts = [
        "s/o/0/",
        "s/o/0/g",
        "s/o/0/2",
        "s/o/[&]/gp",
        "s,[^ ]*$,<&>,",
        r"s/\(.\)\(.\)/\2\1/g",
        "s/x*/-/g",
        "s/^/| /",
        "s/$/!/",
        r"s/\./\//",
        r"s|a\|b|c|",
        "s/[/]/x/",
        r"s/[\/]/x/",
        "s/[]]/x/",
        "s/[:alpha:]/x/",
        "s/[[:alpha:]]/x/g",
        "y/abc/xyz/",
        "y/ab/x/",
        r"y/a\n/xy/",
        "1d",
        "$d",
        "2,3p",
        "/con/d",
        "/con/!d",
        "1!d",
        "/c/,/n/d",
        "2q",
        "q",
        "1,2{s/o/0/;p}",
        "/x/{p;d}",
        "p;p",
        "{p}",
        "{p",
        "}",
        "s/a/b",
        "s/a/b/x",
        "s/a/b/w f",
        "k",
        "",
        ";;p;",
        "#n\np",
        "s/a/\\\nb/",
        r"s/a/\n/",
        r"s/\n/x/",
        r"s/a\+/x/",
        r"s/\(a\)*/x/",
        r"s/\(/x/",
        "s/**/x/",
        "s/a**/x/",
        "s/^*/x/",
        "=",
        "h;G",
        "N;s/o/0/",
        "0,/o/d",
        "1~2d",
        "1,+1d",
        "/O/Id",
        "//d",
        "$!d",
        "2,1p",
        "s/é/e/",
        "s/o/\t/",
        "s/\t/x/",
        "1 p",
        "1 , 2 p",
        r"\,c,d",
        "s//x/",
        "s/a/&&/3g",
        "y///",
        "s/[a-f]/x/g",
        "s/[z-a]/x/",
    ];
    let mut lines = Vec::new();
    for script in scripts {
        let script = quoted(script);
        for options in ["", "-n ", "-e "] {
            lines.push(format!(
                "for f in plain 'plain hard' é; do sed {options}{script} $f; \
                 echo $?; done; printf 'o one\\ntwo' | sed {options}{script}; echo $?; \
                 sed {options}{script} < plain; echo $?; sed {options}{script} <<E\ncoco\nx.y/z\nE\necho $?\n"
            ));
        }
    }
    lines.push("sed -E 's/o+/x/' plain; sed -i s/o/x/ plain; sed -s p plain; sed -f plain plain; sed; sed -n".into());
    lines.push(
        "printf 'a\\nlast' > open; for script in q 2q '$q' '/s/q' '2{p;q}' '$p;$q' 's/a/b/;2q' '2d;q'; do \
         sed \"$script\" open; sed -n \"$script\" open; sed \"$script\" < open; done"
            .into(),
    );
    lines.push("sed s/o/x/ plain >> plain; sed s/o/x/ - < plain; sed p plain - plain < hard; sed -n '$p' plain hard".into());
    all_same(&lines);
}

#[test]
fn grep_expr_and_uname_say_what_the_programs_say() {
    let patterns = [
        "o",
        "^c",
        "n$",
        "^$",
        ".",
        "o*",
        "[a-c]",
        r"\(o\)",
        r"o\|x",
        "",
        "é",
        "-v",
        "a\nb",
        "[",
        "**",
        "[:alpha:]",
        "^*",
        r"\.",
        r"\w",
        "x",
        "content of plain",
        r"\(o\)\1",
    ];
    let mut lines = Vec::new();
    for pattern in patterns {
        let pattern = quoted(pattern);
        for options in ["", "-v", "-q", "-F", "-qv", "-c", "-n", "-E", "-i", "-e", "-x", "-vF --"] {
            lines.push(format!(
                "for f in plain é noread 'plain hard'; do grep {options} {pattern} $f; echo $?; \
                 done; grep {options} {pattern} <<E\nfoo\nx.y\nE\necho $?; echo foo | grep {options} {pattern}; \
                 echo $?; grep {options} {pattern} < plain > /dev/null; echo $?\n"
            ));
        }
    }
    let regexes = [
        r"X\(.*\)",
        r"\(.\)",
        ".*",
        r"\(0*\)",
        "a*",
        "^a",
        "b",
        r"\(a\)*b",
        r".*/\([^/][^/]*\)/*$",
        "",
        r"\(-*0*\)",
    ];
    for text in [
        "Xa/b", "X/a//b/", "00", "0", "-0", "-", "", "--", "match", "+", "(", "é", "Xé", "1",
        "aab", "Xx\ny",
    ] {
        let text = quoted(text);
        let each = regexes.map(|regex| {
            let regex = quoted(regex);
            format!("expr {text} : {regex}; echo $?; x=$(expr {text} : {regex}); echo \"$x $?\"\n")
        });
        lines.push(format!("{}expr {text} + 1; echo $?; expr {text}; echo $?", each.concat()));
    }
    let unames =
        ["", "-s", "-n", "-r", "-v", "-m", "-rs", "-mnrsv", "-a", "-p", "x", "--", "--help", "-i"];
    lines.extend(
        unames.map(|options| format!("uname {options}; echo $?; setarch i686 uname {options}")),
    );
    lines.push("export GREP_COLORS=x; grep o plain; GREP_COLOR=x grep o plain; export LC_ALL=xx_XX; grep o plain; sed p plain".into());
    all_same(&lines);
}

/// Of all versions that becalm knows. All of this file's tests have passed with each, too.
#[test]
fn programs_of_other_versions_do_the_same() {
    of_other_releases(&[
        "dirname_and_basename_say_what_the_programs_say",
        "date_says_what_the_program_says",
        "output_that_cannot_be_written_is_the_programs_to_complain_about",
        "posix_mode_changes_nothing_of_what_is_done_in_bash",
        "readlink_realpath_and_cat_say_what_the_programs_say",
        "variables_that_change_a_program_reach_it",
    ]);
}
