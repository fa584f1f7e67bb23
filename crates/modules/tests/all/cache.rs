//! A `.modulecache` of the real Modules: read, checked, built, repaired, published.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::{ModuleTree, modern_modules};
use modules::cache::{self, CacheBuildError, Checked, FaultKind, NAME, Occasion};
use modules::site::{Environment, ModulesSite, User};
use modules::tree::{WalkLimits, walk};

/// One test at a time: becalm's helpers fork, and are called while nothing else runs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A Modules that every user can run: the one of setup/modern-modules may be in root's home.
fn everyones(scene: &ModuleTree, name: &str) -> ModulesSite {
    let from = modern_modules().join(name);
    let to = scene.at(name);
    assert!(from.join("modulecmd.tcl").exists(), "run setup/modern-modules");
    let script = format!(
        "umask 022; cp -rL {from} {to}; chmod -R a+rX {to}; grep -rIl {from} {to} | xargs sed -i s:{from}:{to}:g",
        from = from.display(),
        to = to.display()
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    ModulesSite::at(&to.join("modulecmd.tcl"), &Environment::default()).unwrap()
}

/// A tree for the newest Modules, while no other test runs.
fn newest() -> (MutexGuard<'static, ()>, ModuleTree, ModulesSite) {
    let (alone, scene) = (alone(), ModuleTree::new());
    let site = everyones(&scene, "newest");
    (alone, scene, site)
}

fn stock(site: &ModulesSite, modulepath: &Path) {
    let done = Command::new(&site.tclsh)
        .arg(&site.command)
        .args(["sh", "cachebuild"])
        .arg(modulepath)
        .output()
        .unwrap();
    assert!(modulepath.join(NAME).exists(), "{done:?}");
}

/// What `avail -a -l` prints for a user.
fn avail(site: &ModulesSite, modulepath: &Path, user: u32, options: &[&str]) -> String {
    let done = Command::new("setpriv")
        .args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups"])
        .arg(&site.tclsh)
        .arg(&site.command)
        .arg("sh")
        .args(options)
        .args(["avail", "-a", "-l"])
        .env("MODULEPATH", modulepath)
        .env("HOME", "/")
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn built(modulepath: &Path, site: &ModulesSite) -> Result<cache::PublishedCache, CacheBuildError> {
    let users = cache::users(&walk(modulepath, WalkLimits::default())).unwrap();
    cache::build(modulepath, site, &users, &occasion(modulepath), &|_, _| {})
}

/// What is replaced can be undone, by a state directory beside the tree.
fn occasion(modulepath: &Path) -> Occasion<'static> {
    Occasion {
        journal: remedy::Options::new(modulepath.with_extension("state")),
        is_upkeep: false,
        under: None,
    }
}

fn kinds(checked: &Checked) -> BTreeSet<FaultKind> {
    checked.faults.iter().map(|fault| fault.kind).collect()
}

fn kind_of(checked: &Checked, name: &str) -> Option<FaultKind> {
    let mut about = checked.faults.iter().filter(|fault| fault.name.as_deref() == Some(name));
    about.next().map(|fault| fault.kind)
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether other users can be had. Where tests must be whole, they must.
fn root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || std::env::var_os("CI").is_none(), "this needs root");
    is_root
}

