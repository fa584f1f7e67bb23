//! `becalm image build`: the command line around the writer.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn build(args: &[&str], directory: &Path) -> Output {
    let mut becalm = Command::new(env!("CARGO_BIN_EXE_becalm"));
    becalm.args(["image", "build"]).args(args).current_dir(directory);
    becalm.env_remove("SOURCE_DATE_EPOCH").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// becalm with these words in a directory, with its state there.
fn in_state_of(directory: &Path, words: &[&str]) -> Output {
    let mut becalm = Command::new(env!("CARGO_BIN_EXE_becalm"));
    becalm.args(words).current_dir(directory).env("XDG_STATE_HOME", directory.join("state"));
    becalm.output().unwrap()
}

fn environment(directory: &Path) {
    fs::create_dir_all(directory.join("env/bin")).unwrap();
    fs::write(directory.join("env/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    fs::write(directory.join("env/a"), "first by path").unwrap();
    fs::write(directory.join("env/z"), "first by trace").unwrap();
    symlink("/usr/bin/python3", directory.join("env/bin/python")).unwrap();
}

#[test]
fn its_json_is_as_documented() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let _socket = UnixListener::bind(directory.path().join("env/socket")).unwrap();
    let output = build(
        &["--json", "--skip-special", "-o", "env.sqsh", "env", "--", "cat", "env/z"],
        directory.path(),
    );
    assert!(output.status.success(), "{}", said(&output));
    let answer = testkit::answer::parse(&output.stdout);
    assert_eq!(answer["traced"], 1);
    assert_eq!(answer["manifest"]["trace"], "cat env/z");
    let outside = answer["outside"].as_array().unwrap();
    let outside: Vec<_> = outside.iter().map(|one| (&one["by"], &one["what"])).collect();
    let (symlink, home) = (&Value::from("symlink"), &Value::from("home"));
    let (python, bin) = (&Value::from("/usr/bin/python3"), &Value::from("/usr/bin"));
    assert_eq!(outside, [(symlink, python), (home, bin)]);
}

#[test]
fn the_order_of_a_command_that_fails_is_used_and_that_is_said_unless_somebody_stopped_it() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let image = directory.path().join("env.sqsh");
    let ended = |end: &str| {
        let command = format!("cat env/z; {end}");
        let built = build(&["-o", "env.sqsh", "env", "--", "sh", "-c", &command], directory.path());
        (built.status, said(&built), fs::remove_file(&image).is_ok())
    };
    for (end, how) in
        [("exit 3", "ended with status 3"), ("kill -TERM $$", "was killed by signal 15")]
    {
        let (status, said, is_there) = ended(end);
        assert_eq!((status.code(), is_there), (Some(0), true), "{said}");
        assert!(
            said.contains(&format!("the command {how}; its order is used as it is\n")),
            "{said}"
        );
    }
    let (status, said, is_there) = ended("kill -INT $$");
    // As a shell's loop wants it, which goes on otherwise.
    assert_eq!((status.signal(), is_there), (Some(libc::SIGINT), false), "{said}");
    assert!(said.ends_with("the command was killed by signal 2: no image is built\n"), "{said}");
}

#[test]
fn what_builds_left_that_were_killed_goes_with_a_later_one_and_what_is_being_built_stays() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    // Big enough to be killed in the midst of it.
    let noise = vec![7; 64 << 20];
    fs::write(directory.path().join("env/large"), noise).unwrap();
    let left = || {
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let names = names.filter(|path| path.to_str().unwrap().contains("/.becalm-image-"));
        names.collect::<Vec<_>>()
    };
    let mut becalm = Command::new(env!("CARGO_BIN_EXE_becalm"));
    becalm.args(["image", "build", "-o", "env.sqsh", "env"]).current_dir(directory.path());
    let mut becalm = becalm.spawn().unwrap();
    testkit::live::wait_until("it writes", || !left().is_empty());
    becalm.kill().unwrap();
    becalm.wait().unwrap();
    let [killed] = &left()[..] else { panic!("{:?}", left()) };
    let killed = fs::File::open(killed).unwrap();
    // It is new yet, as if its maker were on another node.
    assert!(build(&["-o", "env.sqsh", "env/a"], directory.path()).status.success());
    assert_eq!(left().len(), 1);
    killed.set_modified(old).unwrap();
    let used = directory.path().join(".becalm-image-used");
    fs::write(&used, "").unwrap();
    let used_file = fs::File::open(&used).unwrap();
    used_file.set_modified(old).unwrap();
    used_file.lock().unwrap();
    assert!(build(&["-o", "env.sqsh", "env/a"], directory.path()).status.success());
    assert_eq!(left(), [used]);
}

