//! `becalm modules answer`: what Modules itself answers, byte for byte, and from memory as soon as
//! that is certain to be the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::BECALM;
use crate::scene::{Modulepath, Modules, all};

/// From now on, the times of what is there tell of each change that is still to come.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(3_100));
}

/// Does it with [`all`], all at once: who waits for [`settle`] leaves the processor to others.
pub fn with_each(test: impl Fn(&Modules) + Sync) {
    let all = all();
    let test = &test;
    std::thread::scope(|scope| {
        for modules in &all {
            scope.spawn(move || test(modules));
        }
    });
}

/// What somebody sees of an answer.
pub fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A question, with variables of the environment.
pub struct Asking<'a> {
    pub scene: &'a Modulepath,
    pub modules: &'a Modules,
    pub variables: Vec<(&'a str, &'a str)>,
    /// The working directory.
    pub directory: &'a Path,
}

impl<'a> Asking<'a> {
    pub fn new(scene: &'a Modulepath, modules: &'a Modules) -> Asking<'a> {
        Asking { scene, modules, variables: Vec::new(), directory: &scene.modulepath }
    }

    pub fn from(self, directory: &'a Path) -> Asking<'a> {
        Asking { directory, ..self }
    }

    pub fn with(mut self, name: &'a str, value: &'a str) -> Asking<'a> {
        self.variables.push((name, value));
        self
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.scene.command(program, self.modules);
        command.envs(self.variables.iter().copied()).stdin(Stdio::null());
        command.current_dir(self.directory);
        command
    }

    /// Modules' own command.
    pub fn real(&self, words: &[&str]) -> Command {
        let mut command = self.command(self.modules.command.to_str().unwrap());
        command.arg("bash").args(words);
        command
    }

    /// becalm in its place.
    pub fn becalm(&self, words: &[&str]) -> Command {
        let mut command = self.command(BECALM);
        command.args(["modules", "answer", "bash"]).args(words);
        command
    }

    /// What becalm says of the answer that it has.
    pub fn why(&self, words: &[&str]) -> String {
        let mut command = self.command(BECALM);
        command.args(["modules", "answer", "--why", "bash"]).args(words);
        seen(&command.output().unwrap()).1
    }

    /// Asked by both, it is the same.
    #[track_caller]
    pub fn agree(&self, words: &[&str]) {
        let real = seen(&self.real(words).output().unwrap());
        let answer = seen(&self.becalm(words).output().unwrap());
        assert_eq!(answer, real, "{words:?} of {}", self.modules.command.display());
    }

    /// Asked again, it is given without Tcl, and the same.
    #[track_caller]
    pub fn is_remembered(&self, words: &[&str]) {
        let log = self.scene.at("strace");
        let inner = self.becalm(words);
        // By its path: the search path may lead elsewhere.
        let mut strace = self.command("/usr/bin/strace");
        strace.args(["-f", "-qq", "-e", "trace=execve", "-o"]).arg(&log).arg("--");
        strace.arg(inner.get_program()).args(inner.get_args());
        let answer = seen(&strace.output().unwrap());
        let calls = fs::read_to_string(log).unwrap();
        let is_tcl = calls.contains("tclsh");
        assert!(!is_tcl, "{words:?} of {}: {}", self.modules.command.display(), self.why(words));
        assert_eq!(answer, seen(&self.real(words).output().unwrap()), "{words:?}");
    }
}

/// A tree with what modulefiles do.
pub fn tree() -> Modulepath {
    let scene = Modulepath::new();
    scene.file("gcc/12", "#%Module\nmodule-whatis {The compiler}\nsetenv GCC twelve\n");
    scene.file(
        "mpi/1",
        "#%Module\nproc ModulesHelp {} { puts stderr {Help of mpi} }\nprereq gcc\n\
         prepend-path PATH /opt/mpi/bin\nset-alias mpi {echo mpi}\n",
    );
    scene.file("mpi/2", "#%Module\nconflict gcc\nsetenv MPI $env(HOME)\n");
    scene.file("ends/1", "#%Module\nputs stderr {on stderr}\nputs stdout {echo out;}\nbreak\n");
    scene.file("fails/1", "#%Module\nerror {it fails}\n");
    scene.file("tests/1", "#%Module\nproc ModulesTest {} { return 1 }\n");
    scene.file(".modulerc", "#%Module\nmodule-alias compiler gcc/12\nmodule-version mpi/1 old\n");
    scene
}

