//! Other machines, byte orders and loaders: s390x (big-endian, run by qemu) and musl.

use std::fs;
use std::path::Path;

use loader::edit::{EditRequest, EditRoom, ElfIdentity, NeededEdit, SearchPathEdit, Tier, stub};
use tempfile::TempDir;

use crate::toolchain::{checked_edit, install, names, needed, run, tool};

/// `int main(void) { puts("hi"); return 0; }`. Debian's cross compilers cannot be installed beside
/// its compiler for i386, the assembler can.
const PROGRAM: &str = "
    .globl main
    main:
        stmg %r14,%r15,112(%r15)
        lay %r15,-160(%r15)
        larl %r2,text
        brasl %r14,puts@PLT
        lghi %r2,0
        lmg %r14,%r15,272(%r15)
        br %r14
    .section .rodata
    .align 2
    text: .asciz \"hi\"
    .section .note.GNU-stack,\"\",@progbits
";

const SYSROOT: &str = "/usr/s390x-linux-gnu/lib";

fn big_endian_program(directory: &TempDir, flags: &[&str]) -> String {
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("p.s"), PROGRAM).unwrap();
    tool("s390x-linux-gnu-as", &[&at("p.s"), "-o", &at("p.o")]);
    let start = ["crt1.o", "crti.o", "crtn.o"].map(|name| format!("{SYSROOT}/{name}"));
    let (program, object) = (at("program"), at("p.o"));
    let mut link = vec!["-dynamic-linker", "/lib/ld64.so.1", "-o", &program, &object];
    link.extend(start.iter().map(String::as_str));
    link.extend(["-L", SYSROOT, "-l:libc.so.6"]);
    link.extend(flags);
    tool("s390x-linux-gnu-ld", &link);
    program
}

fn run_big_endian(program: &str) -> Vec<u8> {
    let arguments = ["-L", "/usr/s390x-linux-gnu", program];
    let output = run(Path::new("qemu-s390x-static"), &arguments, &[]);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn big_endian_programs_run_with_absolute_names() {
    let rpath = "-rpath=/opt/a/long/path/of/a/package/that/makes/room/for/the/names/lib";
    for (flags, tier) in [(&[rpath, "--hash-style=sysv"][..], Tier::DeadBytes), (&[], Tier::Slack)]
    {
        let directory = TempDir::new().unwrap();
        let program = big_endian_program(&directory, flags);
        assert_eq!(run_big_endian(&program), b"hi\n");
        let libc = format!("{SYSROOT}/libc.so.6");
        let position = needed(program.as_ref()).iter().position(|name| name == "libc.so.6");
        let needed_now =
            NeededEdit::Replace([(position.unwrap(), libc.clone().into_bytes())].into());
        let request = EditRequest { needed: needed_now, search: SearchPathEdit::Remove };
        let bytes = fs::read(&program).unwrap();
        let (edited, after) = checked_edit(&bytes, &request, EditRoom::default()).unwrap();
        assert_eq!(edited.tier, tier);
        install(program.as_ref(), &after);
        assert!(needed(program.as_ref()).contains(&libc));
        assert_eq!(run_big_endian(&program), b"hi\n");
        tool("s390x-linux-gnu-strip", &[&program]);
        assert_eq!(run_big_endian(&program), b"hi\n");
    }
}

#[test]
fn big_endian_stubs_load() {
    let directory = TempDir::new().unwrap();
    let program = big_endian_program(&directory, &["-rpath=/opt/a/long/path/of/a/package/lib"]);
    let bytes = fs::read(&program).unwrap();
    let libc = format!("{SYSROOT}/libc.so.6").into_bytes();
    let made = stub(&ElfIdentity::of(&bytes).unwrap(), b"closure.so", std::slice::from_ref(&libc))
        .unwrap();
    let closure = directory.path().join("closure.so");
    install(&closure, &made);
    let list = NeededEdit::List {
        names: vec![closure.to_str().unwrap().as_bytes().to_vec()],
        providers: [(b"libc.so.6".to_vec(), libc)].into(),
    };
    let request = EditRequest { needed: list, search: SearchPathEdit::Remove };
    let (_, after) = checked_edit(&bytes, &request, EditRoom::default()).unwrap();
    install(program.as_ref(), &after);
    assert_eq!(run_big_endian(&program), b"hi\n");
}

#[test]
fn musl_loads_edited_programs_and_stubs() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("a.c"), "int a(void) { return 3; }").unwrap();
    fs::write(at("m.c"), "int a(void);\nint main(void) { return a(); }").unwrap();
    tool(
        "musl-gcc",
        &["-shared", "-fPIC", &at("a.c"), "-o", &at("liba.so"), "-Wl,-soname,liba.so"],
    );
    tool("musl-gcc", &[&at("m.c"), "-o", &at("program"), &at("liba.so")]);
    let bytes = fs::read(at("program")).unwrap();
    let position = needed(at("program").as_ref()).iter().position(|name| name == "liba.so");
    let position = position.unwrap();
    let replace = NeededEdit::Replace([(position, at("liba.so").into_bytes())].into());
    let (_, after) = checked_edit(&bytes, &names(replace), EditRoom::default()).unwrap();
    install(at("program").as_ref(), &after);
    assert_eq!(run(at("program").as_ref(), &[], &[]).status.code(), Some(3));

    let like = ElfIdentity::of(&bytes).unwrap();
    let made = stub(&like, b"closure.so", &[at("liba.so").into_bytes()]).unwrap();
    install(at("closure.so").as_ref(), &made);
    let list = NeededEdit::List {
        names: vec![at("closure.so").into_bytes(), b"libc.so".to_vec()],
        providers: [].into(),
    };
    let (_, after) = checked_edit(&bytes, &names(list), EditRoom::default()).unwrap();
    install(at("program").as_ref(), &after);
    assert_eq!(run(at("program").as_ref(), &[], &[]).status.code(), Some(3));
}