#[test]
fn a_socket_is_an_error_that_names_the_option_which_leaves_it_out() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let _socket = UnixListener::bind(directory.path().join("env/socket")).unwrap();
    let output = build(&["-o", "env.sqsh", "env"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).ends_with("no image can hold; --skip-special leaves it out\n"));
}

/// A root with a shell, a container of it, and the words that make it.
fn container(directory: &Path, more: &[&str]) -> Output {
    fs::create_dir_all(directory.join("root/bin")).unwrap();
    fs::copy("/bin/sh", directory.join("root/bin/sh")).unwrap();
    fs::write(directory.join("run.sh"), "echo run\n").unwrap();
    fs::write(directory.join("root.def"), "Bootstrap: scratch\n").unwrap();
    let texts = ["--runscript", "run.sh", "--deffile", "root.def", "--label", "version=2=b"];
    build(&[&["-o", "root.sif", "root"], &texts[..], more].concat(), directory)
}

#[test]
fn a_file_called_sif_is_a_container_and_its_json_is_as_documented() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    symlink("/bin/sh", directory.path().join("env/bin/sh")).unwrap();
    let output = container(directory.path(), &[]);
    assert!(output.status.success(), "{}", said(&output));
    let output = build(
        &["--json", "-o", "app.sif", "--base", "root.sif", "--overlay", "64M", "--sparse", "env"],
        directory.path(),
    );
    assert!(output.status.success(), "{}", said(&output));
    let answer = testkit::answer::parse(&output.stdout);
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    assert_eq!(
        (&answer["sif"]["base"], &answer["sif"]["arch"]),
        (&"root.sif".into(), &arch.into())
    );
    let outside = answer["outside"].as_array().unwrap().iter().map(|one| &one["what"]);
    let outside: Vec<_> = outside.collect();
    assert_eq!(outside, ["/usr/bin/python3", "/usr/bin"], "the base has /bin/sh");
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_becalm"));
    let inspect = inspect.args(["image", "inspect", "--json", "app.sif"]);
    let seen = inspect.current_dir(directory.path()).output().unwrap().stdout;
    let seen = testkit::answer::parse(seen);
    assert_eq!(seen["labels"]["version"], "2=b");
    let objects = seen["objects"].as_array().unwrap();
    let kinds = objects.iter().map(|object| match object["role"].as_str() {
        Some(role) => format!("{role} {}", object["filesystem"].as_str().unwrap()),
        None => object["object"].as_str().unwrap().to_owned(),
    });
    let expected = [
        "definition file",
        "labels",
        "JSON",
        "primary system squashfs",
        "overlay squashfs",
        "overlay ext3",
    ];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    for object in &objects[3..5] {
        assert_eq!(object["squashfs"]["compression"], "gzip", "what all runtimes read");
        assert!(object["squashfs"]["manifest"].is_object());
    }
    assert_eq!(objects[4]["squashfs"]["manifest"]["layout"]["root"], "/");
}

#[test]
fn a_container_that_was_perhaps_written_to_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        assert!(container(directory.path(), &[]).status.success());
    }
    let with_layer = &["--overlay", "64M", "--sparse"];
    assert!(container(directory.path(), with_layer).status.success());
    let output = container(directory.path(), with_layer);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("may hold somebody's work"), "{}", said(&output));
}