/// Questions that can be answered again.
pub const QUESTIONS: [&[&str]; 34] = [
    &["load", "gcc"],
    &["load", "gcc/12", "mpi/1"],
    &["load", "mpi/1"],
    &["load", "mpi/2"],
    &["load", "compiler"],
    &["load", "ends"],
    &["load", "fails"],
    &["load", "nosuch"],
    &["unload", "gcc"],
    &["swap", "gcc", "gcc/12"],
    &["purge"],
    &["list"],
    &["list", "-t"],
    &["whatis"],
    &["whatis", "gcc"],
    &["show", "mpi/1"],
    &["avail"],
    &["avail", "-t", "gcc"],
    &["keyword", "compiler"],
    &["apropos", "compiler"],
    &["is-avail", "gcc"],
    &["is-loaded", "gcc"],
    &["is-used"],
    &["savelist"],
    &["restore", "nosuch"],
    &["path", "gcc"],
    &["paths", "gcc"],
    &["test", "tests/1"],
    &["help", "mpi/1"],
    &["help"],
    &["use", "/usr/share/modules/modulefiles"],
    &["unuse", "/usr/share/modules/modulefiles"],
    &["nosuchverb"],
    &["--version"],
];

#[test]
fn every_question_is_answered_as_by_modules_and_the_second_time_from_memory() {
    for modules in &all() {
        let scene = tree();
        settle();
        for asking in [
            Asking::new(&scene, modules),
            Asking::new(&scene, modules)
                .with("LOADEDMODULES", "gcc/13")
                .with("_LMFILES_", scene.modulepath.join("gcc/13").to_str().unwrap()),
        ] {
            for words in QUESTIONS {
                asking.agree(words);
                asking.is_remembered(words);
            }
        }
    }
}

#[test]
fn what_is_otherwise_each_time_is_not_remembered_and_it_is_said_why() {
    let cases = [
        ("clock seconds", "it reads the clock"),
        ("set now [clock seconds]", "it reads the clock"),
        ("::tcl::clock::milliseconds", "it reads the clock"),
        ("clock scan tomorrow", "it reads the clock"),
        ("module-hide --before 2020-01-01 gcc", ""),
        ("time {set a 1}", "it reads the clock"),
        ("expr {rand()}", "it draws random numbers"),
        ("pid", "it calls getpid"),
        ("exec true", "it starts a program"),
        ("exec date", "it starts a program"),
        ("exec sleep 0 &", "it starts a program"),
        ("exec uname | cat", "it starts a program"),
        ("exec uname >@stderr", "it starts a program"),
        ("catch {exec uname --nosuch}", "it writes to a file"),
        // Its number is in errorCode.
        ("catch {exec readlink /nosuch}", "a program that it starts fails"),
        ("setenv LD_TRACE_LOADED_OBJECTS 1; catch {exec uname -m}", "it starts a program"),
        // What is made after it is no file that Tcl makes for it.
        (
            "exec -ignorestderr uname; set new $env(HOME)/new; close [open $new {WRONLY CREAT EXCL}]; file delete $new",
            "it opens",
        ),
        ("close [open |true]", "it starts a program"),
        ("close [open {|sh -c true}]", "it starts a program"),
        ("gets stdin", "it reads its standard input"),
        ("close [open [file join $env(HOME) written] w]", "it opens a file to write it"),
        // It looks at the directory above, too, which has changed then.
        ("file mkdir $env(HOME)/made; file delete $env(HOME)/made", ""),
        ("set f [open /proc/self/status]; gets $f; close $f", "it looks into /proc"),
        ("set f [open /dev/zero]; close $f", "/dev/zero is no file"),
        ("set f [open /etc/../dev/null]; close $f", "/etc/../dev/null is no file"),
        ("upvar 0 env(HOME) home; set home", "it links to a variable"),
        ("trace info variable env", "it looks at Tcl's traces"),
        ("after 1", "it"),
        ("catch {socket localhost 1}", "it"),
        ("::tcl::unsupported::timerate {set a 1} 1", "it reads the clock"),
        ("file atime /etc/passwd", "it asks when a file was last read"),
        ("file stat /etc/passwd about; set about(atime)", "it asks when a file was last read"),
        ("namespace children ::tcl", "it looks at Tcl's traces"),
        ("interp create x; x eval {clock seconds}", "it makes an interpreter"),
        ("interp cr x; x eval {set ::env(HOME)}", "it makes an interpreter"),
        ("interp create -safe x; x eval {set a 5}", "it makes an interpreter"),
        ("interp create x; x eval {info exists env(HOME)}", "it makes an interpreter"),
        ("interp create x; interp limit x time -seconds [expr {1 << 40}]", "it makes"),
    ];
    with_each(|modules| {
        let scene = tree();
        for (at, (line, _)) in cases.iter().enumerate() {
            scene.file(&format!("case/{at}"), &format!("#%Module\n{line}\nsetenv CASE {at}\n"));
        }
        settle();
        for (at, (line, reason)) in cases.iter().enumerate() {
            let asking = Asking::new(&scene, modules);
            let module = format!("case/{at}");
            asking.agree(&["load", &module]);
            asking.agree(&["load", &module]);
            let why = asking.why(&["load", &module]);
            let expected = format!("never remembered: {reason}");
            assert!(reason.is_empty() || why.starts_with(&expected), "{line}: {why}");
        }
        let asking = Asking::new(&scene, modules);
        asking.agree(&["save", "mine"]);
        asking.agree(&["save", "mine"]);
        assert!(asking.why(&["save", "mine"]).starts_with("never remembered"));
    });
}

