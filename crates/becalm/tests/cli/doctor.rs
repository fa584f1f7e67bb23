//! `becalm doctor` tells the truth: as root, as an ordinary user, and under restrictions that
//! are put on it here.

use std::fs::read_to_string;
use std::io::{self, pipe};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use crate::BECALM;
use serde_json::Value;
use testkit::Scene;
use testkit::user::{as_a_user, scene_for_a_user};

/// What a doctor said, and its exit status.
struct Said {
    status: i32,
    json: Value,
}

impl Said {
    /// What `command`, a becalm doctor with `--json`, says.
    fn by(command: &mut Command) -> Said {
        let output = command.output().unwrap();
        let json = testkit::answer::parse(&output.stdout);
        Said { status: output.status.code().unwrap(), json }
    }

    fn probe(&self, name: &str) -> &Value {
        let probes = self.json["probes"].as_array().unwrap();
        probes.iter().find(|probe| probe["name"] == name).unwrap()
    }

    fn answer(&self, name: &str) -> &str {
        self.probe(name)["answer"].as_str().unwrap()
    }

    fn refusal(&self, name: &str) -> &Value {
        assert_eq!(self.answer(name), "refused", "{}", self.probe(name));
        assert!(self.probe(name)["remedy"].is_string(), "{}", self.probe(name));
        &self.probe(name)["refusal"]
    }
}

fn doctor() -> Command {
    let mut command = Command::new(BECALM);
    command.args(["doctor", "--json"]);
    command
}

fn doctor_of_a_user(scene: &Scene) -> Command {
    as_a_user(&[&scene.at("becalm"), "doctor", "--json"])
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// What a tool of the distribution can do, and the probe that must agree.
const TOOLS: [(&str, &str, &[&str]); 4] = [
    ("ptrace", "strace", &["-o", "/dev/null", "true"]),
    ("user_namespace", "unshare", &["-Ur", "true"]),
    ("mount_namespace", "unshare", &["-Urm", "mount", "-t", "tmpfs", "becalm", "/"]),
    ("fixed_layout", "setarch", &["-R", "true"]),
];

#[test]
fn whoever_can_strace_can_record() {
    let said = Said::by(&mut doctor());
    assert_eq!(said.answer("ptrace"), "works");
    assert_eq!(said.answer("seccomp"), "works");
    assert_eq!(said.json["can_record"], true);
    assert!(said.json["backend"].as_str().unwrap().starts_with("ptrace+seccomp"));
    assert_eq!(said.status, 0);
}

#[test]
fn an_ordinary_user_can_record_too_and_is_told_what_takes_root() {
    let said = Said::by(&mut doctor_of_a_user(&scene_for_a_user(&[]).0));
    assert_eq!((said.status, &said.json["can_record"]), (0, &true.into()));
    assert_ne!(said.json["uid"], 0);
    let refusal = said.refusal("seccomp_with_privileges");
    assert_eq!((&refusal["error"], &refusal["by"]), (&"EACCES".into(), &"capability".into()));
}

#[test]
fn the_answers_are_those_of_the_tools_that_do_the_same() {
    let said = Said::by(&mut doctor_of_a_user(&scene_for_a_user(&[]).0));
    for (probe, tool, arguments) in TOOLS {
        let works = succeeds(as_a_user(&[tool]).args(arguments));
        assert_eq!(said.answer(probe) == "works", works, "{tool} {arguments:?} as ordinary user");
    }
    let said = Said::by(&mut doctor());
    for (probe, tool, arguments) in TOOLS {
        let works = succeeds(Command::new(tool).args(arguments));
        assert_eq!(said.answer(probe) == "works", works, "{tool} {arguments:?}");
    }
}

#[test]
fn under_strace_that_follows_children_ptrace_is_refused_by_strace() {
    let said = Said::by(Command::new("strace").args([
        "-f",
        "-o",
        "/dev/null",
        BECALM,
        "doctor",
        "--json",
    ]));
    assert_eq!((said.status, &said.json["can_record"]), (1, &false.into()));
    assert_eq!(said.answer("another_tracer"), "present");
    for probe in ["ptrace", "seccomp"] {
        let refusal = said.refusal(probe);
        assert_eq!(refusal["by"], "tracer");
        assert_eq!(refusal["error"], "EPERM");
        assert!(refusal["what"].as_str().unwrap().starts_with("strace (process "), "{refusal}");
    }
}

#[test]
fn under_strace_that_leaves_children_alone_they_can_be_recorded() {
    let said =
        Said::by(Command::new("strace").args(["-o", "/dev/null", BECALM, "doctor", "--json"]));
    assert_eq!(said.answer("another_tracer"), "present");
    assert_eq!((said.answer("ptrace"), said.status), ("works", 0));
}

/// Puts a filter on `command` that answers one system call with `action` and allows the rest.
/// `flags` are seccomp(2)'s; with a listener, it becomes descriptor [`LISTENER`].
fn restrict(command: &mut Command, call: libc::c_long, action: u32, flags: libc::c_ulong) {
    let install = move || {
        let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let mut filter = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, action),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        let set = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: `program` describes `filter`; the kernel copies both.
        unsafe {
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::syscall(libc::SYS_seccomp, set, flags, &program) {
                -1 => Err(io::Error::last_os_error()),
                0 => Ok(()),
                listener => match libc::dup2(listener as i32, LISTENER) {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                },
            }
        }
    };
    // SAFETY: `install` makes system calls only.
    unsafe { command.pre_exec(install) };
}