#[test]
fn an_ordinary_user_makes_containers() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(container(directory.path(), &[]).status.success());
    for words in [&["root"][..], &["--base", "root.sif", "--overlay", "64M", "run.sh"]] {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        setpriv.arg(env!("CARGO_BIN_EXE_becalm")).args(["image", "build", "-o", "x.sif"]);
        let output = setpriv.args(words).current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn nothing_but_an_image_is_written_over() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    fs::write(directory.path().join("thesis.tex"), "years of work").unwrap();
    let output = build(&["-o", "thesis.tex", "env"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("is no image"), "{}", said(&output));
    assert_eq!(fs::read(directory.path().join("thesis.tex")).unwrap(), b"years of work");
    for _ in 0..2 {
        assert!(build(&["-o", "env.sqsh", "env"], directory.path()).status.success());
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_image_built_again_is_open_to_whom_it_was_and_a_link_to_it_stays_one() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let (image, link) = (directory.path().join("i.sqsh"), directory.path().join("link"));
    symlink("i.sqsh", &link).unwrap();
    let list = || {
        let mut getfacl = Command::new("getfacl");
        getfacl.args(["-cn", "i.sqsh"]).current_dir(directory.path()).output().unwrap().stdout
    };
    // The link leads to nothing at first.
    assert!(build(&["-o", "link", "env"], directory.path()).status.success());
    fs::write(directory.path().join("fresh"), "").unwrap();
    assert_eq!(mode(&image), mode(&directory.path().join("fresh")));
    let mut setfacl = Command::new("setfacl");
    assert!(setfacl.args(["-m", "u:1234:r"]).arg(&image).status().unwrap().success());
    let before = (list(), mode(&image));
    assert!(String::from_utf8_lossy(&before.0).contains("user:1234:r--"));
    for name in ["link", "i.sqsh"] {
        assert!(build(&["-o", name, "env"], directory.path()).status.success());
        assert_eq!((list(), mode(&image)), before);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("i.sqsh"));
    }
}

/// A directory that everybody can enter, and an environment in it.
fn open_environment() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    set_mode(directory.path(), 0o755);
    directory
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_image_is_for_everybody_only_where_all_that_is_packed_is() {
    let directory = open_environment();
    let at = |name: &str| directory.path().join(name);
    let set_list = |words: &[&str]| {
        let mut setfacl = Command::new("setfacl");
        assert!(setfacl.args(words).current_dir(directory.path()).status().unwrap().success());
    };
    let built = |paths: &[&str]| {
        let output = build(&[&["-o", "i.sqsh"], paths].concat(), directory.path());
        assert!(output.status.success(), "{}", said(&output));
        let built = (mode(&at("i.sqsh")), said(&output));
        fs::remove_file(at("i.sqsh")).unwrap();
        built
    };
    let open = 0o666 & mode(&at("env/a"));
    assert_eq!(built(&["env"]), (open, String::new()));
    let is_private = |paths: &[&str], named: &Path| {
        let (mode, said) = built(paths);
        assert_eq!((mode, said.lines().count()), (0o600, 1), "{said}");
        assert!(said.contains(&format!(" as {} is not", named.display())), "{said}");
    };
    for (path, closed, open) in [
        ("env/z", 0o640, 0o644),
        ("env/z", 0o604, 0o644),
        ("env/bin", 0o754, 0o755),
        ("env", 0o750, 0o755),
        ("", 0o700, 0o755),
    ] {
        set_mode(&at(path), closed);
        let named = at(path).components().collect::<std::path::PathBuf>();
        is_private(&["env"], &named);
        is_private(&["env/z", "env/bin"], &named);
        set_mode(&at(path), open);
    }
    set_list(&["-m", "u:1234:-", "env/z"]);
    assert_eq!(mode(&at("env/z")), 0o644);
    is_private(&["env"], &at("env/z"));
    set_list(&["-b", "env/z"]);
    assert_eq!(built(&["env"]).0, open);
}

#[test]
fn an_image_built_again_is_not_opened_to_everybody_with_what_is_private() {
    let directory = open_environment();
    let image = directory.path().join("i.sqsh");
    let built = || {
        let output = build(&["-o", "i.sqsh", "env"], directory.path());
        assert!(output.status.success(), "{}", said(&output));
        (mode(&image), said(&output).contains("only its owner can read it"))
    };
    assert_eq!(built(), (mode(&directory.path().join("env/a")), false));
    set_mode(&directory.path().join("env/a"), 0o640);
    assert_eq!(built(), (0o600, true));
    assert_eq!(built(), (0o600, false), "as it was");
    set_mode(&image, 0o640);
    assert_eq!(built(), (0o640, false), "as it was shared");
    set_mode(&directory.path().join("env/a"), 0o644);
    assert_eq!(built(), (0o640, false), "as it was shared");
}

#[test]
fn a_container_of_what_is_private_or_over_it_is_its_owners() {
    let directory = open_environment();
    let built = |words: &[&str]| {
        let output = build(words, directory.path());
        assert!(output.status.success(), "{}", said(&output));
        let name = words[1];
        let is_said = said(&output).contains("only its owner can read it");
        (mode(&directory.path().join(name)), is_said)
    };
    assert!(container(directory.path(), &[]).status.success());
    let open = mode(&directory.path().join("root.sif"));
    assert_eq!(open & 0o444, 0o444);
    assert_eq!(built(&["-o", "over.sif", "--base", "root.sif", "env"]), (open, false));
    set_mode(&directory.path().join("root/bin"), 0o700);
    assert_eq!(built(&["-o", "private.sif", "root"]), (0o700, true));
    assert_eq!(built(&["-o", "onto.sif", "--base", "private.sif", "env"]), (0o700, true));
    let mut overlay = Command::new(env!("CARGO_BIN_EXE_becalm"));
    overlay.args(["image", "overlay", "layer.sif", "64M", "--sparse", "--sif", "private.sif"]);
    let output = overlay.current_dir(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(mode(&directory.path().join("layer.sif")), 0o700);
}

#[test]
fn what_is_interrupted_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // What was just made is packed only once its second is over: until then it is being built.
        fs::write(directory.path().join("env/a"), "just made").unwrap();
        let mut becalm = Command::new(env!("CARGO_BIN_EXE_becalm"));
        becalm.args(["image", "build", "-o", "i.sqsh", "env"]).current_dir(directory.path());
        let mut building = becalm.spawn().unwrap();
        let names = || -> Vec<_> {
            let entries = fs::read_dir(directory.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        testkit::live::wait_until("a file is begun", || names().len() == 2);
        // SAFETY: passes numbers; the child is not reaped yet.
        unsafe { libc::kill(building.id() as i32, signal) };
        assert_eq!(building.wait().unwrap().signal(), Some(signal));
        assert_eq!(names(), ["env"]);
    }
}

#[test]
fn the_next_line_takes_no_file_for_an_option() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let output = build(&["-o=-x.sqsh", "env"], directory.path());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.ends_with("Next: becalm image inspect ./-x.sqsh\n"), "{text}");
}