#[test]
fn variables_count_where_they_were_read_and_only_there() {
    with_each(|modules| {
        let scene = tree();
        scene.file("reads/1", "#%Module\nif {[info exists env(SITE)]} { setenv AT $env(SITE) }\n");
        scene.file("unsets/1", "#%Module\nsetenv AT [catch {unset ::env(SITE)}]\n");
        settle();
        for asking in [Asking::new(&scene, modules), Asking::new(&scene, modules).with("SITE", "1")]
        {
            asking.agree(&["load", "unsets/1"]);
            asking.agree(&["load", "unsets/1"]);
        }
        let words = ["load", "reads/1"];
        let plain = Asking::new(&scene, modules);
        plain.agree(&words);
        plain.is_remembered(&words);
        Asking::new(&scene, modules).with("OTHER", "1").with("SHLVL", "7").is_remembered(&words);
        for value in ["north", "south", ""] {
            let asking = Asking::new(&scene, modules).with("SITE", value);
            asking.agree(&words);
            asking.is_remembered(&words);
        }
        // More is asked for since: once more it is asked without.
        plain.agree(&words);
        plain.is_remembered(&words);
    });
}

/// Modules asks for the whole environment before; and who appends asks for what was there.
#[test]
fn a_variable_that_was_not_set_counts_however_it_was_asked_for() {
    let reads = [
        "setenv AT [getenv SITE none]",
        "if {[getenv SITE] ne {}} { setenv AT some }",
        "setenv AT [getenv --return-value SITE none]",
        "prepend-path AT [getenv SITE /none]",
        "setenv AT [append ::env(SITE) x]",
        "setenv AT [lappend ::env(SITE) x]",
        "apply {{} { global env; append env(SITE) y }}; setenv AT $env(SITE)",
        "setenv AT [string length [append ::env(SITE) {}]]",
        "array get env HOME; setenv AT [getenv SITE none]",
        "array exists env; setenv AT [info exists env(SITE)]",
        "array size env; array set env {MORE 1}; setenv AT [info exists env(SITE)]",
        "array names env HOME; unset env(HOME); setenv AT [info exists env(SITE)]",
        "setenv AT [llength [array names env SITE]][info exists env(SITE)]",
        "set AT [interp create]; setenv AT [interp eval $AT {info exists ::env(SITE)}]",
    ];
    with_each(|modules| {
        let scene = tree();
        for (at, read) in reads.iter().enumerate() {
            scene.file(&format!("reads/{at}"), &format!("#%Module\n{read}\n"));
        }
        settle();
        for at in 0..reads.len() {
            let module = format!("reads/{at}");
            let words = ["load", &module];
            let plain = Asking::new(&scene, modules);
            plain.agree(&words);
            for value in ["north", "south", ""] {
                Asking::new(&scene, modules).with("SITE", value).agree(&words);
                Asking::new(&scene, modules).with("SITE", value).agree(&words);
            }
            plain.agree(&words);
        }
        // It is no less remembered for that, and says so.
        let words = ["load", "reads/0"];
        let why = Asking::new(&scene, modules).why(&words);
        let file = format!("{}\n", scene.modulepath.join("reads/0").display());
        assert!(why.contains(&file) && why.contains("\n  $SITE\n"), "{why}");
        assert!(!why.contains("$OTHER"), "{why}");
        let who = "\n  the user, groups, rights, umask, limits and blocked signals of who asks\n";
        assert!(why.contains("\n  $LC_*\n") && why.contains(who), "{why}");
        Asking::new(&scene, modules).with("OTHER", "1").is_remembered(&words);
    });
}

