//! `becalm run --image` of a whole root: the command sees that root, with what Singularity shows
//! in it by default.

use std::fs;
use std::path::Path;
use std::process::Command;

use image_format::sif::{Arch, Filesystem, Partition, Role, SifPart};
use testkit::imaged::{As, Imaged, ways};
use testkit::{Live, copy_program, run};

/// A root with a shell, its libraries and a few programs, and no directory for /tmp or a home.
fn root() -> Imaged {
    let mut env = Imaged::of("root", |root| {
        for directory in ["usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (link, to) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        for program in ["sh", "ls", "cat", "id", "touch", "stat"] {
            copy(root, &format!("/bin/{program}"));
        }
        fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(root.join("etc/hosts"), "").unwrap();
    });
    // As `--at /` says it too; a squashfs with bin, etc and usr and no word of becalm's is one.
    let foreign = env.scene.at("root.sqsh");
    let made = run(Command::new("mksquashfs").args([&env.directory, &foreign, "-quiet"]));
    assert_eq!(made.code(), 0, "{}", made.err());
    env.image = foreign;
    env
}

/// A program with the libraries that it needs.
pub fn copy(root: &Path, program: &str) {
    let listed = Command::new("ldd").arg(program).output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for path in [program].into_iter().chain(libraries) {
        let to = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy_program(path, to);
    }
}

#[test]
fn a_whole_root_is_seen_with_home_temporary_and_system_directories() {
    let env = root();
    let home = env.scene.subdirectory("home");
    fs::write(format!("{home}/mine"), "from home").unwrap();
    for who in ways() {
        let script = "cat /where $HOME/mine; cd / && echo *; ls /proc/self/fd > /dev/null; \
                      [ -c /dev/null ] || echo no devices; touch /new; cat /etc/passwd";
        let mut command = env.sh(who, &[], script);
        command.env("HOME", &home).current_dir(&home);
        let ran = run(&mut command);
        let lines: Vec<_> = ran.out().lines().map(str::to_owned).collect();
        assert_eq!(
            lines[..2],
            ["directory", "from home__pycache__ bin dev etc lib lib64 proc sys tmp usr var where"]
                .map(str::to_owned),
            "{who:?} {}",
            ran.err()
        );
        assert!(ran.err().contains("Read-only file system"), "{}", ran.err());
        assert!(!ran.out().contains("no devices"), "{who:?} {}", ran.out());
        if who == As::User {
            assert!(lines.iter().any(|line| line.contains(":65534:")), "{lines:?}");
        }
    }
    env.all_gone();
}

#[test]
fn a_working_directory_and_binds_are_seen_in_it_and_changes_are_kept() {
    let env = root();
    for who in ways() {
        let work = env.scene.subdirectory(&format!("work {who:?}"));
        let changes = env.scene.subdirectory(&format!("changes {who:?}"));
        if who == As::User {
            let _ = std::os::unix::fs::chown(&changes, Some(65534), Some(65534));
        }
        let bind = format!("{work}:/data/in");
        fs::write(format!("{work}/x"), "bound").unwrap();
        let options = ["--overlay", &changes, "--bind", &bind];
        let mut command = env.sh(who, &options, "pwd; cat /data/in/x; echo kept > /kept");
        command.current_dir(&work).env("HOME", "/no-such-home");
        let ran = run(&mut command);
        assert_eq!(ran.out(), format!("{work}\nbound"), "{who:?} {}", ran.err());
        env.all_gone();
        let mut command = env.sh(who, &options, "cat /kept");
        command.current_dir("/").env("HOME", "/no-such-home");
        assert_eq!(run(&mut command).out(), "kept\n");
        env.all_gone();
    }
}

#[test]
fn ranks_with_the_same_working_directory_share_a_root_and_others_do_not() {
    let env = root();
    let [one, other] = ["one", "other"].map(|name| env.scene.subdirectory(name));
    for who in ways() {
        let start = |directory: &str| {
            let script = "pwd; stat -L -c %i /proc/self/ns/mnt; read line || :";
            let mut command = env.sh(who, &[], script);
            let mut rank = Live::start(command.current_dir(directory).env("HOME", "/no-such-home"));
            assert_eq!(rank.line(), directory, "{who:?}");
            (rank.line(), rank)
        };
        let (first, rank) = start(&one);
        let (second, kept) = start(&other);
        assert_ne!(first, second, "another directory is bound into it");
        assert_eq!([start(&one).0, start(&other).0], [first, second.clone()]);
        // They find one another when the first of all has gone, too.
        rank.end();
        assert_eq!(start(&other).0, second);
        drop(kept);
        env.all_gone();
    }
}

#[test]
fn a_sif_is_such_a_root() {
    let mut env = root();
    let sif = env.scene.at("root.sif");
    let squash = fs::File::open(&env.image).unwrap();
    let partition = Partition {
        filesystem: Filesystem::Squashfs,
        role: Role::PrimarySystem,
        arch: Arch::native(),
    };
    let part = SifPart::of_image(&squash, "root", partition).unwrap();
    image_format::sif::write(&fs::File::create_new(&sif).unwrap(), &[part], 0).unwrap();
    env.image = sif;
    for who in ways() {
        let mut command = env.sh(who, &[], "cat /where; echo /*");
        command.current_dir("/").env("HOME", "/no-such-home");
        let ran = run(&mut command);
        let expected =
            "directory\n/__pycache__ /bin /dev /etc /lib /lib64 /proc /sys /tmp /usr /var /where\n";
        assert_eq!(ran.out(), expected, "{who:?} {}", ran.err());
    }
}

#[test]
fn other_images_are_laid_into_a_whole_root_in_whatever_order_they_are_named() {
    let env = root();
    let other = Imaged::of("other", |_| {});
    let place = "/opt/not/in/the root";
    let placed = format!("{}:{place}", other.image);
    for who in ways() {
        let script = format!("cat /where '{place}/where'; cd / && echo *");
        let ran = run(&mut env.sh(who, &["--image", &placed], &script));
        assert!(ran.out().starts_with("directory\nimage\n"), "{who:?} {}{}", ran.out(), ran.err());
        assert!(ran.out().contains(" usr"), "{}", ran.out());
        assert!(ran.err().contains("it is laid into the root"), "{}", ran.err());
        // The root second, the other where it belongs: in /tmp, which is the machine's.
        let mut line = other.run(who, &["--image", &env.image], &["sh", "-c", "cat /where \"$0\""]);
        let ran = run(line.arg(format!("{}/where", other.directory)));
        assert_eq!(ran.out(), "directory\nimage\n", "{who:?} {}", ran.err());
        other.all_gone();
    }
}
