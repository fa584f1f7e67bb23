//! `becalm modules answer` for Lmod: what it answers is Lmod's own answer, from the second time on
//! without Lmod.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::BECALM;
use crate::scene::lmod::{LMOD_6_6, LMODS, LmodScene, said};

const QUESTIONS: &[&[&str]] = &[
    &["bash", "avail"],
    &["bash", "-t", "avail", "gcc"],
    &["bash", "spider"],
    &["bash", "spider", "gcc"],
    &["bash", "spider", "openmpi/4"],
    &["bash", "keyword", "compiles"],
    &["bash", "whatis", "gcc"],
    &["bash", "show", "gcc/12"],
    &["bash", "help", "gcc"],
    &["bash", "list"],
    &["bash", "is-loaded", "gcc"],
    &["bash", "is-avail", "gcc"],
    &["bash", "overview"],
    &["bash", "savelist"],
    &["bash", "load", "gcc", "uses"],
    &["bash", "swap", "gcc", "intel"],
    &["bash", "use", "/usr"],
    &["bash", "purge"],
    &["bash", "restore", "nosuch"],
    &["bash", "-q", "-t", "--no_redirect", "avail"],
    &["zsh", "load", "intel"],
    &["fish", "load", "gcc/12"],
    &["csh", "load", "intel"],
    &["python", "load", "gcc"],
];

fn everywhere(test: impl Fn(&mut LmodScene)) {
    LMODS.into_iter().for_each(|lmod| test(&mut LmodScene::new(lmod)));
}

fn equals_lmod_and_is_remembered(scene: &LmodScene, questions: &[&[&str]]) {
    for words in questions {
        let real = scene.real(words);
        let first = scene.remember(words);
        let name = scene.lmod.name;
        assert_eq!(first, real, "{name}: {words:?}");
        assert_eq!(scene.asked(words), real, "{name}: {words:?} from memory");
    }
}

#[test]
fn what_is_asked_is_answered_as_lmod_does_and_remembered() {
    everywhere(|scene| {
        equals_lmod_and_is_remembered(scene, QUESTIONS);
        scene.evaluate(&["load", "gcc", "tcl"]);
        equals_lmod_and_is_remembered(
            scene,
            &[
                &["bash", "list"],
                &["bash", "avail"],
                &["bash", "load", "openmpi"],
                &["bash", "unload", "gcc"],
                &["bash", "swap", "gcc", "intel"],
                &["bash", "show", "tcl"],
                &["bash", "purge"],
            ],
        );
    });
}

/// Has Lmod make the cache of this modulepath that a site has, compiled, and read it from then on.
fn make_site_cache(scene: &mut LmodScene) {
    let cache = scene.at("spider-cache");
    fs::create_dir_all(&cache).unwrap();
    let make = scene.lmod.script().with_file_name("update_lmod_system_cache_files");
    let mut make = scene.command(make);
    make.arg("-d").arg(&cache).arg("-t").arg(cache.join("stamp")).arg(scene.at("core"));
    assert!(make.status().unwrap().success());
    let names = fs::read_dir(&cache).unwrap().flatten().map(|entry| entry.file_name());
    assert!(names.into_iter().any(|name| name.to_string_lossy().contains("luac")));
    let at = cache.display();
    let text = format!("scDescriptT = {{ {{ dir = \"{at}\", timestamp = \"{at}/stamp\" }} }}\n");
    let rc = scene.file("lmodrc.lua", &text).to_str().unwrap().to_owned();
    scene.environment.insert("LMOD_RC".into(), rc);
}

#[test]
fn what_a_sites_compiled_cache_says_is_remembered_until_it_is_made_again() {
    everywhere(|scene| {
        scene.environment.insert("LMOD_CACHED_LOADS".into(), "yes".into());
        make_site_cache(scene);
        let questions: &[&[&str]] = &[
            &["bash", "spider"],
            &["bash", "spider", "gcc"],
            &["bash", "avail"],
            &["bash", "keyword", "compiles"],
            &["bash", "load", "gcc"],
        ];
        equals_lmod_and_is_remembered(scene, questions);
        is_never_stale(scene, &["bash", "spider"], |scene| {
            scene.file("core/new/1.lua", "");
            make_site_cache(scene);
        });
        assert!(scene.asked(&["bash", "spider"]).2.contains("new: new/1"));
    });
}