/// Names that need quotes, nested rc files, strays, and a modulefile of a newer release.
fn nasty(scene: &ModuleTree) -> PathBuf {
    scene.module("tree/gcc/12.2");
    scene.module("tree/gcc/13");
    scene.file("tree/gcc/.version", "#%Module\nset ModulesVersion 12.2\n");
    scene.file("tree/.modulerc", "#%Module\nmodule-alias cc gcc/13\n");
    scene.module("tree/with space/1 0");
    scene.module("tree/br{ce/}x");
    scene.module("tree/$home/[exit]");
    scene.module("tree/semi;colon/\"q\"");
    scene.module("tree/back\\slash/x\\");
    scene.module("tree/-dash/--version");
    scene.module("tree/ünï/ß");
    scene.module("tree/#hash/#1");
    scene.file("tree/braces/1", "#%Module\nif {1} {\n set x \"}\" \n}\n# { \\\n");
    scene.file("tree/crlf/1", "#%Module\r\nset x 1\r\n");
    scene.file("tree/latin/1", "#%Module\nmodule-whatis caf\u{e9}\n");
    fs::write(scene.at("tree/latin/2"), b"#%Module\nmodule-whatis caf\xe9\n").unwrap();
    scene.file("tree/README", "no modulefile\n");
    scene.file("tree/empty/1", "");
    scene.file("tree/new/9", "#%Module99\n");
    scene.at("tree")
}

#[test]
fn what_the_stock_cachebuild_writes_is_read_and_found_good() {
    let _alone = alone();
    for name in ["5.5", "newest"] {
        let scene = ModuleTree::new();
        let site = everyones(&scene, name);
        let tree = nasty(&scene);
        // What a cache cannot hold as it is.
        fs::remove_file(tree.join("crlf/1")).unwrap();
        fs::remove_file(tree.join("latin/2")).unwrap();
        stock(&site, &tree);
        let checked = cache::check(&tree, Some(&site));
        assert_eq!(checked.faults, [], "{name}");
        assert_eq!((checked.entries.modulefiles, checked.entries.rc_files), (12, 2), "{name}");
    }
}

#[test]
fn a_built_cache_gives_what_a_walk_gives_and_is_good() {
    let _alone = alone();
    for name in ["5.5", "newest"] {
        let scene = ModuleTree::new();
        let site = everyones(&scene, name);
        let tree = nasty(&scene);
        let built = built(&tree, &site).unwrap();
        assert!(!built.users.is_empty());
        // Line ends with CR and bytes that are no UTF-8 would be lost in the cache.
        assert_eq!(built.entries.limited_files, 2);
        assert_eq!(cache::check(&tree, Some(&site)).faults, []);
        let own = rustix::process::geteuid().as_raw();
        let cached = avail(&site, &tree, own, &[]);
        assert_eq!(cached, avail(&site, &tree, own, &["--ignore-cache"]));
        assert!(cached.contains("gcc/12.2"), "{cached}");
        let left: Vec<_> = fs::read_dir(&tree).unwrap().flatten().map(|e| e.file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().ends_with('~')), "{left:?}");
    }
}

#[test]
fn added_removed_and_edited_files_make_a_cache_stale() {
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    built(&tree, &site).unwrap();
    scene.module("tree/gcc/14");
    scene.file("tree/python/.modulerc", "#%Module\n");
    fs::remove_file(tree.join("gcc/12.2")).unwrap();
    fs::remove_file(tree.join("gcc/.version")).unwrap();
    scene.file("tree/gcc/13", "#%Module1.0\nmodule-whatis {b module}\n");
    scene.file("tree/README", "#%Module\n");
    let checked = cache::check(&tree, Some(&site));
    for name in ["gcc/14", "python/.modulerc", "gcc/12.2", "gcc/.version", "gcc/13", "README"] {
        assert_eq!(
            kind_of(&checked, name),
            Some(FaultKind::Stale),
            "{name}: {:#?}",
            checked.faults
        );
    }
    assert_eq!(checked.faults.len(), 6);
}

#[test]
fn an_edit_that_keeps_size_and_time_is_seen() {
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    built(&tree, &site).unwrap();
    let file = tree.join("gcc/13");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    scene.file("tree/gcc/13", "#%Module1.0\nmodule-whatis {A MODULE}\n");
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    let checked = cache::check(&tree, Some(&site));
    assert_eq!(kind_of(&checked, "gcc/13"), Some(FaultKind::Stale));
    assert_eq!(checked.faults.len(), 1);
}

