//! `becalm run --builtins`: scripts of bash do, say and end as they do without it.

use crate::BECALM;
use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::Scene;
use testkit::live::{Ran, run};

pub struct Script {
    scene: Scene,
    script: String,
    search: String,
}

/// Where the test finds bash, and all else.
const SEARCH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Script {
    pub fn new(script: &str) -> Script {
        let scene = Scene::new();
        scene.file("file", "content\n", 0o644);
        scene.file("script", script, 0o755);
        Script { scene, script: script.to_owned(), search: SEARCH.to_owned() }
    }

    /// The same, for bash of another release.
    fn of(release: &str, script: &str) -> Script {
        let bash = testkit::installed::other_bash(release);
        Script { search: format!("{}:{SEARCH}", bash.display()), ..Script::new(script) }
    }

    pub fn path(&self) -> &Path {
        self.scene.root()
    }

    /// What the script does; its own directory, and process ids, have no name in it.
    pub fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.path()).env_remove("BASH_ENV");
        command.env("PATH", &self.search).env("TMPDIR", "/tmp");
        command.envs(variables.iter().copied());
        run(&mut command)
    }

    /// What bash does of it with the builtins, and strace's lines of processes and programs started.
    fn traced(&self) -> (Ran, String) {
        let trace = ["strace", "-f", "-o", "trace", "-e", "trace=execve,clone,clone3,fork,vfork"];
        let ran = self.run(&[WITH, &trace, &["bash", "script"]].concat(), &[]);
        (ran, fs::read_to_string(self.path().join("trace")).unwrap())
    }

    /// These lines, of a script that ends well and in silence.
    #[track_caller]
    pub fn starts(&self) -> Vec<String> {
        let (ran, seen) = self.traced();
        assert_eq!((ran.code(), ran.err()), (0, String::new()), "{}", ran.out());
        seen.lines().filter(|line| line.contains('(')).map(str::to_owned).collect()
    }
}

pub const WITH: &[&str] = &[BECALM, "run", "--builtins", "--"];

/// How bash says that a process was killed, behind its id.
const ENDS: [&str; 8] = [
    "Killed",
    "Terminated",
    "File size",
    "Segmentation",
    "Aborted",
    "Hangup",
    "User defined",
    "Quit",
];