#[test]
fn lmod_6_6_is_remembered_where_it_starts_no_tclsh() {
    let scene = LmodScene::new(LMOD_6_6);
    let words: &[&[&str]] =
        &[&["bash", "load", "gcc"], &["bash", "avail"], &["bash", "spider", "gcc"]];
    equals_lmod_and_is_remembered(&scene, words);
    scene.file("core/tcl/1.0", "#%Module\nsetenv TCL 1\n");
    assert_eq!(scene.asked(&["bash", "load", "tcl"]), scene.real(&["bash", "load", "tcl"]));
    assert!(!scene.is_remembered(&["bash", "load", "tcl"]));
}

#[test]
fn what_is_remembered_starts_nothing() {
    everywhere(|scene| {
        let words = ["bash", "load", "gcc"];
        scene.remember(&words);
        let log = scene.at("strace");
        let mut strace = scene.command("/usr/bin/strace");
        strace.args(["-f", "-qq", "-e", "trace=process", "-o"]).arg(&log);
        strace.args([BECALM, "modules", "answer", "--tool"]).arg(scene.lmod.script()).args(words);
        assert!(strace.output().unwrap().status.success());
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(log.matches("execve(").count(), 1, "{log}");
        assert!(!log.contains("clone") && !log.contains("fork"), "{log}");
    });
}

/// Asks, changes something, and asks again: both times what Lmod says.
#[track_caller]
fn is_never_stale(scene: &mut LmodScene, words: &[&str], change: impl FnOnce(&mut LmodScene)) {
    scene.remember(words);
    change(scene);
    let name = scene.lmod.name;
    assert_eq!(scene.asked(words), scene.real(words), "{name}: {words:?}");
}

#[test]
fn what_changes_in_the_tree_changes_the_answer() {
    everywhere(|scene| {
        let (load, avail): (&[&str], &[&str]) = (&["bash", "load", "gcc"], &["bash", "avail"]);
        is_never_stale(scene, load, |scene| {
            scene.file("core/gcc/13.lua", "setenv(\"GCC\", \"other\")\n");
        });
        is_never_stale(scene, load, |scene| {
            scene.file("core/gcc/14.lua", "setenv(\"GCC\", \"14\")\n");
        });
        is_never_stale(scene, avail, |scene| {
            scene.file("core/new/1.lua", "");
        });
        is_never_stale(scene, avail, |scene| {
            fs::remove_file(scene.at("core/gcc/14.lua")).unwrap();
        });
        is_never_stale(scene, avail, |scene| {
            fs::rename(scene.at("core/new/1.lua"), scene.at("core/new/2.lua")).unwrap();
        });
        is_never_stale(scene, avail, |scene| {
            scene.file("core/gcc/.modulerc.lua", "module_version(\"gcc/12\", \"old\")\n");
        });
        is_never_stale(scene, &["bash", "load", "tcl"], |scene| {
            scene.file("core/tcl/.version", "#%Module\nset ModulesVersion 2.0\n");
        });
        is_never_stale(scene, load, |scene| {
            std::os::unix::fs::symlink("12.lua", scene.at("core/gcc/default")).unwrap();
        });
        is_never_stale(scene, load, |scene| {
            fs::remove_file(scene.at("core/gcc/default")).unwrap();
            std::os::unix::fs::symlink("13.lua", scene.at("core/gcc/default")).unwrap();
        });
        is_never_stale(scene, avail, |scene| {
            let closed = fs::Permissions::from_mode(0o700);
            fs::set_permissions(scene.at("core/gcc/12.lua"), closed).unwrap();
        });
    });
}