#[test]
fn a_cache_that_was_cut_is_never_good() {
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    built(&tree, &site).unwrap();
    let whole = fs::read(tree.join(NAME)).unwrap();
    for length in 0..whole.len() {
        fs::write(tree.join(NAME), &whole[..length]).unwrap();
        let checked = cache::check(&tree, Some(&site));
        assert!(!checked.is_good(), "{length}: {:?}", String::from_utf8_lossy(&whole[..length]));
    }
    // At the end of an entry, what is missing tells.
    let end = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    fs::write(tree.join(NAME), &whole[..=end]).unwrap();
    chmod(&tree.join(NAME), 0o644);
    assert_eq!(kinds(&cache::check(&tree, Some(&site))), BTreeSet::from([FaultKind::Partial]));
}

#[test]
fn code_in_a_cache_is_named_and_never_run() {
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    built(&tree, &site).unwrap();
    let whole = fs::read_to_string(tree.join(NAME)).unwrap();
    let touched = scene.at("touched");
    let path = touched.display();
    let codes = [
        format!("exec touch {path}"),
        format!("modulerc-content [exec touch {path}] h b"),
        format!("modulerc-content \"[exec touch {path}]\" h b"),
        format!("limited-access-file x;exec touch {path}"),
        format!("limited-access-file {{x}};exec touch {path}"),
        "limited-access-file $x".to_owned(),
        "limited-access-file {*}x".to_owned(),
        "limited-access-file {*}{x}".to_owned(),
        "limited-access-file \\x41".to_owned(),
        "limited-access-file x\\\n y".to_owned(),
        format!("# comment \\\nexec touch {path}"),
        "modulefile-content ../../../etc/passwd 1 #%Module #%Module".to_owned(),
        "modulefile-content /etc/passwd 1 #%Module #%Module".to_owned(),
        "modulefile-content x 1 #%Module".to_owned(),
        "modulefile-content x soon #%Module #%Module".to_owned(),
        "limited-access-file a b c d e f g".to_owned(),
    ];
    for code in codes {
        fs::write(tree.join(NAME), format!("{whole}{code}\n")).unwrap();
        let checked = cache::check(&tree, Some(&site));
        assert_eq!(
            checked.faults.first().map(|fault| fault.kind),
            Some(FaultKind::Hostile),
            "{code}"
        );
        assert!(checked.faults[0].what.contains("line "), "{:?}", checked.faults[0]);
    }
    fs::write(tree.join(NAME), "#%Module5.3 \\\nexec touch x\n").unwrap();
    assert_eq!(kinds(&cache::check(&tree, Some(&site))), BTreeSet::from([FaultKind::Unused]));
    assert!(!touched.exists());
}

#[test]
fn a_cache_that_is_no_file_or_that_others_may_write_is_named() {
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    built(&tree, &site).unwrap();
    let cache = tree.join(NAME);
    let kinds = || kinds(&cache::check(&tree, Some(&site)));
    chmod(&cache, 0o664);
    assert_eq!(kinds(), BTreeSet::from([FaultKind::Untrusted]));
    chmod(&cache, 0o600);
    assert_eq!(kinds(), BTreeSet::from([FaultKind::Unused]));
    chmod(&cache, 0o644);
    if root() {
        chown(&cache, Some(65534), None).unwrap();
        assert_eq!(kinds(), BTreeSet::from([FaultKind::Untrusted]));
    }
    chmod(&tree, 0o777);
    assert!(kinds().contains(&FaultKind::Untrusted));
    assert!(matches!(self::built(&tree, &site), Err(CacheBuildError::Tree { .. })));
    chmod(&tree, 0o755);
    fs::remove_file(&cache).unwrap();
    assert_eq!(kinds(), BTreeSet::from([FaultKind::Absent]));
    assert!(Command::new("mkfifo").arg(&cache).status().unwrap().success());
    assert_eq!(kinds(), BTreeSet::from([FaultKind::Hostile]));
    fs::remove_file(&cache).unwrap();
    fs::create_dir(&cache).unwrap();
    assert_eq!(kinds(), BTreeSet::from([FaultKind::Hostile]));
}