/// Process ids differ from run to run.
pub fn without_ids(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let lines = text.lines().map(|line| match ENDS.iter().find_map(|why| line.find(why)) {
        Some(at) => {
            let (start, rest) = line.split_at(at);
            let start = start.trim_end().trim_end_matches(|one: char| one.is_ascii_digit());
            format!("{}{rest}\n", start.trim_end())
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}

#[track_caller]
pub fn same_with(script: &str, words: &[&str], variables: &[(&str, &str)]) -> String {
    if words[0] == "bash" {
        same_in(|| Script::of(other_release(script), script), words, variables);
    }
    same_in(|| Script::new(script), words, variables)
}

/// Other versions of bash than this system's: with each script, one is tried besides.
fn other_release(script: &str) -> &'static str {
    const RELEASES: [&str; 3] = ["bullseye", "trixie", "testing"];
    let asked = std::env::var("BECALM_TEST_BASH").ok();
    let asked = asked.and_then(|asked| RELEASES.into_iter().find(|release| *release == asked));
    asked.unwrap_or(RELEASES[script.len() % RELEASES.len()])
}

#[track_caller]
fn same_in(scene: impl Fn() -> Script, words: &[&str], variables: &[(&str, &str)]) -> String {
    let (plain, with) = (scene(), scene());
    let plain = plain.run(words, variables);
    let calmed = with.run(&[WITH, words].concat(), variables);
    let shown = |ran: &Ran| {
        format!(
            "{:?}\n-- out\n{}-- err\n{}",
            ran.status,
            without_ids(&ran.stdout),
            without_ids(&ran.stderr)
        )
    };
    assert_eq!(shown(&plain), shown(&calmed), "\n{}\n{}", with.script, with.search);
    calmed.out()
}

#[track_caller]
fn same(script: &str) -> String {
    same_with(script, &["bash", "script"], &[])
}

#[test]
fn a_script_with_set_e_ends_at_the_same_line() {
    for line in ["mkdir file", "x=$(mkdir file)", "cat nothing | cat", "rm nothing; echo no"] {
        same(&format!("set -e\nmkdir one\n{line}\necho after\nrmdir nothing || echo or\nmv a b"));
        same(&format!("set -e -o pipefail\n{line}\necho after"));
        same(&format!("set -u\nif {line}; then echo yes; else echo $?; fi; ! {line}; echo $?"));
    }
    assert_eq!(same("set -e; ( mkdir file; echo inner ) || echo outer"), "inner\n");
}

#[test]
fn traps_run_as_often_and_see_the_same() {
    for trap in ["ERR", "EXIT", "DEBUG", "RETURN", "CHLD"] {
        let head = format!("trap 'echo \"{trap} $? $LINENO $BASH_COMMAND\"' {trap}\n");
        let body = "f() { mkdir file; mkdir one; dirname a/b; cp nothing x; }\nf\nmkdir one\nrm one\n\
                    (mv a b)\nx=$(cat nothing; dirname a/b)\nmkdir two | cat\necho $x";
        // A child that there is none of is not reported: CHLD is for those that there are.
        if trap != "CHLD" {
            same(&format!("{head}{body}"));
            same(&format!("set -ET\n{head}{body}"));
        }
    }
    same("trap 'echo CHLD' CHLD; sleep 0.01; cp nothing x; mkdir file; echo end");
    same(
        "trap 'echo TERM' TERM; kill $$; mkdir a; echo $?; trap '' INT; grep SigIgn /proc/self/status",
    );
    same("trap 'mkdir a; ls; rm file; mkdir a' EXIT; exit 3");
    same("trap 'rmdir x > log; cat log file > log2; ls' EXIT; mkdir x");
}

#[test]
fn what_names_mean_is_what_they_mean_without() {
    same("type mkdir; type -t mv; type -p rm; type -a dirname; type -P cat; command -v mkdir");
    same("command -V mkdir; [ -x \"$(command -v mkdir)\" ]; echo $?; which dirname; hash; hash mv");
    same("hash mkdir rm; hash -t mkdir; hash; hash -d rm; hash -r; hash; builtin mkdir x; echo $?");
    same("enable -p | grep -E 'mkdir|dirname'; enable -a | wc -l; compgen -b; help mkdir; echo $?");
    same("enable -n echo; enable -n; type -a echo; enable echo; type echo");
    same("enable -d mkdir; echo $?; mkdir x; rmdir x; type mkdir");
    same("mkdir x; rm file; hash; echo $_; declare -F; alias; declare -p BASH_ALIASES");
}

#[test]
fn functions_and_aliases_of_the_same_names_come_first() {
    same(
        "dirname() { echo mine; }; dirname a/b; command dirname a/b; unset -f dirname; dirname a/b",
    );
    same(
        "function mkdir { command mkdir -v \"$@\"; }; mkdir x; export -f mkdir; bash -c 'mkdir y'",
    );
    same("shopt -s expand_aliases\nalias rm='rm -v'\nrm file\n\\rm file\nunalias rm\nrm file");
    same("f() { local -; set -x; mkdir a; rmdir a; }; f; mkdir a");
}

#[test]
fn programs_that_are_asked_for_by_path_are_run() {
    same(
        "command dirname a/b; env dirname a/b; /usr/bin/dirname a/b; \\dirname a/b; 'dirname' a/b",
    );
    same("x=dirname; $x a/b; \"$x\" c/d; eval dirname e/f; time -p true; command -p dirname a/b");
    same("echo a/b | xargs dirname; find . -name file -exec dirname {} \\;; nice mkdir x; ls");
    same("exec dirname a/b");
    same(
        "(exec mkdir x); exec > out; mkdir x; dirname a/b; cat out >&2; command exec 3>f; echo >&3",
    );
    same("exec mkdir file");
}

#[test]
fn another_program_of_the_name_in_path_is_run() {
    let own =
        "mkdir -p bin; printf '#!/bin/sh\\necho own \"$@\"\\n' > bin/mkdir; chmod +x bin/mkdir\n";
    let out = same(&format!("{own}PATH=$PWD/bin:$PATH; mkdir x; type mkdir | grep -c bin; ls"));
    assert!(out.starts_with("own x\n"), "{out}");
    same(&format!("{own}PATH=$PWD/bin:$PATH mkdir x; mkdir y; PATH=bin command -p mkdir z; ls"));
    same(&format!("{own}PATH=$PWD/bin:$PATH; mkdir x; command -p mkdir y; command mkdir z; ls"));
    same(&format!("{own}hash -p $PWD/bin/mkdir mkdir; mkdir x; hash -d mkdir; mkdir y; ls"));
    same("printf 'echo \"script $*\"\\n' > mv; chmod +x mv; PATH=.; mv a b; mkdir x; cp x y");
    same(
        "command_not_found_handle() { echo lost \"$@\"; return 9; }; PATH=/nowhere; rm x; echo $?",
    );
}

#[test]
fn a_trace_shows_the_script_alone() {
    same("set -x; mkdir x; dirname a/b; y=$(dirname a/b); mkdir file; mv x z; set +x");
    same_with("mkdir x; dirname \"a b\"", &["bash", "-x", "script"], &[]);
    same_with("mkdir x; echo \"$_\"", &["bash", "-eu", "script"], &[("SHELLOPTS", "xtrace")]);
    same_with(
        "echo \"$_ $? $# $0 $LINENO\"; hash; declare -p PIPESTATUS",
        &["bash", "script"],
        &[],
    );
}

#[test]
fn redirections_are_done_once() {
    same(
        "set -C; mkdir file > new; echo $?; cat new; mv a b 2> err; cat err; rm q 2>> err; cat err",
    );
    same(
        "for i in 1 2; do mkdir file > out$i; mkdir file 2> err$i; done; ls; x=$(mkdir file 2>&1)",
    );
    same("cat <<END\n$(dirname a/b)\nEND\ncat < file; cat - < file; cat <(echo a) <(echo b)");
    same("rm nothing 2>&1 | tr a-z A-Z; echo \"${PIPESTATUS[@]}\"");
    same("while read -r line; do cat; mkdir file; done < script | wc -l");
    same("{ mkdir file; cat file; } > both 2>&1; cat both; dirname a/b > /nowhere/x; echo $?");
}

#[test]
fn what_a_redirection_does_in_the_child_stays_there() {
    same(
        "set -u; cat file > $UNDEF; echo goes on $?; (cat file > $UNDEF; echo on); basename a > $1; echo on",
    );
    same("shopt -s failglob; cat file > nomatch*; echo goes on $?; set +f; mkdir d > d*; ls");
    same(
        "cat file {v}>/dev/null; echo ${v-unset}; for i in 1 2 3; do mkdir m$i {w}>x; done; set -- /proc/$$/fd/*; echo $#",
    );
    same(
        "sleep 0 & first=$!; mkdir m > >(true); basename x 2> >(true); [ $! = $first ]; echo $?; wait",
    );
    same(
        "basename x > p$BASHPID; [ -e p$$ ]; echo $?; declare -n r=BASHPID; basename x > q$r; [ -e q$$ ]; echo $?; rm -f p* q*",
    );
    same("RANDOM=5; basename x > y$RANDOM; echo $RANDOM; rm y*; ls");
    same("n=5 out=o; for i in 1 2; do basename x > $out$i; cat file >> $n; done; ls; cat o1 5");
}

#[test]
fn redirections_are_those_of_a_child() {
    same(
        "i=0; mkdir x > out$((i += 1)); echo $i; mkdir y > ${v:=o}; echo $v; mkdir z 2> ${w[i++]}q",
    );
    same(
        "cat < /proc/self/comm; f=/proc/self/comm; cat < $f; head -1 < $f; cat file > /proc/self/fd/1",
    );
    same(
        "exec 3< file; cat <&3; cat 0<&3 < file; mkdir x 3>&-; cat file >&-; echo $?; cat file <&-",
    );
    same(
        "mkdir x >&- 2>&-; exec 0<&-; touch u; exec 2>&-; mkdir u; echo $?; exec >&-; basename a/b",
    );
}

/// A limit of the script's own is for the programs that it starts.
#[test]
fn limits_end_a_program_and_not_the_shell() {
    same("ulimit -f 0; cat file > big; echo after $?; dirname a/b > c; echo $?; mkdir x; echo $?");
    same("ulimit -f 0; exec bash -c 'cat file > big; echo after $?'");
    same("ulimit -n 3; mkdir x; echo $?; ulimit -n 0; cat file; echo $?");
    same("ulimit -v 1000; mkdir x; echo $?");
    same("ulimit -c 0; mkdir x; ulimit -t 9; mkdir y; ls");
    same("export BIG=$(printf '%*s' 140000 x); mkdir x; echo $?; unset BIG; mkdir x; echo $?");
    same(
        "rm -f $(printf '%s ' {1..400000}); echo $?; mkdir $(printf '%*s' 140000 x | tr ' ' y); echo $?",
    );
}

#[test]
fn a_trap_of_chld_runs_once_for_each_program() {
    let counted = "trap 'n=$((n + 1))' CHLD; mkdir x; rmdir x; touch y; rm y; echo $n; ";
    assert_eq!(same(counted), "4\n");
    same(&format!("{counted} trap - CHLD; mkdir x; echo $n; trap '' CHLD; mkdir y; echo $n"));
}

/// bash has the variables of a builtin for itself meanwhile, and those of a program not.
#[test]
fn variables_for_one_command_are_the_programs_alone() {
    same("LC_ALL=xx_XX mkdir x; echo $?; LC_ALL=xx_XX cp file y; LC_ALL=xx_XX command mkdir z; ls");
    same(
        "f() { mkdir x; }; LC_ALL=xx_XX f; LC_ALL=xx_XX eval mkdir z; set -k; mkdir d LC_ALL=xx_XX; ls",
    );
    same(
        "shopt -s expand_aliases; POSIXLY_CORRECT=1 mkdir x; shopt expand_aliases; set -o | grep posix",
    );
    same("hash ls; PATH=/usr/bin:/bin mkdir x; hash; x=1 y=$((z += 2)) mkdir d; echo $z; ls");
    same("readonly v=1; v=2 mkdir x; echo $?; v=2 cp file y; echo $?; ls");
    same_with("mkdir x; cp file y; ls", &["bash", "script"], &[("LC_ALL", "xx_XX")]);
    same("export LC_ALL=xx_XX; mkdir x; rm nothing; ls");
    same(
        "export LD_SHOW_AUXV=1; mkdir x > a; export -n LD_SHOW_AUXV; grep -c AT_ a; \
          export LD_TRACE_LOADED_OBJECTS=1; mkdir y > b; export -n LD_TRACE_LOADED_OBJECTS; ls; wc -l b",
    );
}

#[test]
fn what_proc_says_of_itself_is_the_programs() {
    same(
        "readlink /proc/self/exe; realpath /proc/self/exe; readlink -f /proc/self/exe; cat /proc/self/comm",
    );
    same(
        "ln -s /proc/self/exe e; ln -s /proc/self p; readlink e; readlink -f e; realpath e p/exe; \
          readlink p/exe; realpath p/exe; cat p/comm; cd p; readlink exe; cd /proc; readlink self/exe",
    );
    same("touch /proc/self/comm; echo $?; chmod 600 /proc/self/comm; echo $?; readlink /dev/stdin");
    same(
        "cp /proc/self/comm c; cp /proc/thread-self/comm d; cat c d; ln -s /proc/self l; cp l/comm e; cat e",
    );
    same(
        "echo 500 > f; cp f /proc/self/oom_score_adj; cat /proc/$$/oom_score_adj; exec 2> /dev/null; cp f /proc/$$/comm; echo $?",
    );
    same(
        "echo x > f; exec 5> /proc/$$/comm; cat f >&5; echo $?; cat f > /proc/$$/comm; cat /proc/$$/comm",
    );
    same(
        "readlink /proc/$$/fd/1 > o; cut -c1-5 o; ls /proc/$$/fd > l; wc -l < l; exec 2> /dev/null; cp file /proc/$$/fd/8 8> z; echo $?",
    );
    same("touch /proc/self/cwd/x; cat /proc/self/cwd/file; chmod 600 /proc/self/cwd/file; ls");
}

#[test]
fn a_file_that_is_called_as_standard_input_is_is_none() {
    same("echo wrong > -; echo right | cat -; cat - < file; touch -; rm ./-; ls");
}

#[test]
fn pipes_subshells_and_jobs_are_what_they_are_without() {
    same("shopt -s lastpipe; true | mkdir file; echo \"${PIPESTATUS[@]}\"; echo y | cat - file");
    same("mkdir file & wait $!; echo $?; mkdir x & wait; ls; rm nothing & wait $!; echo $?");
    same("(mkdir file; echo $?; mkdir y); (rm nothing); echo $?; ls; { mkdir file; } | cat");
    same("coproc cat file; cat <&\"${COPROC[0]}\"; wait; grep -E 'Sig[BIC]|Shd' /proc/self/status");
    same("set -m; mkdir file; cp nothing x; sleep 0.01; grep -c . file; mkdir a & wait; echo $?");
    same(
        "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; sed -n '/^Sig[BIC]/p' /proc/self/status & wait",
    );
    same(
        "ls -l /proc/self/fd | wc -l; find /proc/self/fd -lname '*scr*'; env | grep -E '^(_|SHLVL)='",
    );
    same(
        "sleep 5 & kill $!; wait $!; echo $?; sort -k 1 < file; TIMEFORMAT=%%; time sort file | head -1",
    );
}

#[test]
fn a_program_that_is_killed_is_reported_in_the_same_words() {
    same(
        "printf '#!/bin/sh\\nkill -9 $$\\n' > sort; chmod +x sort; PATH=$PWD:$PATH; sort a; echo $?",
    );
    same(
        "printf '#!/bin/sh\\nkill $$\\n' > mv; chmod +x mv; PATH=$PWD:$PATH; mv a; echo $?; mv | cat",
    );
    same(
        "printf '#!/bin/sh\\nkill -2 $$\\n' > cp; chmod +x cp; PATH=$PWD:$PATH; cp a; echo after $?",
    );
    same(
        "printf '#!/bin/sh\\nkill -2 $$\\n' > cp; chmod +x cp; trap 'echo INT' INT; PATH=$PWD:$PATH; \
          cp a; echo after $?",
    );
}

#[test]
fn the_users_own_bash_env_is_read_too_and_children_have_both() {
    let script = "echo \"$mine\"; mkdir x; bash -c 'echo \"$mine\"; mkdir y; type mkdir'; ls";
    let own = tempfile::tempdir().unwrap();
    let file = own.path().join("my env");
    fs::write(&file, "mine=\"read ${mine}\"; greet() { echo hello; }; return 0; echo never")
        .unwrap();
    let file = file.to_str().unwrap();
    let out = same_with(script, &["bash", "script"], &[("BASH_ENV", file)]);
    assert!(out.starts_with("read \nread \n"), "{out}");
    let directory = own.path().to_str().unwrap();
    same_with(script, &["bash", "script"], &[("BASH_ENV", "$D/my env"), ("D", directory)]);
    same_with(script, &["bash", "script"], &[("BASH_ENV", "~/my env"), ("HOME", directory)]);
    same_with(script, &["bash", "script"], &[("BASH_ENV", "/nowhere/at/all")]);
    same_with(script, &["bash", "script"], &[("BASH_ENV", "./file")]);
    // becalm within becalm reads it once.
    let within = [BECALM, "run", "--builtins", "--", "bash", "script"];
    let ran = Script::new("echo \"$mine\"").run(&[WITH, &within].concat(), &[("BASH_ENV", file)]);
    assert_eq!(ran.out(), "read \n");
}

#[test]
fn a_script_that_changes_bash_env_has_its_way_with_its_children() {
    same("echo 'echo other' > other; export BASH_ENV=$PWD/other; bash -c 'mkdir x; type mkdir'");
    same("export BASH_ENV=; bash -c 'mkdir x; mkdir x'; unset BASH_ENV; bash -c 'mkdir y; ls'");
    same("env -i PATH=$PATH bash -c 'mkdir x; echo $?'; sh -c 'mkdir y; type mkdir'");
    same("set -o posix; mkdir x; mkdir file; type mkdir; bash --posix -c 'mkdir y; type mkdir'");
    same("bash -r -c 'mkdir x; echo $?'; bash -p -c 'mkdir y; echo $?'; bash --norc -c 'rm file'");
}

#[test]
fn what_succeeds_in_silence_starts_no_process() {
    let script = "mkdir -p a/b c; dirname a/b; basename a/b; touch a/f; chmod 600 a/f; mv a/f c; \
                  ln -s f c/l; readlink c/l; realpath c/l; rm c/l; cat file; rmdir a/b a; rm -f c/f no; \
                  cp file c; ls -a c; date +%s";
    let scene = Script::new(script);
    let starts = scene.starts();
    assert_eq!(starts.len(), 1, "{starts:?}");
    // What is the program's to do is started without a copy of bash.
    let scene = Script::new("mkdir file; cmp file file; rm nothing");
    let (_, seen) = scene.traced();
    assert_eq!(seen.matches("CLONE_VFORK").count(), 3, "{seen}");
    assert_eq!(seen.matches("execve(").count(), 4, "{seen}");
}

/// What bash reads first is read as the script's own words would be: functions of the user's come to nothing
/// there.
#[test]
fn functions_that_are_inherited_are_not_called_at_the_start() {
    same("enable() { echo mine \"$@\"; }; export -f enable; bash -c 'mkdir x; ls'; enable -n echo");
}

#[test]
fn ten_thousand_of_them_leave_nothing_behind() {
    let script = "for i in {1..5000}; do mkdir d; rmdir d; done; for i in {1..300}; do mkdir file; \
                  done 2>&1 | sort | uniq -c | wc -l; ls; ls /proc/self/fd | wc -l; jobs";
    same(script);
}