#[test]
fn what_changes_around_changes_the_answer() {
    everywhere(|scene| {
        let load: &[&str] = &["bash", "load", "uses", "tcl"];
        is_never_stale(scene, load, |scene| {
            scene.environment.insert("ASKED".into(), "one".into());
        });
        is_never_stale(scene, load, |scene| {
            scene.environment.insert("ASKED".into(), "two".into());
        });
        is_never_stale(scene, &["bash", "avail"], |scene| {
            scene.environment.insert("LMOD_TERM_WIDTH".into(), "40".into());
        });
        is_never_stale(scene, &["bash", "avail"], |scene| {
            let rc = scene.file("rc.lua", "hide_version(\"gcc/12\")\n");
            scene.environment.insert("LMOD_MODULERCFILE".into(), rc.to_str().unwrap().into());
        });
        is_never_stale(scene, &["bash", "avail"], |scene| {
            scene.file("rc.lua", "hide_version(\"gcc/13\")\n");
        });
        is_never_stale(scene, &["bash", "list"], |scene| scene.evaluate(&["load", "intel"]));
        is_never_stale(scene, &["bash", "restore", "mine"], |scene| {
            assert_eq!(scene.asked(&["bash", "save", "mine"]).0, Some(0));
        });
        is_never_stale(scene, &["bash", "savelist"], |scene| {
            assert_eq!(scene.asked(&["bash", "save", "more"]).0, Some(0));
        });
        is_never_stale(scene, &["bash", "use", "here"], |scene| {
            fs::create_dir(scene.at("here")).unwrap();
        });
        is_never_stale(scene, &["bash", "avail"], |scene| {
            let more = format!("{}:{}", scene.at("gcc13").display(), scene.at("core").display());
            scene.environment.insert("MODULEPATH".into(), more);
        });
        // What no one reads decides nothing.
        scene.remember(load);
        scene.environment.insert("SHLVL".into(), "7".into());
        scene.environment.insert("SSH_TTY".into(), "/dev/pts/9".into());
        assert!(scene.is_remembered(load), "{:?}", scene.why(load));
    });
}

#[test]
fn what_modulefiles_ask_a_known_program_is_remembered_with_what_that_looked_at() {
    everywhere(|scene| {
        let link = scene.at("link");
        std::os::unix::fs::symlink("first", &link).unwrap();
        let asks =
            |name: &str| format!("setenv(\"{name}\", capture(\"readlink {}\"))\n", link.display());
        let more = "setenv(\"MACHINE\", subprocess(\"/bin/uname -m 2>/dev/null\"))\n";
        scene.file("core/lua/1.lua", &(asks("LINK") + more));
        let tcl = format!("#%Module\nsetenv LINK [exec readlink {}]\n", link.display());
        scene.file("core/intcl/1.0", &(tcl + "setenv HOST [exec hostname]\n"));
        for module in ["lua", "intcl"] {
            let words: &[&str] = &["bash", "load", module];
            equals_lmod_and_is_remembered(scene, &[words]);
            is_never_stale(scene, words, |_| {
                fs::remove_file(&link).unwrap();
                std::os::unix::fs::symlink(module, &link).unwrap();
            });
        }
        // Lmod evaluates both.
        equals_lmod_and_is_remembered(scene, &[&["bash", "spider", "lua"]]);
        // Another program of that name is another program.
        let own = scene.at("own");
        fs::create_dir(&own).unwrap();
        let program = own.join("readlink");
        testkit::write_program(&program, "#!/bin/sh\necho other\n");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", own.display());
        scene.environment.insert("PATH".into(), path);
        crate::answer::settle();
        for module in ["lua", "intcl"] {
            let words = ["bash", "load", module];
            assert_eq!(scene.asked(&words), scene.real(&words));
            assert_eq!(scene.asked(&words), scene.real(&words));
            let (_, why, _) = scene.why(&words);
            assert!(why.starts_with("never remembered: it starts /usr/bin/dash"), "{why}");
        }
    });
}

/// dash reads a directory of PATH that ends with `%func` as files that define functions.
#[test]
fn functions_that_the_shell_finds_over_path_are_the_shells_to_call() {
    everywhere(|scene| {
        scene.file("core/asks/1.lua", "setenv(\"MACHINE\", capture(\"uname -m\"))\n");
        scene.file("functions/uname", "uname() { echo function; }\n");
        let path = format!("{}%func:/usr/bin:/bin", scene.at("functions").display());
        scene.environment.insert("PATH".into(), path);
        let words = ["bash", "load", "asks"];
        let real = scene.real(&words);
        assert!(real.1.contains("function"), "{real:?}");
        assert_eq!([scene.asked(&words), scene.asked(&words)], [real.clone(), real]);
    });
}