#[test]
fn what_cannot_be_is_a_wrong_usage_or_an_error_of_one_line() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    for (args, status) in [
        (&["env"][..], 2),
        (&["-o", "i"], 2),
        (&["-o", "i", "--level", "10", "--comp", "gzip", "env"], 2),
        (&["-o", "i", "--level", "1", "--comp", "lz4", "env"], 2),
        (&["-o", "i", "--block-size", "100K", "env"], 2),
        (&["-o", "i", "no such directory"], 1),
        (&["-o", "no such directory/i", "env"], 1),
        (&["-o", "env/i", "env"], 1),
        (&["--sif", "-o", "i", "env"], 1),
        (&["--sif", "-o", "i", "env", "env/bin"], 2),
        (&["--base", "no such base", "-o", "i", "env"], 1),
        (&["--base", "b", "--runscript", "r", "-o", "i", "env"], 2),
        (&["--label", "no value", "-o", "i", "env"], 2),
        (&["--create-dir", "d", "-o", "i", "env"], 2),
        (&["--overlay", "1M", "-o", "i", "env"], 2),
    ] {
        let output = build(args, directory.path());
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", said(&output));
        assert!(status == 2 || said(&output).lines().count() == 1, "{}", said(&output));
        assert!(!directory.path().join("i").exists());
    }
}

