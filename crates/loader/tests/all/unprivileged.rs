//! A user who may not read everything: the loader is refused, and the model is as well.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::real::Run;
use crate::real::build::{Workshop, rpath, run};

/// Who runs [`as_that_user`].
const NOBODY: &str = "65534";

#[test]
fn what_may_not_be_read_is_passed_over() {
    let shop = Workshop::new();
    let library = shop.library("open/libany.so", &[], &[]);
    for name in ["closed", "file", "hidden"] {
        shop.library(&format!("{name}/libany.so"), &[], &[]);
    }
    let forbid = |name: &str, mode| {
        fs::set_permissions(shop.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let all = ["closed", "closed/deeper", "file", "open"].map(|name| shop.path(name));
    let list = all.map(|path| path.to_str().unwrap().to_owned()).join(":");
    shop.program("one", &[&library], &[&rpath(&list)]);
    let hidden = shop.path("hidden").to_str().unwrap().to_owned();
    shop.program("two", &[&library], &[&rpath(&hidden)]);
    forbid("closed", 0o700);
    forbid("file/libany.so", 0o600);
    forbid("hidden", 0o711); // to be entered, not to be listed
    forbid("", 0o755);
    // The test program itself may lie where others cannot reach.
    let test = shop.path("test");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(test);
    command.args(["--ignored", "--exact", "unprivileged::as_that_user"]).env("SHOP", shop.path(""));
    run(&mut command);
}

#[test]
#[ignore = "for the test above, which runs it as another user"]
fn as_that_user() {
    let shop = std::env::var_os("SHOP").unwrap();
    for name in ["one", "two"] {
        Run::of(Path::new(&shop).join(name)).assert_true();
    }
}