/// Lmod starts `stty` for the width of a terminal, in an environment that modulefiles have changed.
#[test]
fn what_the_loader_complains_of_in_what_lmod_starts_is_shown_each_time() {
    everywhere(|scene| {
        scene.file("core/audits/1.lua", "setenv(\"LD_AUDIT\", \"/nosuch.so\")\n");
        let words = ["bash", "load", "audits"];
        let real = scene.real(&words);
        assert_eq!([scene.asked(&words), scene.asked(&words)], [real.clone(), real]);
    });
}

#[test]
fn why_is_said_of_the_environment_that_asks() {
    everywhere(|scene| {
        let words = ["bash", "load", "gcc"];
        scene.remember(&words);
        scene.file("other/gcc/1.lua", "setenv(\"THEN\", tostring(os.time()))\n");
        crate::answer::settle();
        let other = scene.at("other").to_str().unwrap().to_owned();
        let core = scene.environment.insert("MODULEPATH".into(), other).unwrap();
        scene.asked(&words);
        assert!(!scene.is_remembered(&words), "{:?}", scene.why(&words));
        scene.environment.insert("MODULEPATH".into(), core);
        assert!(scene.is_remembered(&words), "{:?}", scene.why(&words));
    });
}

#[test]
fn what_cannot_be_given_again_is_left_to_lmod_each_time() {
    everywhere(|scene| {
        scene.file("odd/clock/1.lua", "setenv(\"THEN\", tostring(os.time()))\n");
        scene.file("odd/cpu/1.lua", "setenv(\"CPU\", tostring(os.clock() > 0))\n");
        scene.file("odd/random/1.lua", "math.random()\n");
        scene.file("odd/program/1.lua", "setenv(\"SAID\", capture(\"echo hello\"))\n");
        scene.file("odd/tclclock/1", "#%Module\nsetenv THEN [clock seconds]\n");
        scene.file("odd/tclprogram/1", "#%Module\nsetenv SAID [exec echo hello]\n");
        scene.file("odd/posix/1.lua", "require(\"posix\").gettimeofday()\n");
        scene.file("odd/error/1.lua", "local _, e = pcall(os.getenv)\nsetenv(\"E\", e)\n");
        let odd = scene.at("odd").to_str().unwrap().to_owned();
        scene.environment.insert("MODULEPATH".into(), odd);
        std::thread::sleep(Duration::from_secs(3));
        for (module, why) in [
            ("clock", "the clock"),
            ("cpu", "the clock"),
            ("program", "it starts"),
            ("tclclock", "the clock"),
            ("tclprogram", "it starts a program"),
            ("posix", "the clock"),
            ("error", "in a way that fails"),
        ] {
            let words = ["bash", "load", module];
            let (status, ..) = scene.asked(&words);
            assert_eq!(status, scene.real(&words).0, "{module}");
            let (status, text, _) = scene.why(&words);
            assert_eq!(status, Some(1), "{module}: {text}");
            assert!(text.contains(why), "{module}: {text}");
        }
        let timer = ["bash", "--timer", "list"];
        assert_eq!(scene.asked(&timer).0, Some(0));
        assert!(!scene.is_remembered(&timer));
        // Without a loaded module nothing is saved.
        let core = scene.at("core").to_str().unwrap().to_owned();
        scene.environment.insert("MODULEPATH".into(), core);
        scene.evaluate(&["load", "intel"]);
        let save = ["bash", "save", "mine"];
        assert_eq!(scene.asked(&save).0, Some(0));
        assert!(!scene.is_remembered(&save));
        assert_eq!(scene.asked(&save).0, Some(0));
        assert!(scene.real(&["bash", "-t", "savelist"]).2.contains("mine"));
    });
}

