//! A Python environment with numpy and scipy under `becalm run --image`, and pip on top of it.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use crate::BECALM;
use testkit::imaged::{As, Imaged, as_rank, ways};
use testkit::user::{is_root, scene_for_a_user};
use testkit::{Live, run};

#[test]
fn ranks_import_from_the_image_under_its_own_path_and_pip_installs_on_top() {
    let env = Imaged::environment();
    // Gone from disk: what is imported comes from the image.
    fs::remove_dir_all(format!("{}/lib", env.directory)).unwrap();
    let import = "exec \"$0/bin/python\" -c 'import numpy, scipy.linalg, sys
print(sys.prefix, numpy.__file__)'";
    let expected =
        format!("{0} {0}/lib/python3.11/site-packages/numpy/__init__.py\n", env.directory);
    for who in ways() {
        let ranks: Vec<Live> =
            (0..4).map(|_| Live::start(&mut env.sh(who, &["--check", "no"], import))).collect();
        for rank in ranks {
            let ran = rank.end();
            assert_eq!(ran.out().replace("python3.12", "python3.11"), expected, "{}", ran.err());
        }
    }
    installs_on_top(&env);
}

#[test]
fn check_advises_no_image_of_what_runs_in_one() {
    let env = Imaged::environment();
    let import = ["-c", "import numpy, scipy.linalg, scipy.sparse, scipy.stats"];
    let python = format!("{}/bin/python", env.directory);
    let next = |words: &[&str]| {
        let mut command = Command::new(BECALM);
        command.args(["check", "--json", "--"]).args(words).args([&python]).args(import);
        let ran = run(&mut command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let told: serde_json::Value = serde_json::from_str(&ran.out()).unwrap();
        let wait = told["predicted_wait"]["one_rank"].as_f64().unwrap();
        (wait, format!("{}{}", told["cures"], told["looks"]))
    };
    let (before, advised) = next(&[]);
    assert!(advised.contains("becalm image build") || advised.contains("becalm fix"), "{advised}");
    let (after, advised) = next(&[BECALM, "run", "--image", &env.image, "--check", "no", "--"]);
    assert!(after * 2.0 < before, "{before} {after}");
    assert!(!advised.contains("image build"), "{advised}");
}

/// Where packages lie: an environment below what is packed, a source tree, site-packages itself.
const LAYOUTS: [&[&str]; 3] = [
    &["a/lib/python3.11/site-packages", "a/lib/python3.11/site-packages/package/sub", "a/bin"],
    &["src/package/deep/er", "tests"],
    &["package", "package-1.0.dist-info"],
];

/// What may be done to a directory `$0`, or to a file `$0`.
const TO_DIRECTORIES: [&str; 5] = [
    "echo > \"$0/new.py\"",
    "mkdir \"$0/new\"",
    "rm \"$0/module.py\"",
    "cp -p \"$0/module.py\" \"$0/.part\"; mv \"$0/.part\" \"$0/module.py\"",
    "mv \"$0/data\" \"$0/other\"",
];
const TO_FILES: [&str; 3] = ["echo >> \"$0\"", "touch \"$0\"", "rm \"$0\"; echo changed > \"$0\""];

fn shell(script: &str, path: &str) {
    let ran = run(Command::new("sh").args(["-c", script, path]));
    assert_eq!(ran.code(), 0, "{script} {path}: {}", ran.err());
}

/// A packed tree of this layout, and a copy of it to go back to.
fn packed(layout: &[&str], traced: bool) -> (Imaged, String) {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("packed");
    for path in layout {
        let path = format!("{directory}/{path}");
        fs::create_dir_all(&path).unwrap();
        for name in ["module.py", "lib.so.1", "paths.pth", "data"] {
            fs::write(format!("{path}/{name}"), "one").unwrap();
        }
        fs::write(format!("{path}/__init__.py"), "").unwrap();
    }
    shell("find \"$0\" -exec touch -d '2 days ago' {} +", &directory);
    let (image, pristine) = (scene.at("image.sqsh"), scene.at("pristine"));
    shell(&format!("cp -a \"$0\" '{pristine}'"), &directory);
    let reads =
        "find \"$0\" \\( -name '*.py' -o -name '*.so.1' -o -name '*.pth' \\) -exec cat {} +";
    let mut build = Command::new(BECALM);
    build.args(["image", "build", "-o", &image, &directory]);
    if traced {
        build.args(["--", "sh", "-c", reads, &directory]);
    }
    let built = run(&mut build);
    assert_eq!(built.code(), 0, "{}", built.err());
    (Imaged { scene, directory, image }, pristine)
}

#[test]
fn what_changes_at_any_depth_is_seen_or_refused_and_never_old() {
    for (layout, traced) in LAYOUTS.iter().flat_map(|layout| [(layout, true), (layout, false)]) {
        let (env, pristine) = packed(layout, traced);
        let of_files = layout.iter().flat_map(|path| {
            let names = ["module.py", "__init__.py", "lib.so.1", "paths.pth"];
            names.map(|name| format!("{path}/{name}"))
        });
        let all = layout.iter().map(|path| ((*path).to_owned(), &TO_DIRECTORIES[..]));
        for (path, scripts) in all.chain(of_files.map(|path| (path, &TO_FILES[..]))) {
            for script in scripts {
                shell(script, &format!("{}/{path}", env.directory));
                let refused = env.refused(As::User, &[]);
                assert!(refused.contains("is older than what"), "{traced} {script}: {refused}");
                fs::remove_dir_all(&env.directory).unwrap();
                shell(&format!("cp -a '{pristine}' \"$0\""), &env.directory);
            }
        }
        // It was the change, each time.
        assert_eq!(env.said(As::User, &[], "echo ran"), "ran\n");
    }
}

#[test]
fn what_python_keeps_for_itself_is_no_change() {
    let (env, _) = packed(&["src/package", "src/package/__pycache__"], false);
    shell("echo > \"$0/src/package/__pycache__/more.pyc\"", &env.directory);
    assert_eq!(env.said(As::User, &[], "echo ran"), "ran\n");
}

#[test]
fn a_change_in_the_second_of_packing_is_seen() {
    for round in 0..3 {
        let env =
            Imaged::of("src", |directory| fs::write(directory.join("module.py"), "one").unwrap());
        let module = format!("{}/module.py", env.directory);
        match round {
            0 => fs::write(&module, "two").unwrap(),
            1 => fs::write(format!("{}/new.py", env.directory), "two").unwrap(),
            _ => fs::remove_file(&module).unwrap(),
        }
        let refused = env.refused(As::User, &[]);
        assert!(refused.contains("is older than what"), "{round}: {refused}");
    }
}

#[test]
fn a_command_that_starts_after_an_upgrade_does_not_join_a_mount_of_before() {
    if !is_root() {
        return;
    }
    let env = Imaged::of("src", |directory| fs::write(directory.join("module.py"), "one").unwrap());
    // A rank, a shell in a job, and one outside of any.
    let start = |line: &mut Command| {
        let mut first = Live::start(line);
        first.line();
        first
    };
    let line = || env.sh(As::RootByFuse, &[], "echo ready; read line");
    let of_job = |line: &mut Command| start(line.env("SLURM_JOB_ID", "4712"));
    let firsts = [start(as_rank(&mut line(), 0)), of_job(&mut line()), start(&mut line())];
    fs::write(format!("{}/module.py", env.directory), "two").unwrap();
    let next = || env.sh(As::RootByFuse, &[], "echo ran");
    // What may come after the edit by what its user has done: not the ranks that came with the first.
    for later in [&mut next(), next().env("SLURM_JOB_ID", "4712"), as_rank(&mut next(), 0)] {
        let ran = run(later);
        assert!(ran.err().contains("is older than what"), "{}", ran.err());
    }
    assert_eq!(run(as_rank(&mut next(), 1)).out(), "ran\n");
    // A minute and more later: a process whose clock since the node's start is ahead.
    let later = |options: &[&str]| {
        let line = env.sh(As::RootByFuse, options, "echo ran");
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", "100", "--"]).arg(line.get_program());
        run(as_rank(command.args(line.get_args()), 1))
    };
    assert!(later(&[]).err().contains("is older than what"));
    assert_eq!(later(&["--check", "no"]).out(), "ran\n");
    firsts.into_iter().for_each(|first| drop(first.end()));
}

/// A package of our own, without any network.
fn installs_on_top(env: &Imaged) {
    let package = env.scene.subdirectory("package");
    fs::write(
        format!("{package}/pyproject.toml"),
        "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n",
    )
    .unwrap();
    fs::write(format!("{package}/own.py"), BACKEND).unwrap();
    for who in ways() {
        let changes = env.scene.subdirectory(&format!("changes {who:?}"));
        if who == As::User {
            let _ = chown(&changes, Some(65534), Some(65534));
        }
        let options = ["--check", "no", "--overlay", &changes];
        let install = format!(
            "TMPDIR='{changes}' HOME='{changes}' \"$0/bin/python\" -m pip install -q --no-index \
             --no-build-isolation --disable-pip-version-check --no-cache-dir '{package}' 2>&1"
        );
        env.said(who, &options, &install);
        env.all_gone();
        // Kept, and seen by the next run; not in the image itself.
        let script = "\"$0/bin/python\" -c 'import becalm_added; print(becalm_added.__file__)'";
        let said = env.said(who, &options, script);
        assert!(said.starts_with(&env.directory), "{said}");
        env.all_gone();
        let without = run(&mut env.sh(who, &["--check", "no"], script));
        assert!(without.err().contains("ModuleNotFoundError"), "{}", without.err());
    }
}

/// The least backend that pip takes (PEP 517): a wheel with one module.
const BACKEND: &str = "
import zipfile

def build_wheel(directory, settings=None, metadata=None):
    name = 'becalm_added-1.0-py3-none-any.whl'
    files = {
        'becalm_added.py': '',
        'becalm_added-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: becalm_added\\nVersion: 1.0\\n',
        'becalm_added-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    }
    record = ''.join(f'{name},,\\n' for name in files)
    files['becalm_added-1.0.dist-info/RECORD'] = record
    with zipfile.ZipFile(f'{directory}/{name}', 'w') as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
";
