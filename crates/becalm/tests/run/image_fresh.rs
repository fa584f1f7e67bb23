//! `becalm run --image` never runs old code: whatever is edited, added, upgraded, removed or touched,
//! at any depth and in any layout, the run is as it is without the image, or it is refused.

use std::fs::{self, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use testkit::imaged::{As, Imaged, ways};
use testkit::user::scene_for_a_user;
use testkit::{Live, run};

use crate::BECALM;

/// Where packages lie below the packed directory.
const LAYOUTS: [&str; 6] = [
    ".",
    "src",
    "lib/python3.11/site-packages",
    "envs/a/lib/python3.11/site-packages",
    "opt/view/a/b/c/d/e/f/python",
    "my package-1.0/été",
];
/// Where modules lie below those.
const DEPTHS: [&str; 3] = ["", "p", "p/q"];

/// Python modules, of which the trace imported those called `known`.
struct Sources {
    image: Imaged,
    python_path: PathBuf,
}

impl Sources {
    fn new(layout: &str) -> Sources {
        let (scene, _) = scene_for_a_user(&[]);
        let directory = scene.subdirectory("env");
        let python_path = Path::new(&directory).join(layout);
        let image = scene.at("image.sqsh");
        let sources = Sources { image: Imaged { scene, directory, image }, python_path };
        for depth in DEPTHS {
            fs::create_dir_all(sources.python_path.join(depth)).unwrap();
            for name in ["known", "unknown"] {
                fs::write(sources.module(depth, name), code("old", name, depth)).unwrap();
            }
        }
        sources.plain();
        let trace = sources.python(&script(&["known"]));
        // So small that what the trace did not open shares no block with what it did.
        let options = ["image", "build", "--block-size", "4K", "-o", &sources.image.image];
        let mut build = Command::new(BECALM);
        build.args(options).args([&sources.image.directory, "--"]);
        build.arg(trace.get_program()).args(trace.get_args());
        let built = run(build.env("PYTHONPATH", &sources.python_path).current_dir("/"));
        assert_eq!(built.code(), 0, "{}", built.err());
        let copy = run(Command::new("cp").args(["-a", &sources.image.directory, &sources.kept()]));
        assert_eq!(copy.code(), 0);
        sources
    }

    fn kept(&self) -> String {
        self.image.scene.at("kept")
    }

    /// All as it was, with all times, but in other files.
    fn restore(&self) {
        fs::remove_dir_all(&self.image.directory).unwrap();
        let copy = Command::new("cp").args(["-a", &self.kept(), &self.image.directory]).status();
        assert!(copy.unwrap().success());
    }

    fn module(&self, depth: &str, name: &str) -> PathBuf {
        self.python_path.join(depth).join(format!("{name}.py"))
    }

    fn python(&self, script: &str) -> Command {
        let mut python = Command::new("python3");
        python.args(["-c", script]).env("PYTHONPATH", &self.python_path).current_dir("/");
        python
    }

    /// What all modules say without the image.
    fn plain(&self) -> String {
        run(&mut self.python(&script(&["known", "unknown", "added"]))).out()
    }

    /// The same with the image.
    fn imaged(&self, who: As, options: &[&str]) -> testkit::live::Ran {
        let script = script(&["known", "unknown", "added"]);
        let mut command = self.image.run(who, options, &["python3", "-B", "-c", &script]);
        run(command.env("PYTHONPATH", &self.python_path).current_dir("/"))
    }

    /// Holds whatever was changed; whether the run was refused.
    #[track_caller]
    fn is_refused(&self, who: As, what: &str) -> bool {
        let ran = self.imaged(who, &[]);
        if ran.code() == 125 {
            assert!(ran.err().contains("is older than"), "{what}: {}", ran.err());
            return true;
        }
        assert_eq!(ran.out(), self.plain(), "{who:?}, {what}: {}", ran.err());
        false
    }
}

/// A module that is as long whatever it says, and that nothing compresses.
pub fn code(value: &str, name: &str, depth: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let noise = |number: u32| {
        let mut hash = DefaultHasher::new();
        (name, depth, number).hash(&mut hash);
        format!("{:016x}", hash.finish())
    };
    format!("V = '{value}'\n# {}\n", (0..800).map(noise).collect::<String>())
}

/// Imports modules of these names at each depth, and says what each is.
fn script(names: &[&str]) -> String {
    let mut script = "import importlib\n".to_owned();
    for depth in DEPTHS {
        for name in names {
            let module = Path::new(depth).join(name).display().to_string().replace('/', ".");
            script += &format!(
                "try: print('{module}', importlib.import_module('{module}').V)\n\
                 except ImportError: print('no {module}')\n"
            );
        }
    }
    script
}

/// A file with other content, and its old time.
fn write_with_time(path: &Path, content: &str, time: SystemTime) {
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// As a new version that is unpacked with all times kept, and without bytecode.
fn replace_with_times(module: &Path) {
    let directory = module.parent().unwrap();
    let (time, above) = (modified(module), modified(directory));
    let old = fs::read_to_string(module).unwrap();
    let _ = fs::remove_dir_all(directory.join("__pycache__"));
    fs::create_dir(directory.join("__pycache__")).unwrap();
    let other = directory.join("other");
    write_with_time(&other, &old.replace("'old'", "'new'"), time);
    fs::rename(&other, module).unwrap();
    let directory = fs::File::open(directory).unwrap();
    directory.set_times(FileTimes::new().set_modified(above)).unwrap();
    assert_eq!(modified(module), time);
}

type Change = (&'static str, fn(&Path));

/// What is done to a module.
const CHANGES: [Change; 6] = [
    ("edited", |module| {
        let inode = fs::metadata(module).unwrap().ino();
        let old = fs::read_to_string(module).unwrap();
        fs::write(module, old.replace("'old'", "'new'")).unwrap();
        assert_eq!(fs::metadata(module).unwrap().ino(), inode, "in place");
    }),
    ("upgraded", |module| {
        let old = fs::read_to_string(module).unwrap();
        let other = module.with_extension("tmp");
        fs::write(&other, old.replace("'old'", "'new'")).unwrap();
        fs::rename(&other, module).unwrap();
    }),
    ("replaced with all times", replace_with_times),
    ("removed", |module| fs::remove_file(module).unwrap()),
    ("touched", |module| {
        let file = fs::File::options().write(true).open(module).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }),
    ("hidden", |module| {
        // A package comes before a module of its name.
        fs::create_dir(module.with_extension("")).unwrap();
        fs::write(module.with_extension("").join("__init__.py"), "V = 'hides'\n").unwrap();
    }),
];

fn never_old(layout: &str) {
    let sources = Sources::new(layout);
    let all = ways();
    for (number, depth) in DEPTHS.into_iter().enumerate() {
        for name in ["known", "unknown"] {
            for (turn, (how, change)) in CHANGES.into_iter().enumerate() {
                sources.restore();
                let who = all[(number + turn) % all.len()];
                change(&sources.module(depth, name));
                let what = format!("{name} at {depth:?} {how}");
                let refused = sources.is_refused(who, &what);
                // What the trace knew is refused at once, with its name; so is what hides.
                assert!(refused || name == "unknown" || how == "touched", "{what}");
                if refused {
                    // With what has changed laid over it, it is right.
                    let live = sources.imaged(who, &["--live"]);
                    assert_eq!(live.code(), 0, "{what}: {}", live.err());
                    assert_eq!(live.out(), sources.plain(), "{who:?}, {what}, --live");
                }
            }
        }
        sources.restore();
        fs::write(sources.module(depth, "added"), "V = 'added'\n").unwrap();
        assert!(sources.is_refused(all[number % all.len()], &format!("added at {depth:?}")));
    }
    // Other files, but the same content and times: nothing has changed.
    sources.restore();
    for who in all {
        assert!(!sources.is_refused(who, "restored"));
    }
}

#[test]
fn what_lies_at_the_top_is_never_old() {
    never_old(LAYOUTS[0]);
}

#[test]
fn what_lies_in_src_is_never_old() {
    never_old(LAYOUTS[1]);
}

#[test]
fn what_lies_in_an_environment_is_never_old() {
    never_old(LAYOUTS[2]);
}

#[test]
fn what_lies_in_an_environment_one_level_down_is_never_old() {
    never_old(LAYOUTS[3]);
}

#[test]
fn what_lies_deep_down_is_never_old() {
    never_old(LAYOUTS[4]);
}

#[test]
fn what_lies_under_names_that_need_care_is_never_old() {
    never_old(LAYOUTS[5]);
}

#[test]
fn with_live_what_did_not_change_is_still_the_image() {
    let env = Imaged::of("env", |directory| {
        for below in ["calm/deep", "busy/calm"] {
            fs::create_dir_all(directory.join(below)).unwrap();
        }
        fs::write(directory.join("busy/one"), "old").unwrap();
        fs::write(directory.join("busy/calm/two"), "same").unwrap();
    });
    let busy = Path::new(&env.directory).join("busy");
    fs::write(busy.join("new"), "new").unwrap();
    for who in ways() {
        let script = "cat \"$0/busy/new\" \"$0/busy/calm/two\" && cd \"$0\" && \
                      stat -c %d . calm/deep busy busy/calm";
        let said = env.said(who, &["--live"], script);
        let (content, devices) = said.split_once('\n').unwrap_or_default();
        let first = content.strip_prefix("newsame").unwrap().to_owned();
        let devices: Vec<&str> = devices.lines().collect();
        let source = fs::metadata(&busy).unwrap().dev().to_string();
        assert_eq!((devices[0], devices[2]), (&first[..], &first[..]), "{who:?}: the image");
        assert!(devices[1] == source && first != source, "{who:?}: the source");
        assert_eq!(env.said(who, &["--live"], "cat \"$0/where\""), "image\n");
        let refused = env.sh(who, &["--live"], "echo > \"$0/busy/x\"").output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(why.contains("Read-only") && why.contains("shown from there: "), "{why}");
        env.all_gone();
    }
}

#[test]
fn a_live_rank_does_not_join_a_mount_from_before_an_upgrade() {
    let env = Imaged::of("env", |directory| {
        fs::create_dir(directory.join("package")).unwrap();
        fs::write(directory.join("package/version"), "1").unwrap();
    });
    for (version, who) in (2..).zip(ways()) {
        let script = "cat \"$0/package/version\"; echo; read line || :";
        let mut first = Live::start(&mut env.sh(who, &["--live"], script));
        first.line();
        let package = Path::new(&env.directory).join("package");
        fs::write(package.join("new"), version.to_string()).unwrap();
        fs::rename(package.join("new"), package.join("version")).unwrap();
        let script = "cat \"$0/package/version\"";
        assert_eq!(env.said(who, &["--live"], script), version.to_string());
        assert_eq!(first.end().code(), 0);
        env.all_gone();
    }
}

#[test]
fn an_empty_file_that_gets_a_text_is_never_old() {
    let (scene, _) = scene_for_a_user(&[]);
    let (directory, image) = (scene.subdirectory("env"), scene.at("image.sqsh"));
    let at = |name: &str| format!("{directory}/{name}");
    for (name, text) in [("known", ""), ("unknown", ""), ("text", "traced")] {
        fs::write(at(name), text).unwrap();
    }
    let build =
        ["image", "build", "-o", &image, &directory, "--", "cat", &at("known"), &at("text")];
    let built = run(Command::new(BECALM).args(build));
    assert_eq!(built.code(), 0, "{}", built.err());
    let env = Imaged { scene, directory: directory.clone(), image };
    let words = ["cat", &at("unknown"), &at("text")];
    for (name, text) in [("unknown", "new"), ("known", "new")] {
        fs::write(at(name), text).unwrap();
        for who in ways() {
            let ran = run(&mut env.run(who, &[], &words));
            // What the trace opened is refused; else, as ever, where nobody could look later.
            match name == "known" || who == As::Root {
                true => assert!(ran.err().contains("is older than"), "{who:?}: {}", ran.err()),
                false => assert_eq!(ran.out(), "newtraced", "{who:?}: {}", ran.err()),
            }
            env.all_gone();
        }
    }
}

/// The trace did not open it: it was compared when the first command looked it up, or was not yet.
#[test]
fn a_command_after_an_edit_sees_it_though_one_of_before_has_looked_the_file_up() {
    for who in ways() {
        for names in [&["known"][..], &["known", "unknown"]] {
            for (how, change) in [CHANGES[0], ("replaced with all times", replace_with_times)] {
                let sources = Sources::new(LAYOUTS[2]);
                let script = script(names) + "print('ready', flush=True); input()";
                let first = sources.image.run(who, &[], &["python3", "-B", "-c", &script]);
                let mut before = Command::new(first.get_program());
                before.args(first.get_args()).env("PYTHONPATH", &sources.python_path);
                let mut before = Live::start(before.current_dir("/"));
                before.wait_for("ready");
                change(&sources.module("p/q", "unknown"));
                sources.is_refused(who, &format!("{names:?} {how}"));
                drop(before.end());
                sources.image.all_gone();
            }
        }
    }
}

#[test]
fn what_was_edited_is_served_as_it_is_now_though_its_holder_was_killed() {
    let sources = Sources::new(LAYOUTS[0]);
    let (_, edit) = CHANGES[0];
    edit(&sources.module("", "unknown"));
    let module = sources.module("", "unknown").display().to_string();
    // Known to the kernel before, and read after.
    let script = format!("stat '{module}' >/dev/null && echo ready && read line; cat '{module}'");
    let image = &sources.image;
    let mut rank = Live::start(&mut image.sh(As::User, &[], &script));
    assert_eq!(rank.line(), "ready");
    for holder in image.holders() {
        assert!(Command::new("kill").args(["-9", &holder.to_string()]).status().unwrap().success());
    }
    let said = rank.end();
    assert_eq!(said.out(), fs::read_to_string(module).unwrap(), "{}", said.err());
    image.all_gone();
}