#[test]
fn a_modulefile_in_tcl_sees_the_interpreter_that_it_sees_without_becalm() {
    everywhere(|scene| {
        for (name, asked) in [
            ("program", "info nameofexecutable"),
            ("words", "list [info exists ::argv0] [info script] $::auto_path"),
            ("commands", "lsort [info commands ::*]"),
            ("globals", "lsort [info globals]"),
            ("packages", "list [package names] [info library] [interp slaves] [info loaded]"),
            ("error", "catch {error mine}; set ::errorInfo"),
            (
                "read",
                "file size [info library]/init.tcl; set f [open [info library]/init.tcl]; string length [read $f]",
            ),
            ("frame", "list [info level] [info frame] [namespace current]"),
        ] {
            scene.file(&format!("tcl/{name}/1"), &format!("#%Module\nsetenv TOLD [{asked}]\n"));
        }
        let (tcl, core) = (scene.at("tcl"), scene.at("core"));
        let both = format!("{}:{}", tcl.display(), core.display());
        scene.environment.insert("MODULEPATH".into(), both);
        for name in
            ["program", "words", "commands", "globals", "packages", "error", "read", "frame"]
        {
            equals_lmod_and_is_remembered(scene, &[&["bash", "load", name]]);
        }
    });
}

#[test]
fn a_variable_that_was_not_set_counts_however_a_modulefile_in_tcl_asks_for_it() {
    let reads = [
        "setenv AT [info exists env(SITE)]",
        "array get env HOME; setenv AT [info exists env(SITE)]",
        "array exists env; setenv AT [info exists env(SITE)]",
        "array names env HOME; array size env; setenv AT [catch {set env(SITE)}]",
        "setenv AT [catch {unset env(SITE)}]",
        "setenv AT [llength [array names env SITE]]",
    ];
    everywhere(|scene| {
        for (at, read) in reads.iter().enumerate() {
            scene.file(&format!("reads/m{at}/1"), &format!("#%Module\n{read}\n"));
        }
        let path = scene.at("reads").to_str().unwrap().to_owned();
        scene.environment.insert("MODULEPATH".into(), path);
        std::thread::sleep(Duration::from_secs(3));
        for at in 0..reads.len() {
            let module = format!("m{at}");
            let words = ["bash", "load", &module];
            is_never_stale(scene, &words, |scene| {
                scene.environment.insert("SITE".into(), "north".into());
            });
            scene.environment.remove("SITE");
        }
    });
}

/// What Lua tells of a file that no change of it tells.
const LAST_READ: &[&str] = &[
    "require('lfs').attributes(FILE).access",
    "require('lfs').attributes(FILE, 'access')",
    "require('lfs').symlinkattributes(FILE).blocks",
    "require('posix').stat(FILE).atime",
    "require('posix').stat(FILE, 'mode', 'atime')",
    "require('posix').lstat(FILE).st_atime",
    "require('posix.sys.stat').stat(FILE).st_atime",
    "require('posix.sys.stat').lstat(FILE).st_blocks",
    "(function() local t = require('posix').stat(FILE) return tostring(next(t, (next(t))) ~= nil) end)()",
    "(function() local n = 0 for _ in pairs(require('lfs').attributes(FILE)) do n = n + 1 end return n end)()",
];

#[test]
fn when_a_file_was_last_read_is_asked_each_time() {
    everywhere(|scene| {
        for (at, asked) in LAST_READ.iter().enumerate() {
            let asked = asked.replace("FILE", "'/etc/passwd'");
            scene.file(&format!("read/m{at}/1.lua"), &format!("setenv(\"TOLD\", {asked})\n"));
        }
        let told = "require('posix').stat('/etc/passwd')";
        let (lfs, some) = ("require('lfs').attributes('/etc')", "tostring(next");
        let known = format!("{told}.mode .. {told}.mtime .. {lfs}.mode .. {some}({lfs}) ~= nil)");
        scene.file("read/known/1.lua", &format!("setenv(\"TOLD\", {known})\n"));
        let path = scene.at("read").to_str().unwrap().to_owned();
        scene.environment.insert("MODULEPATH".into(), path);
        std::thread::sleep(Duration::from_secs(3));
        equals_lmod_and_is_remembered(scene, &[&["bash", "load", "known"]]);
        for (at, asked) in LAST_READ.iter().enumerate() {
            let module = format!("m{at}");
            let words = ["bash", "load", &module];
            assert_eq!(scene.asked(&words), scene.real(&words), "{asked}");
            let why = scene.why(&words).1;
            assert!(why.contains("when a file was last read"), "{asked}: {why}");
        }
    });
}