const LISTENER: i32 = 100;

#[test]
fn a_filter_that_refuses_ptrace_is_named() {
    let mut command = doctor();
    restrict(&mut command, libc::SYS_ptrace, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0);
    let said = Said::by(&mut command);
    assert_eq!((said.status, &said.json["can_record"]), (1, &false.into()));
    assert_eq!(said.answer("outer_seccomp_filter"), "present");
    for probe in ["ptrace", "seccomp"] {
        let refusal = said.refusal(probe);
        assert_eq!((&refusal["by"], &refusal["error"]), (&"seccomp".into(), &"EPERM".into()));
        assert_eq!(refusal["call"], "ptrace(PTRACE_SEIZE)");
    }
    assert_eq!(said.answer("user_namespace"), Said::by(&mut doctor()).answer("user_namespace"));
}

#[test]
fn a_filter_that_kills_whoever_calls_ptrace_is_an_answer_and_no_crash() {
    let mut command = doctor();
    restrict(&mut command, libc::SYS_ptrace, libc::SECCOMP_RET_KILL_PROCESS, 0);
    let said = Said::by(&mut command);
    assert_eq!(said.status, 1);
    let refusal = said.refusal("ptrace");
    assert_eq!((&refusal["by"], &refusal["error"]), (&"seccomp".into(), &Value::Null));
    assert_ne!(said.answer("glibc"), "unknown");
}

#[test]
fn a_filter_that_refuses_seccomp_is_named_and_ptrace_still_works() {
    let mut command = doctor();
    restrict(&mut command, libc::SYS_seccomp, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0);
    let said = Said::by(&mut command);
    assert_eq!(said.answer("ptrace"), "works");
    assert_eq!(said.refusal("seccomp")["by"], "seccomp");
    assert_eq!((&said.json["backend"], said.status), (&"ptrace".into(), 0));
}

#[test]
fn a_filter_that_refuses_something_else_does_no_harm_and_is_mentioned() {
    let mut command = doctor();
    // On Arm, becalm itself reads links by readlinkat.
    restrict(&mut command, libc::SYS_faccessat, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0);
    let said = Said::by(&mut command);
    assert_eq!((said.answer("seccomp"), said.status), ("works", 0));
    let detail = said.probe("seccomp")["detail"].as_str().unwrap();
    assert!(detail.contains("but faccessat, which an outer seccomp filter refuses"), "{detail}");
}