#[test]
fn what_may_not_be_read_is_an_error_unless_it_may_be_left_out() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let set = |path: &str, mode: u32| {
        fs::set_permissions(directory.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("", 0o777);
    set("env/a", 0o600);
    let as_nobody = |args: &[&str]| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        setpriv.arg(env!("CARGO_BIN_EXE_becalm")).args(["image", "build", "-o", "i", "env"]);
        setpriv.args(args).current_dir(directory.path()).output().unwrap()
    };
    let output = as_nobody(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("env/a: open: Permission denied"), "{}", said(&output));
    let option = "; --skip-unreadable leaves it out";
    assert!(said(&output).trim_end().ends_with(option), "{}", said(&output));
    let output = as_nobody(&["--skip-unreadable", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let answer = testkit::answer::parse(&output.stdout);
    assert_eq!(answer["left_out"][0]["why"], "unreadable");
    // Its names can be read, and nothing of what they name.
    fs::create_dir(directory.path().join("env/listed")).unwrap();
    fs::write(directory.path().join("env/listed/file"), "").unwrap();
    set("env/listed", 0o744);
    set("env/a", 0o644);
    let output = as_nobody(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("env/listed"), "{}", said(&output));
    assert!(said(&output).trim_end().ends_with(option), "{}", said(&output));
    set("env/a", 0o600);
    let output = as_nobody(&["--skip-unreadable", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let answer = testkit::answer::parse(&output.stdout);
    assert_eq!(answer["left_out"].as_array().unwrap().len(), 2, "{answer:#}");
    let left = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 2, "the directory and the image");
}

#[test]
fn an_image_of_before_that_somebody_has_removed_cannot_be_given_back() {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    let becalm = |words: &[&str]| in_state_of(directory.path(), words);
    for content in ["one", "two"] {
        fs::write(directory.path().join("env/a"), content).unwrap();
        assert!(becalm(&["image", "build", "-o", "i", "env"]).status.success());
    }
    let image = fs::read(directory.path().join("i")).unwrap();
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with("-kept")).collect();
    fs::remove_file(&kept[0]).unwrap();
    let undone = becalm(&["undo"]);
    assert_eq!(undone.status.code(), Some(1), "{}", said(&undone));
    let gone = format!("cannot be given back: {} is gone", kept[0].display());
    assert!(said(&undone).contains(&gone), "{}", said(&undone));
    assert_eq!(fs::read(directory.path().join("i")).unwrap(), image);
}

/// Of what changed each time.
fn with_an_image_built_three_times() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    environment(directory.path());
    for content in ["one", "two", "three"] {
        fs::write(directory.path().join("env/a"), content).unwrap();
        let built = in_state_of(directory.path(), &["image", "build", "-o", "i", "env"]);
        assert!(built.status.success(), "{}", said(&built));
    }
    directory
}

/// Nightly builds would fill a quota.
#[test]
fn images_of_before_that_nobody_wants_back_are_forgotten_and_the_image_stays() {
    let directory = with_an_image_built_three_times();
    let becalm = |words: &[&str]| in_state_of(directory.path(), words);
    let image = fs::read(directory.path().join("i")).unwrap();
    let kept = || {
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|name| name.to_string_lossy().ends_with("-kept")).count()
    };
    let forget = |words: &[&str]| {
        let output = becalm(&[&["undo", "--forget", "--json"], words].concat());
        assert!(output.status.success(), "{}", said(&output));
        testkit::answer::parse(&output.stdout)["forgotten"].as_array().unwrap().clone()
    };
    assert!(forget(&["--older-than", "1"]).is_empty());
    assert_eq!(forget(&["--older-than", "0", "--dry-run"]).len(), 3);
    assert_eq!(kept(), 2);
    let list = becalm(&["undo", "--list", "--json"]);
    let applied = testkit::answer::parse(&list.stdout)["applied"].as_array().unwrap().clone();
    let [first, second, last] = [0, 1, 2].map(|at| applied[at]["id"].as_str().unwrap().to_owned());
    let one = forget(&[&second]);
    assert!(one[0]["freed"].as_u64().unwrap() >= 4096, "{one:#?}");
    assert_eq!((one[0]["removed"].as_array().unwrap().len(), kept()), (1, 1), "{one:#?}");
    // What is left can be undone, and what was forgotten cannot.
    assert!(becalm(&["undo"]).status.success());
    assert_eq!(kept(), 0);
    assert_ne!(fs::read(directory.path().join("i")).unwrap(), image);
    let undone = becalm(&["undo", &second]);
    assert_eq!(undone.status.code(), Some(1), "{}", said(&undone));
    assert!(said(&undone).contains("was removed by becalm undo --forget"), "{}", said(&undone));
    assert_eq!(forget(&["--older-than", "0"]).len(), 1, "the first");
    assert!(forget(&["--older-than", "0"]).is_empty());
    let listed = || String::from_utf8(becalm(&["undo", "--list"]).stdout).unwrap();
    let list = listed();
    let status = |id: &str| list.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(status(&first).contains("  forgotten  ") && status(&second).contains("  forgotten  "));
    assert!(status(&last).contains("  undone  "), "{list}");
    assert!(directory.path().join("i").exists());
    // A new one has a new name.
    assert!(becalm(&["image", "build", "-o", "j", "env"]).status.success());
    assert!(listed().lines().count() > list.lines().count());
    let nothing = becalm(&["undo", "--forget"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", said(&nothing));
}

/// What cannot be forgotten stays as it was, and keeps nothing else from it.
#[test]
fn only_what_was_kept_is_removed_and_what_cannot_be_can_still_be_undone() {
    let directory = with_an_image_built_three_times();
    let becalm = |words: &[&str]| in_state_of(directory.path(), words);
    let kept = |of: &str| {
        let mut names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        names.find(|name| {
            let name = name.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(&format!(".becalm-{of}-")) && name.ends_with("-kept")
        })
    };
    let list = becalm(&["undo", "--list", "--json"]);
    let applied = testkit::answer::parse(&list.stdout)["applied"].as_array().unwrap().clone();
    let [_, second, third] = [0, 1, 2].map(|at| applied[at]["id"].as_str().unwrap().to_owned());
    let (aside, elsewhere) = (kept(&second).unwrap(), directory.path().join("elsewhere"));
    fs::rename(&aside, &elsewhere).unwrap();
    fs::write(&aside, "precious").unwrap();
    for dry_run in [&["--dry-run"][..], &[]] {
        let output =
            becalm(&[&["undo", "--forget", "--older-than", "0", "--json"], dry_run].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let answer = testkit::answer::parse(&output.stdout);
        let ids: Vec<_> =
            answer["forgotten"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert!(ids.len() == 2 && !ids.contains(&&Value::from(second.clone())), "{answer:#}");
        assert_eq!(answer["kept"][0]["id"], second, "{answer:#}");
        let reason = answer["kept"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("is not what was kept there"), "{answer:#}");
    }
    assert_eq!(fs::read(&aside).unwrap(), b"precious");
    assert!(kept(&third).is_none(), "the others are forgotten");
    fs::rename(&elsewhere, &aside).unwrap();
    // The third is in its place, and cannot be taken back.
    let undone = becalm(&["undo", &second]);
    assert_eq!(undone.status.code(), Some(1));
    let why = format!("has changed since, by {third}, which cannot be undone: it was forgotten");
    assert!(said(&undone).contains(&why), "{}", said(&undone));
    assert!(!said(&undone).contains("--skip-changed"), "{}", said(&undone));
    assert!(becalm(&["undo", "--forget", &second]).status.success());
    assert!(kept(&second).is_none());
    let again = becalm(&["undo", "--forget", &second]);
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
}

#[test]
fn an_image_may_be_named_by_way_of_other_directories() {
    let directory = tempfile::tempdir().unwrap();
    let within = directory.path().join("sub/within");
    fs::create_dir_all(&within).unwrap();
    environment(directory.path());
    std::os::unix::fs::symlink("sub/within", directory.path().join("link")).unwrap();
    for (output, made) in
        [("../up.sqsh", "sub/up.sqsh"), ("../../link/x.sqsh", "sub/within/x.sqsh")]
    {
        let built = build(&["-o", output, "../../env"], &within);
        assert!(built.status.success(), "{output}: {}", said(&built));
        assert!(directory.path().join(made).is_file(), "{output}");
    }
}
