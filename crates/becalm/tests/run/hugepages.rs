//! `becalm run --hugepages`: malloc asks for huge pages, in whatever the command starts.

use std::process::Command;

use crate::BECALM;
use testkit::run;

fn becalm(tunables: Option<&str>, words: &[&str]) -> Command {
    let mut becalm = Command::new(BECALM);
    becalm.args(["run", "--hugepages"]).args(words).env_remove("GLIBC_TUNABLES");
    if let Some(tunables) = tunables {
        becalm.env("GLIBC_TUNABLES", tunables);
    }
    becalm
}

#[test]
fn the_tunable_is_appended_and_a_value_of_the_user_stays() {
    let said =
        |tunables| run(&mut becalm(tunables, &["--", "sh", "-c", "echo $GLIBC_TUNABLES"])).out();
    assert_eq!(said(None), "glibc.malloc.hugetlb=1\n");
    assert_eq!(
        said(Some("glibc.malloc.perturb=0")),
        "glibc.malloc.perturb=0:glibc.malloc.hugetlb=1\n"
    );
    assert_eq!(said(Some("glibc.malloc.hugetlb=0")), "glibc.malloc.hugetlb=0\n");
}

#[test]
fn what_a_shell_holds_is_advised_to_be_in_huge_pages() {
    let script = "printf -v big '%*s' 50000000 x; grep -c '^VmFlags:.* hg' /proc/$$/smaps";
    let ran = run(&mut becalm(None, &["--", "bash", "-c", script]));
    // Where the kernel has all memory in huge pages unasked, glibc does not ask (malloc's ptmalloc_init).
    let kernels = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
    assert_eq!(ran.out() == "0\n", kernels.contains("[always]"), "{}", ran.out());
    let plain = run(Command::new("bash").args(["-c", script]).env_remove("GLIBC_TUNABLES"));
    assert_eq!(plain.out(), "0\n");
}

#[test]
fn a_program_that_takes_no_notice_is_named_and_run_all_the_same() {
    let ran = run(&mut becalm(None, &["--json", "--", BECALM, "--version"]));
    assert_eq!(ran.code(), 0);
    assert!(ran.err().contains("statically"), "{}", ran.err());
}