#[test]
fn a_supervisor_that_answers_calls_before_becalm_sees_them_is_found_out() {
    let mut command = doctor();
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    restrict(&mut command, libc::SYS_readlinkat, libc::SECCOMP_RET_USER_NOTIF, flags);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let listener = descriptor_of(child.id(), LISTENER).unwrap();
    let supervisor = std::thread::spawn(move || let_all_calls_pass(&listener));
    let output = child.wait_with_output().unwrap();
    assert!(supervisor.join().unwrap() > 0);
    let json = testkit::answer::parse(&output.stdout);
    let said = Said { status: output.status.code().unwrap(), json };
    assert_eq!(said.answer("ptrace"), "works");
    assert_eq!((&said.json["backend"], said.status), (&"ptrace".into(), 0));
    let refusal = said.refusal("seccomp");
    assert_eq!((&refusal["by"], &refusal["call"]), (&"seccomp".into(), &"readlinkat".into()));
}

#[test]
fn a_recording_succeeds_exactly_where_the_doctor_says_so() {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    for call in [None, Some(libc::SYS_ptrace), Some(libc::SYS_seccomp), Some(libc::SYS_statx)] {
        let scene = Scene::new();
        let mut doctor = doctor();
        let mut record = scene.record(&["true"]);
        if let Some(call) = call {
            restrict(&mut doctor, call, refused, 0);
            restrict(&mut record, call, refused, 0);
        }
        assert_agree(&scene, &mut doctor, &mut record);
    }
    let (scene, _) = scene_for_a_user(&[]);
    let rec = scene.rec();
    let record = [&scene.at("becalm"), "record", "--until", "exit", "-o", &rec, "--", "true"];
    assert_agree(&scene, &mut doctor_of_a_user(&scene), &mut as_a_user(&record));
}

/// A recording works if the doctor says that one would, and in the way that he says.
fn assert_agree(scene: &Scene, doctor: &mut Command, record: &mut Command) {
    let said = Said::by(doctor);
    let done = record.stderr(Stdio::null()).status().unwrap();
    assert_eq!(done.success(), said.json["can_record"] == true, "{record:?}");
    if done.success() {
        assert_eq!(scene.recording().header.backend, said.json["backend"], "{record:?}");
    }
}