#[test]
fn what_not_everyone_may_read_is_told_of_the_stock_cache_and_not_in_a_built_one() {
    if !root() {
        return;
    }
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    let secret = |name: &str| scene.file(name, "#%Module\nsetenv S3CRET {of mine}\n");
    chmod(&secret("tree/mode/0604"), 0o604);
    chown(tree.join("mode/0604"), Some(1234), Some(65534)).unwrap();
    let acl = secret("tree/acl/1");
    let denied = Command::new("setfacl").args(["-m", "u:65534:---"]).arg(&acl).status().unwrap();
    assert!(denied.success());
    secret("private/open/1");
    chmod(&scene.at("private"), 0o700);
    symlink(scene.at("private/open/1"), scene.at("tree/link")).unwrap();
    symlink(scene.at("private/open"), scene.at("tree/linked")).unwrap();
    secret("tree/closed/a/1");
    chmod(&tree.join("closed"), 0o750);
    let names = ["mode/0604", "acl/1", "link", "linked/1"];

    stock(&site, &tree);
    let stocked = fs::read_to_string(tree.join(NAME)).unwrap();
    assert_eq!(stocked.matches("S3CRET").count(), 4, "the stock cache got better");
    let checked = cache::check(&tree, Some(&site));
    for name in names {
        assert_eq!(
            kind_of(&checked, name),
            Some(FaultKind::Disclosing),
            "{name}: {:#?}",
            checked.faults
        );
    }

    let built = built(&tree, &site).unwrap();
    assert_eq!(built.repaired, 4);
    assert!(!fs::read_to_string(tree.join(NAME)).unwrap().contains("S3CRET"));
    assert_eq!(cache::check(&tree, Some(&site)).faults, []);
    for user in [0, 65534, 1234] {
        let cached = avail(&site, &tree, user, &[]);
        assert_eq!(cached, avail(&site, &tree, user, &["--ignore-cache"]), "{user}");
        assert!(cached.contains("gcc/13"), "{user}: {cached}");
        assert_eq!(cached.contains("acl/1"), user != 65534, "{user}: {cached}");
    }
}

#[test]
fn below_a_modulepath_of_a_group_each_file_is_looked_at() {
    if !root() {
        return;
    }
    let (_alone, scene, site) = newest();
    scene.module("tree/gcc/13");
    let secret = scene.file("tree/own/1", "#%Module\nsetenv S3CRET x\n");
    chmod(&secret, 0o600);
    let tree = scene.at("tree");
    chown(&tree, None, Some(1234)).unwrap();
    chmod(&tree, 0o750);
    stock(&site, &tree);
    assert_eq!(kind_of(&cache::check(&tree, Some(&site)), "own/1"), Some(FaultKind::Disclosing));
    let member = User { name: "member".into(), user: 1234, group: 1234, groups: vec![1234] };
    let built = cache::build(&tree, &site, &[member], &occasion(&tree), &|_, _| {}).unwrap();
    assert_eq!(built.users, ["member"]);
    assert_eq!(cache::check(&tree, Some(&site)).faults, []);
    assert!(!fs::read_to_string(tree.join(NAME)).unwrap().contains("S3CRET"));
}

#[test]
fn root_builds_as_the_owner_of_the_modulepath() {
    if !root() {
        return;
    }
    let (_alone, scene, site) = newest();
    scene.module("tree/gcc/13");
    let who = scene.at("who");
    fs::create_dir(&who).unwrap();
    chmod(&who, 0o777);
    let rc = format!("#%Module\nclose [open {}/[exec id -u] w]\n", who.display());
    let rc = scene.file("tree/.modulerc", &rc);
    let tree = scene.at("tree");
    chown(&tree, Some(1234), Some(1234)).unwrap();
    chown(&rc, Some(1234), Some(1234)).unwrap();
    let one = [User { name: "1234".into(), user: 1234, group: 1234, groups: vec![1234] }];
    cache::build(&tree, &site, &one, &occasion(&tree), &|_, _| {}).unwrap();
    let ran: Vec<_> = fs::read_dir(&who).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(ran, ["1234"]);
    chown(&rc, Some(4321), None).unwrap();
    assert!(matches!(
        cache::build(&tree, &site, &one, &occasion(&tree), &|_, _| {}),
        Err(CacheBuildError::Tree { .. })
    ));
}

