//! The Python API that the wheel brings does what its own tests say, with this program.

use std::path::Path;
use std::process::Command;

use crate::BECALM;
use testkit::{installed, run};

#[test]
fn the_python_api_holds_its_tests() {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/python");
    let path = std::env::var("PATH").unwrap();
    let becalm = Path::new(BECALM).parent().unwrap().display();
    let mut tests = Command::new(installed::packaging().join("bin/python3"));
    tests.args(["-W", "error", "-m", "unittest", "-v", "test_becalm"]).current_dir(api);
    tests.env("PATH", format!("{becalm}:{path}")).env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = run(&mut tests);
    assert!(ran.code() == 0 && ran.err().contains("\nOK"), "{}", ran.err());
    assert!(!ran.err().contains("skipped"), "{}", ran.err());
}