/// Longer than any slack.
fn long_rpath() -> SearchPathEdit {
    SearchPathEdit::Rpath(format!("/{}", "nowhere/".repeat(1000)).into_bytes())
}

/// qemu says where the program headers are as Linux before 5.18 did: as far behind the first
/// segment's beginning as they are in the file.
#[test]
fn big_endian_programs_run_with_a_segment_more() {
    let directory = TempDir::new().unwrap();
    let program = big_endian_program(&directory, &["-rpath=/opt"]);
    let bytes = fs::read(&program).unwrap();
    let request = EditRequest { needed: NeededEdit::Keep, search: long_rpath() };
    let (edited, after) = checked_edit(&bytes, &request, EditRoom { grow: true }).unwrap();
    assert_eq!(edited.tier, Tier::Grown);
    install(program.as_ref(), &after);
    assert_eq!(run_big_endian(&program), b"hi\n");
    tool("s390x-linux-gnu-strip", &[&program]);
    assert_eq!(run_big_endian(&program), b"hi\n");
}

#[test]
fn musl_loads_programs_and_libraries_with_a_segment_more() {
    for linker in ["bfd", "gold", "lld", "mold"] {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (linker, rpath) = (format!("-fuse-ld={linker}"), format!("-Wl,-rpath,{}", at("")));
        fs::write(at("a.c"), "int a(void) { return 3; }").unwrap();
        fs::write(at("m.c"), "int a(void);\nint main(void) { return a(); }").unwrap();
        let library = [&at("a.c"), "-shared", "-fPIC", "-o", &at("liba.so"), &linker, &rpath];
        tool("musl-gcc", &library);
        tool("musl-gcc", &[&at("m.c"), "-o", &at("program"), &at("liba.so"), &linker, &rpath]);
        for name in ["program", "liba.so"] {
            let bytes = fs::read(at(name)).unwrap();
            let request = EditRequest { needed: NeededEdit::Keep, search: long_rpath() };
            let (edited, after) = checked_edit(&bytes, &request, EditRoom { grow: true }).unwrap();
            assert_eq!(edited.tier, Tier::Grown, "{linker} {name}");
            install(at(name).as_ref(), &after);
        }
        assert_eq!(run(at("program").as_ref(), &[], &[]).status.code(), Some(3), "{linker}");
    }
}
