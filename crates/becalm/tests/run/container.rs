//! `becalm run x.sif`: a container is run with the words behind it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use testkit::Scene;
use testkit::run;
use testkit::user::{as_a_user, scene_for_a_user};

use super::image_root::copy;

/// A container whose runscript says what it was given and what it sees.
pub struct Contained {
    pub scene: Scene,
    pub sif: String,
    pub home: String,
}

const SAYS_ALL: &str = "printf '[%s]' \"$@\"; echo; env | sort; pwd; id; \
    for at in / /etc /opt \"$HOME\" /tmp /proc/self /dev/null; do [ -e \"$at\" ] && echo \"$at\"; done; \
    cat /etc/passwd; exit 7\n";

const ENVIRONMENT: &str = "export FROM_IMAGE=image BOTH=image GIVEN=image\nexport EMPTIED=\n\
    export PATH=/opt/bin:$PATH\nif [ -n \"$CALLERS\" ]; then export SEEN=yes; fi\n";

impl Contained {
    /// Without a runscript it has becalm's own, which runs its arguments.
    pub fn new(runscript: Option<&str>) -> Contained {
        let (scene, _) = scene_for_a_user(&[]);
        let root = scene.subdirectory("rootfs");
        fill(Path::new(&root));
        let home = scene.subdirectory("home");
        chown(&home, Some(65534), Some(65534)).unwrap();
        let sif = scene.at("x.sif");
        fs::write(scene.at("env.sh"), ENVIRONMENT).unwrap();
        fs::write(scene.at("run.sh"), runscript.unwrap_or_default()).unwrap();
        let mut build = Command::new(crate::BECALM);
        build.args(["image", "build", "-o", &sif, "--env", &scene.at("env.sh")]);
        if runscript.is_some() {
            build.args(["--runscript", &scene.at("run.sh")]);
        }
        let built = run(build.arg(&root));
        assert_eq!(built.code(), 0, "{}", built.err());
        fs::set_permissions(&sif, PermissionsExt::from_mode(0o755)).unwrap();
        Contained { scene, sif, home }
    }

    /// One that says what it was given and sees.
    pub fn saying_all() -> Contained {
        Contained::new(Some(SAYS_ALL))
    }

    /// `becalm run options… SIF words…`, as an ordinary user, with variables of the test's.
    pub fn becalm(&self, options: &[&str], words: &[&str]) -> Command {
        let own = self.scene.at("becalm");
        let line: Vec<&str> =
            [&[own.as_str(), "run"], options, &[self.sif.as_str()], words].concat();
        let mut command = as_a_user(&line);
        self.surround(&mut command);
        command
    }

    /// The same variables and working directory for becalm and Apptainer.
    pub fn surround(&self, command: &mut Command) {
        command.env_clear().current_dir(&self.home);
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let variables = [
            ("HOME", self.home.as_str()),
            ("USER", "nobody"),
            ("BOTH", "caller"),
            ("CALLERS", "a b\n\"$x\" `y` 'z'"),
            ("EMPTY", ""),
            ("EMPTIED", "caller"),
            ("TERM", "xterm"),
            ("http_proxy", "http://proxy"),
            ("LD_LIBRARY_PATH", "/callers"),
            ("APPTAINER_OTHER", "1"),
            ("SINGULARITY_OTHER", "1"),
            ("APPTAINERENV_GIVEN", "given 'it'"),
        ];
        command.envs(variables);
    }
}

