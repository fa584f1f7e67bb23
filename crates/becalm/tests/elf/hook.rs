//! `becalm elf hook`: EasyBuild binds what it has installed. Spack is in no package registry: its
//! command is run with a stand-in for the one module of Spack's that it uses.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::bound::{Site, start};
use testkit::{Ran, installed, run};

/// Where EasyBuild will install `app`, in the tree.
const PREFIX: &str = "eb/software/app/1.0";

/// A program of a package and its library, built for where they will be, as a source archive.
fn package(site: &Site) {
    site.part("source", "x", &[]);
    let rpath = site.rpath(&["nowhere", &format!("{PREFIX}/lib")]);
    site.ask("source", &[&rpath, "source/lib/libx.so.1"]);
    let (source, archive) = (site.at("source"), site.scene.at("app-1.0.tar.gz"));
    let packed = run(Command::new("tar").args(["-C", &source, "-czf", &archive, "bin", "lib"]));
    assert_eq!(packed.code(), 0, "{}", packed.err());
    fs::remove_dir_all(source).unwrap();
}

/// Installs it as `eb` does, with what becalm prints as the hooks.
fn install(site: &Site) -> Ran {
    let hooks = site.scene.file("hooks.py", site.says(&["elf", "hook", "easybuild"]), 0o644);
    let easyconfig = "easyblock = 'Tarball'\nname = 'app'\nversion = '1.0'\n\
        homepage = 'https://example.org'\ndescription = 'An app'\ntoolchain = SYSTEM\n\
        sources = ['%(name)s-%(version)s.tar.gz']\nmoduleclass = 'tools'\n\
        sanity_check_paths = {'files': ['bin/ask'], 'dirs': ['lib']}\n\
        sanity_check_commands = ['ask x']\n";
    let easyconfig = site.scene.file("app-1.0.eb", easyconfig, 0o644);
    let python = installed::easybuild_python();
    let mut bash = Command::new("bash");
    bash.args(["-c", ". /usr/share/modules/init/bash; exec \"$@\"", "bash"]);
    bash.arg(python.with_file_name("eb")).env("EB_PYTHON", python);
    bash.arg("--allow-use-as-root-and-accept-consequences");
    bash.args(["--modules-tool=EnvironmentModules", "--module-syntax=Tcl", "--force"]);
    bash.arg(format!("--prefix={}", site.at("eb")));
    bash.arg(format!("--sourcepath={}", site.scene.directory().display()));
    bash.arg(format!("--hooks={hooks}")).arg(easyconfig);
    bash.current_dir(site.scene.directory()).env("HOME", site.scene.at("home"));
    bash.env("XDG_STATE_HOME", site.scene.at("state")).env("PYTHONDONTWRITEBYTECODE", "1");
    run(&mut bash)
}

#[test]
fn easybuild_binds_what_it_has_installed_and_undo_takes_it_back() {
    let site = Site::new();
    package(&site);
    let installed = install(&site);
    let said = installed.out() + &installed.err();
    assert_eq!(installed.code(), 0, "{said}");
    assert!(said.contains("becalm elf bind: Bound "), "{said}");
    let app = site.at(&format!("{PREFIX}/bin/ask"));
    assert_eq!(start(&app, &["x"]).in_vain(), 0);
    site.undo();
    assert!(start(&app, &["x"]).in_vain() > 0);
}

#[test]
fn easybuild_binds_nothing_while_something_else_is_installed() {
    let site = Site::new();
    package(&site);
    let lock = site.at("eb/software/.locks/other.lock");
    fs::create_dir_all(&lock).unwrap();
    let installed = install(&site);
    let said = installed.out() + &installed.err();
    assert_eq!(installed.code(), 0, "{said}");
    assert!(said.contains("not bound while something else is installed"), "{said}");
    let app = site.at(&format!("{PREFIX}/bin/ask"));
    assert!(start(&app, &["x"]).in_vain() > 0);
}

#[test]
fn easybuilds_installation_stays_if_it_cannot_be_bound() {
    let site = Site::new();
    package(&site);
    // Where nothing can be kept to undo, nothing is bound.
    site.scene.file("state", "", 0o644);
    let installed = install(&site);
    let said = installed.out() + &installed.err();
    assert_eq!(installed.code(), 0, "{said}");
    assert!(said.contains("WARNING: becalm elf bind: becalm: "), "{said}");
    assert!(Path::new(&site.at("eb/modules/all/app/1.0")).exists());
}

/// Both ways in which releases of Spack name their install tree.
#[test]
fn the_command_of_spack_binds_its_install_tree() {
    for store in ["root = {}", "class STORE: root = {}"] {
        let site = Site::new();
        let app = site.store(20, &[]);
        let library = site.scene.subdirectory("lib");
        site.scene.subdirectory("lib/spack");
        site.scene.file("lib/spack/__init__.py", "", 0o644);
        let root = format!("'{}'", site.tree());
        site.scene.file("lib/spack/store.py", store.replace("{}", &root), 0o644);
        site.scene.file("bind.py", site.says(&["elf", "hook", "spack"]), 0o644);
        // What Spack does with a command of an extension's.
        let spack = "import argparse, sys, bind\n\
            parser = argparse.ArgumentParser(description=bind.description)\n\
            bind.setup_parser(parser)\n\
            sys.exit(bind.bind(parser, parser.parse_args()))\n";
        let spack = site.scene.file("spack", spack, 0o644);
        let spack = |options: &[&str]| {
            let mut python = Command::new("python3");
            python.arg(&spack).args(options).env("PYTHONPATH", &library);
            let ran = run(python.env("XDG_STATE_HOME", site.scene.at("state")));
            assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
            ran.out()
        };
        assert!(spack(&["--dry-run"]).starts_with("Would bind 21 files"));
        assert!(spack(&[]).starts_with("Bound 21 files"));
        assert_eq!(start(&app, &[]).in_vain(), 0);
        site.undo();
    }
}

#[test]
fn a_hook_binds_as_it_is_told_and_is_not_made_where_elf_bind_would_refuse() {
    let site = Site::new();
    let made =
        site.says(&["elf", "hook", "spack", "--", "--mode", "farm", "--leave", "libm'pi\"*"]);
    assert!(
        made.contains(r#", "elf", "bind", "--mode", "farm", "--leave", "libm'pi\"*"]"#),
        "{made}"
    );
    for wrong in [&["--grwo"][..], &["/usr"], &["--dry-run"], &["--help"], &["--overridable"]] {
        let (status, said) = site.fails(&[&["elf", "hook", "easybuild", "--"], wrong].concat());
        assert_eq!(status, 2, "{said}");
    }
}

#[test]
fn a_hook_in_json_is_the_same_file() {
    let site = Site::new();
    let (said, data) = (["elf", "hook", "easybuild"], ["elf", "hook", "--json", "easybuild"]);
    let data = testkit::answer::parse(site.says(&data));
    assert_eq!(data["code"], site.says(&said));
}