/// Refuses one request of ptrace(2), as a kernel that does not know it does.
fn refuse_request(command: &mut Command, request: u32, errno: i32) {
    let install = move || {
        let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let mut filter = [
            step(load, 0, 0),
            step(equal, 3, libc::SYS_ptrace as u32),
            // The first argument's lower half (struct seccomp_data).
            step(load, 0, 16),
            step(equal, 1, request),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 6, filter: filter.as_mut_ptr() };
        let set = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: `program` describes `filter`; the kernel copies both.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(libc::SYS_seccomp, set, 0, &program) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: `install` makes system calls only.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_kernel_that_does_not_say_what_a_call_is_can_record_and_the_doctor_says_so() {
    for errno in [libc::EIO, libc::EINVAL, libc::EPERM] {
        let scene = Scene::new();
        let (mut doctor, mut record) = (doctor(), scene.record(&["cat", "/etc/hostname"]));
        refuse_request(&mut doctor, libc::PTRACE_GET_SYSCALL_INFO, errno);
        refuse_request(&mut record, libc::PTRACE_GET_SYSCALL_INFO, errno);
        assert_agree(&scene, &mut doctor, &mut record);
        let recording = scene.recording();
        let asked = recording.events.iter().filter_map(|event| event.path);
        let asked: Vec<_> = asked.map(|path| recording.path(path)).collect();
        assert!(asked.contains(&&b"/etc/hostname"[..]), "error {errno}");
    }
}

/// What a container's filter may refuse, with what it answers.
const REFUSED: [(libc::c_long, i32); 10] = [
    (libc::SYS_process_vm_readv, libc::EPERM),
    (libc::SYS_process_vm_readv, libc::ENOSYS),
    (libc::SYS_memfd_create, libc::ENOSYS),
    (libc::SYS_openat2, libc::ENOSYS),
    (libc::SYS_perf_event_open, libc::EPERM),
    (libc::SYS_bpf, libc::EPERM),
    (libc::SYS_unshare, libc::EPERM),
    (libc::SYS_mount, libc::EPERM),
    (libc::SYS_personality, libc::EPERM),
    (libc::SYS_process_madvise, libc::EPERM),
];

#[test]
fn whatever_a_filter_refuses_each_verb_works_exactly_where_its_probe_does() {
    for (call, errno) in REFUSED {
        let (scene, _) = scene_for_a_user(&[]);
        let directory = scene.subdirectory("directory");
        std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap_or_default();
        let becalm = scene.at("becalm");
        let limited = |words: &[&str]| {
            let mut command = as_a_user(&[&[&becalm[..]], words].concat());
            restrict(&mut command, call, libc::SECCOMP_RET_ERRNO | errno as u32, 0);
            command.current_dir(scene.directory()).stdin(Stdio::null());
            command
        };
        let said = Said::by(&mut limited(&["doctor", "--json"]));
        let rec = scene.rec();
        assert_agree(
            &scene,
            &mut limited(&["doctor", "--json"]),
            &mut limited(&["record", "-o", &rec, "--", "cat", "/etc/hostname"]),
        );
        assert_eq!(said.json["can_record"], true, "call {call}");
        let blinds = scene.recording().blinds;
        let hidden =
            |blind: &recording::Blind| matches!(blind, recording::Blind::Unreadable { .. });
        assert!(!blinds.iter().any(hidden), "call {call}: {blinds:?}");

        let traced = said.json["can_record"] == true;
        let works = |probe| said.answer(probe) == "works";
        let rehearse = ["rehearse", "--profile", "nfs", "--by", "fuse", &directory, "--", "true"];
        let verbs: &[(&[&str], bool)] = &[
            (&["check", "--", "true"], traced),
            (&["fork", "lines", "--", "true"], traced),
            (&["python", "scan", "--", "true"], traced),
            (&["run", "--aslr", "off", "--", "true"], works("fixed_layout")),
            (&rehearse, traced && works("fuse_mount")),
        ];
        for (verb, allowed) in verbs {
            let ran = limited(verb).output().unwrap();
            let why = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.success(), *allowed, "call {call}, {verb:?}: {why}");
        }
    }
}

/// A copy of another process's descriptor (pidfd_getfd(2)).
fn descriptor_of(process: u32, number: i32) -> io::Result<OwnedFd> {
    let own = |returned: libc::c_long| match returned {
        // SAFETY: the kernel has just made this descriptor for us.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(returned as i32) }),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: no memory is passed.
    let process = own(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: as above.
    own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })
}

/// Lets the kernel do every call that the filter hands over, until nobody is left to make any.
/// Returns how many there were.
fn let_all_calls_pass(listener: &OwnedFd) -> usize {
    let mut passed = 0;
    loop {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `ready` is one valid pollfd.
        unsafe { libc::poll(&raw mut ready, 1, -1) };
        if ready.revents & libc::POLLIN == 0 {
            return passed;
        }
        // SAFETY: both structures are plain numbers, and the kernel wants the first one zeroed.
        let (mut call, mut answer): (libc::seccomp_notif, libc::seccomp_notif_resp) =
            unsafe { std::mem::zeroed() };
        // SAFETY: `call` is valid for writing.
        let got = unsafe { libc::ioctl(ready.fd, NOTIF_RECV, &raw mut call) };
        if got < 0 {
            continue; // its maker was killed
        }
        answer.id = call.id;
        answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        // SAFETY: `answer` is valid.
        unsafe { libc::ioctl(ready.fd, NOTIF_SEND, &raw mut answer) };
        passed += 1;
    }
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND` (linux/seccomp.h).
const NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const NOTIF_SEND: libc::c_ulong = 0xc018_2101;

#[test]
fn a_user_namespace_that_allows_no_more_of_them_is_named() {
    if !succeeds(Command::new("unshare").args(["-Ur", "true"])) {
        // The agreement of probes and tools is what is tested on such a machine.
        return;
    }
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" doctor --json";
    let said = Said::by(Command::new("unshare").args(["-Ur", "sh", "-c", script, BECALM]));
    let refusal = said.refusal("user_namespace");
    assert_eq!((&refusal["by"], &refusal["error"]), (&"sysctl".into(), &"ENOSPC".into()));
    assert_eq!(refusal["what"], "sysctl user.max_user_namespaces = 0");
    assert_eq!(said.status, 0);
}

/// Nobody makes a user namespace in a chroot, root neither (`create_user_ns` in kernel/user_namespace.c).
#[test]
fn root_in_a_chroot_is_not_told_to_be_root() {
    if !testkit::user::is_root() {
        return;
    }
    let script = "mkdir root && mount -t tmpfs tmpfs root && mkdir -p root/in/proc && \
        touch root/in/becalm && mount --bind \"$0\" root/in/becalm && mount -t proc proc root/in/proc && \
        exec chroot root/in /becalm doctor --json";
    let scene = testkit::Scene::new();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, BECALM]).current_dir(scene.directory());
    let said = Said::by(&mut command);
    let remedy = said.probe("user_namespace")["remedy"].as_str().unwrap().to_owned();
    assert!(remedy.contains("outside of it") && !remedy.contains("Run becalm as root"), "{remedy}");
}

fn for_people(columns: &str) -> Output {
    Command::new(BECALM).arg("doctor").env("COLUMNS", columns).output().unwrap()
}

#[test]
fn people_get_an_answer_a_table_of_a_screen_and_the_next_step() {
    let text = String::from_utf8(for_people("80").stdout).unwrap();
    assert!(text.starts_with("becalm can record commands here.\n"), "{text}");
    assert!(text.ends_with("Next: becalm check -- COMMAND\n"), "{text}");
    let table = text.split("\n\n").nth(1).unwrap();
    assert!(table.lines().count() <= 24, "{text}");
    assert!(table.lines().any(|line| line.starts_with("ptrace ") && line.contains(" works ")));
    assert!(
        !table.contains('…'),
        "what it is used for is no path, to be cut in its middle: {text}"
    );
    assert!(!text.contains('\x1b'), "colour in a pipe");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in ["60", "80", "140", "200"] {
        let text = String::from_utf8(for_people(columns).stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= columns.parse().unwrap(), "{columns}: {line}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_a_full_disk_is_one() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let output = Command::new(BECALM).arg("doctor").stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(BECALM).arg("doctor").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("becalm: ") && said.lines().count() == 1, "{said:?}");
}

#[test]
fn the_schema_names_every_probe_and_every_answer() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/becalm.doctor.md");
    let page = read_to_string(page).unwrap();
    let said = Said::by(&mut doctor());
    assert_eq!(said.json["schema"], "becalm.doctor/1");
    for key in said.json.as_object().unwrap().keys() {
        assert!(page.contains(&format!("| `{key}` |")), "{key}");
    }
    for probe in said.json["probes"].as_array().unwrap() {
        for (key, value) in [("name", &probe["name"]), ("answer", &probe["answer"])] {
            assert!(page.contains(&format!("| `{}` |", value.as_str().unwrap())), "{key} {value}");
        }
        for key in probe.as_object().unwrap().keys() {
            assert!(page.contains(&format!("| `probes[].{key}` |")), "{key}");
        }
    }
    let user = Said::by(&mut doctor_of_a_user(&scene_for_a_user(&[]).0));
    let refusal = user.refusal("seccomp_with_privileges");
    for (of, object) in [("glibc", &said.json["glibc"]), ("probes[].refusal", refusal)] {
        for key in object.as_object().unwrap().keys() {
            assert!(page.contains(&format!("| `{of}.{key}` |")), "{of}.{key}");
        }
    }
}

#[test]
fn help_ends_with_an_example() {
    let output = Command::new(BECALM).args(["doctor", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("\nExample:\n  becalm doctor\n"), "{help}");
}