/// A root with a shell and a few programs.
fn fill(root: &Path) {
    for directory in ["usr/bin", "usr/lib", "usr/lib64", "etc", "opt"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (link, to) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        std::os::unix::fs::symlink(to, root.join(link)).unwrap();
    }
    for program in ["sh", "ls", "cat", "id", "env", "sort", "rm", "mkdir"] {
        copy(root, &format!("/bin/{program}"));
    }
    fs::create_dir(root.join("opt/replaced")).unwrap();
    for file in ["gone", "kept", "replaced/old"] {
        fs::write(root.join("opt").join(file), file).unwrap();
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
}

#[test]
fn a_container_is_run_with_the_words_behind_it_and_its_own_variables() {
    let it = Contained::saying_all();
    let words = ["a b", "--json", "*", "--", "-x"];
    let ran = run(&mut it.becalm(&[], &words));
    let out = ran.out();
    assert_eq!(ran.code(), 7, "{}", ran.err());
    assert!(out.starts_with("[a b][--json][*][--][-x]\n"), "{out}");
    for line in ["BOTH=image", "GIVEN=given 'it'", "EMPTY=", "FROM_IMAGE=image", "TERM=xterm"] {
        assert!(out.lines().any(|it| it == line), "{line}: {out}");
    }
    // Its lines are sorted.
    assert!(out.contains("CALLERS=a b\n") && out.contains("\n\"$x\" `y` 'z'\n"), "{out}");
    for name in ["SEEN=", "EMPTIED=", "APPTAINER_OTHER=", "APPTAINERENV_", "/callers", "becalm_"] {
        assert!(!out.contains(name), "{name}: {out}");
    }
    assert!(out.lines().any(|line| line == "/dev/null"), "{out}");
    // With --cleanenv: nothing of the caller's but what every program needs.
    let ran = run(&mut it.becalm(&["--cleanenv", "--pwd", "/opt", "--json"], &[]));
    let out = ran.out();
    assert!(out.contains("\nLANG=C\n") && out.contains("\nPWD=/opt\n"), "{out}{}", ran.err());
    assert!(out.contains("GIVEN=given") && out.contains("http_proxy="), "{out}");
    assert!(!out.contains("CALLERS=") && !out.contains("USER="), "{out}");
    assert!(ran.err().contains("\"runs\": \"/.singularity.d/runscript\""), "{}", ran.err());
}

#[test]
fn a_container_without_a_runscript_of_its_own_runs_its_words() {
    let it = Contained::new(None);
    let mut command = it.becalm(&[], &["sh", "-c", "echo $FROM_IMAGE; kill -TERM $$"]);
    let ran = run(&mut command);
    assert_eq!((ran.out().as_str(), ran.status.signal()), ("image\n", Some(15)), "{}", ran.err());
}

/// As many as sites with modules have, and more than fit into one argument.
#[test]
fn thousands_of_variables_of_the_callers_reach_a_container() {
    let it = Contained::new(None);
    let count = "n=0; for one in $(env); do case $one in MANY_*) n=$((n + 1)) ;; esac; done; echo $n $MANY_7";
    let count = ["sh", "-c", count];
    let mut command = it.becalm(&[], &count);
    command.envs((0..3000).map(|number| (format!("MANY_{number}"), format!("value {number}"))));
    let ran = run(&mut command);
    assert_eq!(ran.out(), "3000 value 7\n", "{}", ran.err());
}

#[test]
fn a_home_is_shown_unless_it_is_not_wanted_or_the_way_there_leads_through_it() {
    let it = Contained::new(None);
    fs::write(format!("{}/mine", it.home), "").unwrap();
    let see = ["sh", "-c", "ls $HOME/mine 2>/dev/null; pwd"];
    let mine = format!("{}/mine\n", it.home);
    let from = |options: &[&str], directory: &str| {
        run(it.becalm(options, &see).current_dir(directory)).out()
    };
    assert_eq!(from(&[], "/"), format!("{mine}/\n"));
    // Below /tmp it is seen all the same, wherever scenes are.
    let elsewhere = if it.home.starts_with("/tmp/") { mine.clone() } else { String::new() };
    assert_eq!(from(&["--no-home"], "/"), format!("{elsewhere}/\n"));
    assert_eq!(from(&["--no-home"], &it.home), format!("{mine}{}\n", it.home));
}

#[test]
fn what_cannot_be_run_is_said_in_one_line() {
    let it = Contained::new(None);
    let refused = |options: &[&str], status: i32, why: &str| {
        let ran = run(&mut it.becalm(options, &[]));
        assert_eq!((ran.code(), ran.out().as_str()), (status, ""), "{}", ran.err());
        assert!(ran.err().contains(why) && ran.err().lines().count() == 1, "{}", ran.err());
    };
    refused(&["--pwd", "/nowhere"], 125, "--pwd /nowhere: not in the image");
    let ran = run(&mut as_a_user(&[
        it.scene.at("becalm").as_str(),
        "run",
        "--image",
        &it.sif,
        "--cleanenv",
        "--",
        "true",
    ]));
    assert_eq!(ran.code(), 2, "{}", ran.err());
    // An image that is no container.
    let image = it.scene.at("an image.sqsh");
    let build = [it.scene.at("becalm"), "image".into(), "build".into(), "-o".into(), image.clone()];
    let built = run(Command::new(&build[0]).args(&build[1..]).arg(it.scene.at("rootfs/opt")));
    assert_eq!(built.code(), 0, "{}", built.err());
    let ran = run(&mut as_a_user(&[it.scene.at("becalm").as_str(), "run", &image]));
    let why = format!("becalm run --image '{image}' -- CMD");
    assert!(ran.code() == 2 && ran.err().contains(&why), "{}", ran.err());
    // Cut anywhere.
    let whole = fs::read(&it.sif).unwrap();
    for length in [40, 200, 40_000, whole.len() / 2] {
        fs::write(&it.sif, &whole[..length]).unwrap();
        let ran = run(&mut it.becalm(&[], &[]));
        assert_eq!(ran.code(), 125, "{length} {}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{length} {}", ran.err());
    }
}