#[test]
fn an_answer_goes_where_it_was_asked_from_and_fails_as_modules_does() {
    with_each(|modules| {
        let scene = tree();
        settle();
        let asking = Asking::new(&scene, modules);
        asking.agree(&["load", "gcc"]);
        let into_full = |mut command: Command| {
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            seen(&command.stdout(full).output().unwrap())
        };
        for _ in 0..2 {
            let words = ["load", "gcc"];
            assert_eq!(into_full(asking.becalm(&words)), into_full(asking.real(&words)));
        }
    });
}

#[test]
fn a_working_directory_counts_only_where_a_path_is_relative() {
    with_each(|modules| {
        let scene = tree();
        let elsewhere = scene.at("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        settle();
        let asking = Asking::new(&scene, modules);
        let there = |words: &[&str]| {
            let of =
                |mut command: Command| seen(&command.current_dir(&elsewhere).output().unwrap());
            assert_eq!(of(asking.becalm(words)), of(asking.real(words)), "{words:?}");
        };
        for words in [&["load", "./gcc/12"][..], &["use", "gcc"], &["load", "gcc"]] {
            asking.agree(words);
            asking.is_remembered(words);
            there(words);
            asking.agree(words);
        }
    });
}

#[test]
fn a_store_that_is_damaged_or_not_ones_own_is_as_none() {
    let modules = &all()[0];
    let scene = tree();
    settle();
    let asking = Asking::new(&scene, modules);
    let words = ["load", "gcc"];
    let files = || {
        let entries = fs::read_dir(scene.at("state/becalm/answers")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    asking.agree(&words);
    assert_eq!(files().len(), 2);
    type Damage = fn(&Path);
    let damages: [Damage; 5] = [
        |file| fs::write(file, "").unwrap(),
        |file| {
            let mut bytes = fs::read(file).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(file, bytes).unwrap();
        },
        |file| fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap(),
        |file| {
            fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink("/dev/zero", file).unwrap();
        },
        |file| {
            fs::remove_file(file).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                file,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RWXU,
                0,
            )
            .unwrap();
        },
    ];
    for damage in damages {
        files().iter().for_each(|file| damage(file));
        asking.agree(&words);
        asking.is_remembered(&words);
    }
    fs::remove_dir_all(scene.at("state")).unwrap();
    fs::write(scene.at("state"), "no directory").unwrap();
    asking.agree(&words);
}

#[test]
fn what_is_remembered_is_listed_and_can_be_forgotten() {
    let modules = &all()[0];
    let scene = tree();
    scene.file("clock/1", "#%Module\nclock seconds\n");
    settle();
    let asking = Asking::new(&scene, modules);
    asking.agree(&["load", "gcc"]);
    asking.agree(&["load", "clock"]);
    let listed = |words: &[&str]| {
        let output = scene.becalm(modules, words);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let answer = testkit::answer::parse(listed(&["remembered", "--json"]));
    let commands = answer["commands"].as_array().unwrap();
    let refused = |word: &str| {
        let of = commands.iter().find(|command| command["words"][2] == word).unwrap();
        of["refused"].as_str().map(str::to_owned)
    };
    assert_eq!((refused("gcc"), refused("clock")), (None, Some("it reads the clock".into())));
    let status = scene.becalm(modules, &["status", "--no-run", "--json"]).stdout;
    let status = testkit::answer::parse(status);
    let share = serde_json::json!({ "commands": 2, "remembered": 1, "refused": 1 });
    assert_eq!(status["remembered"], share);
    let said = String::from_utf8(scene.becalm(modules, &["status", "--no-run"]).stdout).unwrap();
    let line = "Of 2 commands that you asked, 1 answered from memory, 1 cannot be repeated";
    assert!(said.contains(line), "{said}");
    listed(&["remembered", "--forget"]);
    assert_eq!(listed(&["remembered"]), b"nothing is remembered\n");
}