#[test]
fn other_limits_are_another_answer() {
    everywhere(|scene| {
        let core = "require('posix').getrlimit('core')";
        let both = "select(2, require('posix').getrlimit('nofile'))";
        scene.file("core/limits/1.lua", &format!("setenv(\"L\", {core} .. ' ' .. {both})\n"));
        let pages = "require('posix.unistd').sysconf(86)";
        scene.file("core/pages/1.lua", &format!("setenv(\"PAGES\", {pages})\n"));
        scene.remember(&["bash", "load", "limits"]);
        let limited = |set: &str, command: &std::process::Command| {
            let mut shell = scene.command("/bin/sh");
            shell.args(["-c", &format!("ulimit {set}; exec \"$@\""), "sh"]);
            shell.arg(command.get_program()).args(command.get_args());
            said(&shell.output().unwrap())
        };
        let words = ["bash", "load", "limits"];
        let mut real = scene.command(scene.lmod.script());
        real.args(words);
        for set in ["-c 0", "-c 8", "-Hn 1000", "-n 1000"] {
            assert_eq!(limited(set, &scene.answer(&[], &words)), limited(set, &real), "{set}");
        }
        scene.asked(&["bash", "load", "pages"]);
        let said = scene.why(&["bash", "load", "pages"]).1;
        assert!(said.contains("it asks for limits"), "{said}");
    });
}

#[test]
fn an_answer_that_a_files_age_decides_holds_until_it_is_too_old() {
    everywhere(|scene| {
        let words = ["bash", "avail"];
        scene.remember(&words);
        // A day from then on, Lmod would take a cache of that time for too old.
        let file = scene.file("core/gcc/12.lua", "setenv(\"GCC\", \"12\")\n");
        let day = Duration::from_secs(86_400);
        let soon = SystemTime::now() - day + Duration::from_secs(4);
        fs::File::options().write(true).open(file).unwrap().set_modified(soon).unwrap();
        scene.asked(&words);
        std::thread::sleep(Duration::from_secs(6));
        assert!(!scene.is_remembered(&words), "{:?}", scene.why(&words));
        assert_eq!(scene.remember(&words), scene.real(&words));
    });
}

#[test]
fn errors_of_modulefiles_and_of_lmod_itself_are_told_as_lmod_tells_them() {
    everywhere(|scene| {
        scene.file("bad/getenv/1.lua", "os.getenv(nil)\n");
        scene.file("bad/time/1.lua", "os.time({})\n");
        scene.file("bad/popen/1.lua", "io.popen(\"x\", \"bad\")\n");
        scene.file("bad/error/1.lua", "error(\"mine\")\n");
        scene.file("bad/syntax/1.lua", "setenv(\n");
        scene.file("bad/require/1.lua", "require(\"nosuch\")\n");
        scene.file("bad/tcl/1", "#%Module\nset x $nosuch\n");
        scene.file("bad/close/1", "#%Module\nfoo {\n");
        scene.file("badrc/x/1", "#%Module\n");
        scene.file("badrc/x/.version", "#%Module\nset ModulesVersion [bad\n");
        let path = |scene: &LmodScene, name: &str| scene.at(name).to_str().unwrap().to_owned();
        let bad = path(scene, "bad");
        scene.environment.insert("MODULEPATH".into(), bad);
        for module in ["getenv", "time", "popen", "error", "syntax", "require", "tcl", "close"] {
            let words = ["bash", "load", module];
            assert_eq!(scene.asked(&words), scene.real(&words), "{}: {module}", scene.lmod.name);
        }
        let bad = path(scene, "badrc");
        scene.environment.insert("MODULEPATH".into(), bad);
        assert_eq!(scene.asked(&["bash", "load", "x"]), scene.real(&["bash", "load", "x"]));
        // A traceback of Lua's own.
        let rc = scene.file("lmodrc.lua", "scDescriptT = nil .. \"x\"\n");
        scene.environment.insert("LMOD_RC".into(), rc.to_str().unwrap().into());
        let (_, _, text) = scene.real(&["bash", "avail"]);
        assert!(text.contains("stack traceback"), "{text}");
        assert_eq!(scene.asked(&["bash", "avail"]).2, text);
    });
}
