//! What is not packed, since a start could not know whether it holds: each reason is brought about, and
//! nothing is written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use testkit::user::is_root;
use testkit::{Scene, copy_program, run};

use crate::BECALM;
use crate::packed::{Packed, clean, compile, pack_command, refusal};

#[test]
fn what_cannot_be_packed_is_said_and_nothing_is_written() {
    let scene = Scene::new();
    let script = scene.file("script", "#!/bin/sh\n", 0o755);
    assert!(refusal(&script).contains("script"));
    assert!(refusal(BECALM).contains("statically"));
    assert!(refusal("/etc/passwd").contains("no 64-bit ELF program"));
    assert!(refusal("/nonexistent").contains("cannot find /nonexistent"));
    let setuid = scene.at("setuid");
    copy_program("/bin/true", &setuid);
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&setuid, fs::Permissions::from_mode(mode)).unwrap();
        assert!(refusal(&setuid).contains("set-user-id"));
    }
    let source = scene.file("x.c", "int main(void) { return 0; }", 0o644);
    let audited = compile(&scene, "gcc", &[&source, "-Wl,--audit=/nonexistent"], "audited");
    assert!(refusal(&audited).contains("DT_AUDIT"));
    let executable = compile(&scene, "gcc", &[&source, "-z", "execstack"], "executable");
    assert!(refusal(&executable).contains("stack is executable"), "{}", refusal(&executable));
    let musl = compile(&scene, "musl-gcc", &[&source], "musl");
    assert!(refusal(&musl).contains("glibc"), "{}", refusal(&musl));
    let relative =
        compile(&scene, "gcc", &[&source, "-Wl,--no-as-needed,-rpath,lib", "-lm"], "relative");
    assert!(refusal(&relative).contains("working directory"), "{}", refusal(&relative));
    let missing = scene.subdirectory("missing");
    compile(&scene, "gcc", &["-shared", &source, "-Wl,-soname,gone.so"], "missing/gone.so");
    let lost = compile(
        &scene,
        "gcc",
        &[&source, "-Wl,--no-as-needed", &format!("{missing}/gone.so")],
        "lost",
    );
    assert!(refusal(&lost).contains("ends with status 127"), "{}", refusal(&lost));
}

/// A program with this text of C besides its main.
fn with_text(scene: &Scene, text: &str, words: &[&str]) -> String {
    let source = scene.file("own.c", format!("{text}\nint main(void) {{ return 0; }}\n"), 0o644);
    compile(scene, "gcc", &[&[source.as_str()], words].concat(), "own")
}

/// Code that runs while the loader relocates (an indirect function's resolver) and keeps something.
fn keeping(what: &str) -> String {
    format!(
        "#include <x86intrin.h>\nstatic unsigned long kept[4];\nstatic int impl(void) {{ return 1; }}\n\
         static void *resolve(void) {{ volatile int x = 1; kept[x] = {what}; return impl; }}\n\
         int chosen(void) __attribute__((ifunc(\"resolve\")));\nint (*use)(void) = chosen;"
    )
}

#[test]
fn a_state_that_is_not_understood_is_not_packed() {
    let scene = Scene::new();
    let refused = |what: &str| refusal(&with_text(&scene, &keeping(what), &[]));
    let stack = refused("(unsigned long)&x");
    assert!(stack.contains("not understood") && stack.contains("0x7ff"), "{stack}");
    let time = refused("__rdtsc()");
    assert!(time.contains("not understood"), "{time}");
    let call = "({ long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"0\"(39L) : \"rcx\", \"r11\"); r; })";
    assert!(refused(call).contains("a system call that is not known: 39"), "getpid");
    // What is the same in each start is understood.
    Packed::of(Scene::new(), &with_text(&scene, &keeping("7"), &[])).assert_same(&[]);
}

#[test]
fn relocated_instructions_and_a_drivers_library_are_not_packed() {
    let scene = Scene::new();
    let text = "__asm__(\".text\\n.quad main\");";
    let relocated = with_text(&scene, text, &["-pie", "-fPIE", "-Wl,-z,notext"]);
    assert!(refusal(&relocated).contains("DT_TEXTREL"), "{}", refusal(&relocated));
    scene.subdirectory("lib");
    let source = scene.file("says.c", "const char *says(void) { return 0; }", 0o644);
    let driver = scene.at("lib/libcuda.so.1");
    compile(
        &scene,
        "gcc",
        &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", &source],
        "lib/libcuda.so.1",
    );
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", scene.at("lib"));
    let program = with_text(&scene, "", &[&rpath, &driver]);
    assert!(refusal(&program).contains("libcuda.so.1, which belongs"), "{}", refusal(&program));
}

#[test]
fn a_program_with_capabilities_is_not_packed() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let program = scene.at("capable");
    copy_program("/bin/true", &program);
    let done = run(Command::new("setcap").args(["cap_net_raw+ep", &program]));
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(refusal(&program).contains("capabilities"));
}

#[test]
fn a_finite_hard_limit_of_the_stack_is_said_when_it_is_packed() {
    let scene = Scene::new();
    let pack = pack_command("/bin/true", &scene.at("x"), &[]);
    let mut limited = Command::new("prlimit");
    limited.args(["--stack=8388608:8388608", "--"]).arg(pack.get_program()).args(pack.get_args());
    let ran = run(&mut clean(limited, &[]));
    assert!(ran.code() == 1 && ran.err().contains("hard limit of the stack"), "{}", ran.err());
}

#[test]
fn what_is_there_and_no_pack_is_left_alone_and_a_pack_is_made_anew() {
    let scene = Scene::new();
    let precious = scene.file("precious", "a letter\n", 0o644);
    let ran = run(&mut pack_command("/bin/true", &precious, &[]));
    assert!(ran.code() == 1 && ran.err().contains("no pack: left alone"), "{}", ran.err());
    assert_eq!(fs::read_to_string(&precious).unwrap(), "a letter\n");
    let packed = Packed::of(scene, "/bin/true");
    let again = Packed::of(packed.scene, "/bin/true");
    again.assert_same(&[]);
}
