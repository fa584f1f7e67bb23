//! A Python environment with numpy and scipy under `becalm run --image`, and pip on top of it.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use support::imaged::{As, Imaged, ways};
use support::scene::BECALM;
use support::{Live, run};

#[test]
fn ranks_import_from_the_image_under_its_own_path_and_pip_installs_on_top() {
    let env = Imaged::environment();
    // Gone from disk: what is imported comes from the image.
    fs::remove_dir_all(format!("{}/lib", env.folder)).unwrap();
    let import = "exec \"$0/bin/python\" -c 'import numpy, scipy.linalg, sys
print(sys.prefix, numpy.__file__)'";
    let expected = format!("{0} {0}/lib/python3.11/site-packages/numpy/__init__.py\n", env.folder);
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
fn check_does_not_advise_to_pack_what_runs_in_an_image() {
    let env = Imaged::environment();
    let import = ["-c", "import numpy, scipy.linalg, scipy.sparse, scipy.stats"];
    let python = format!("{}/bin/python", env.folder);
    let next = |words: &[&str]| {
        let mut command = Command::new(BECALM);
        command.args(["check", "--json", "--"]).args(words).args([&python]).args(import);
        let ran = run(&mut command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let told: serde_json::Value = serde_json::from_str(&ran.out()).unwrap();
        let mut storms = told["storms"].as_array().unwrap().iter();
        storms.find(|one| one["storm"] == "python").unwrap()["next"].to_string()
    };
    assert!(next(&[]).contains("becalm image build"));
    let inside = next(&[BECALM, "run", "--image", &env.image, "--"]);
    let said = format!("Nothing to pack: becalm ran the command in the image {}", env.image);
    assert!(inside.contains(&said) && !inside.contains("image build"), "{inside}");
}

/// A package of our own, without any network.
fn installs_on_top(env: &Imaged) {
    let package = env.scene.subfolder("package");
    fs::write(
        format!("{package}/pyproject.toml"),
        "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n",
    )
    .unwrap();
    fs::write(format!("{package}/own.py"), BACKEND).unwrap();
    for who in ways() {
        let changes = env.scene.subfolder(&format!("changes {who:?}"));
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
        assert!(said.starts_with(&env.folder), "{said}");
        env.all_gone();
        let without = run(&mut env.sh(who, &["--check", "no"], script));
        assert!(without.err().contains("ModuleNotFoundError"), "{}", without.err());
    }
}

/// The least backend that pip takes (PEP 517): a wheel with one module.
const BACKEND: &str = "
import zipfile

def build_wheel(folder, settings=None, metadata=None):
    name = 'becalm_added-1.0-py3-none-any.whl'
    files = {
        'becalm_added.py': '',
        'becalm_added-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: becalm_added\\nVersion: 1.0\\n',
        'becalm_added-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    }
    record = ''.join(f'{name},,\\n' for name in files)
    files['becalm_added-1.0.dist-info/RECORD'] = record
    with zipfile.ZipFile(f'{folder}/{name}', 'w') as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
";