#[test]
fn a_tree_that_would_hang_cachebuild_is_refused() {
    let (_alone, scene, site) = newest();
    scene.module("tree/gcc/13");
    let tree = scene.at("tree");
    let fifo = tree.join("gcc/fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(matches!(built(&tree, &site), Err(CacheBuildError::Tree { path, .. }) if path == fifo));
    fs::remove_file(&fifo).unwrap();
    symlink("..", tree.join("gcc/loop")).unwrap();
    assert!(matches!(built(&tree, &site), Err(CacheBuildError::Tree { .. })));
}

#[test]
fn a_site_that_takes_no_extra_configuration_keeps_the_cache_it_has() {
    let (_alone, scene, site) = newest();
    let config = site.setting("siteconfig").unwrap().to_owned();
    fs::write(config, "lappendConf locked_configs extra_siteconfig\n").unwrap();
    scene.module("tree/gcc/13");
    scene.file("tree/.modulecache", "old\n");
    let tree = scene.at("tree");
    let error = built(&tree, &site).unwrap_err();
    assert!(matches!(error, CacheBuildError::Locked { .. }), "{error}");
    assert_eq!(fs::read_to_string(tree.join(NAME)).unwrap(), "old\n");
}

#[test]
fn a_cache_for_another_release_is_named() {
    let (_alone, scene) = (alone(), ModuleTree::new());
    let (old, new) = (everyones(&scene, "5.5"), everyones(&scene, "newest"));
    scene.module("tree/gcc/13");
    scene.file("tree/needs/1", "#%Module5.6\n");
    let tree = scene.at("tree");
    stock(&new, &tree);
    let checked = cache::check(&tree, Some(&old));
    assert_eq!(
        kind_of(&checked, "needs/1"),
        Some(FaultKind::ForeignVersion),
        "{:#?}",
        checked.faults
    );
    stock(&old, &tree);
    let checked = cache::check(&tree, Some(&new));
    assert_eq!(kind_of(&checked, "needs/1"), Some(FaultKind::Stale), "{:#?}", checked.faults);
    let text = fs::read_to_string(tree.join(NAME)).unwrap();
    fs::write(tree.join(NAME), text.replacen("#%Module5.5", "#%Module99.1", 1)).unwrap();
    let checked = cache::check(&tree, Some(&old));
    assert!(kinds(&checked).contains(&FaultKind::ForeignVersion), "{:#?}", checked.faults);
}

#[test]
fn a_cache_wants_to_be_built_only_where_it_is_not_good() {
    let (_alone, scene, site) = newest();
    let tree = nasty(&scene);
    let wants_build = || cache::check(&tree, Some(&site)).wants_build();
    let build = || cache::build(&tree, &site, &[], &occasion(&tree), &|_, _| {}).unwrap();
    assert!(wants_build());
    build();
    assert!(!wants_build());
    scene.module("tree/gcc/15");
    assert!(wants_build());
    build();
    assert!(!wants_build());
}

#[test]
fn no_bytes_make_a_check_panic() {
    let _alone = alone();
    let good = b"#%Module5.3\nmodulefile-content a/1 1 #%Module {#%Module\n{ x } \\} }\n";
    assert_eq!(cache::parse(good).unwrap().entries.len(), 1);
    for at in 0..good.len() {
        for byte in [0, b'\n', b'{', b'}', b'\\', b'"', b'[', b' ', 0xff] {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            let _ = cache::parse(&bytes);
        }
    }
}
