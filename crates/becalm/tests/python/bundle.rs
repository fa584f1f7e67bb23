//! `becalm python bundle` on real Pythons: a program does the same, and asks a filesystem less.

use std::fs;

use crate::bundle_scene::{Bundled, LOOK, PYTHON, gcc, is_metadata, pythons, venv_python};
use testkit::run;
use testkit::schema::Schema;

const IMPORTS: &str = "import asyncio, email.message, http.client, json, logging.config, \
    multiprocessing.pool, sqlite3, unittest.mock, xml.dom.minidom\n";

#[test]
fn every_module_looks_as_it_does_without_on_every_python_that_is_here() {
    for python in pythons() {
        let bundled = Bundled::new();
        let program = bundled.file("app/look.py", &(IMPORTS.to_owned() + LOOK));
        let said = bundled.assert_same_packed(&[&python, &program]);
        assert!(said.out().contains("unittest.mock"), "{python}: {}", said.err());
        let optimized = bundled.assert_same_packed(&[&python, "-O", &program]);
        assert!(optimized.out().contains(".opt-1.pyc"), "{python}");
    }
}

#[test]
fn numpy_and_scipy_look_the_same_and_ask_less_than_a_quarter() {
    let (bundled, python) = (Bundled::new(), venv_python());
    let imports = "import numpy, scipy.linalg, scipy.sparse, scipy.optimize, scipy.stats\n";
    let program = bundled.file("app/look.py", &(imports.to_owned() + LOOK));
    let said = bundled.assert_same_packed(&[&python, &program]);
    assert!(said.out().contains("scipy.stats._distn_infrastructure"));
    let words = [&*python, "-c", imports];
    bundled.pack(&[], &words);
    let [without, with] = [false, true].map(|with| bundled.traced(is_metadata, &words, with));
    assert!(without > 3000 && with * 4 < without, "{without} operations, then {with}");
}

#[test]
fn programs_started_in_other_ways_do_the_same() {
    let bundled = Bundled::new();
    let spawn = bundled.file(
        "app/spawn.py",
        "import fractions, multiprocessing, pickle, sys
def look(x): return x, sys.path, sorted(sys.modules), fractions.Fraction(1, x)
if __name__ == '__main__':
    print(pickle.loads(pickle.dumps(fractions.Fraction)))
    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(look, [1, 2]))",
    );
    for words in [
        vec![PYTHON, &spawn],
        vec![PYTHON, "-m", "json.tool", "/dev/null"],
        vec![PYTHON, "-m", "pip", "--version"],
        vec![PYTHON, "-W", "always", "-c", "import asyncore"],
        vec![PYTHON, "-c", "import json; json.loads('{')"],
        vec![PYTHON, "-c", "import json.nothing"],
        vec![PYTHON, "-c", "import nothing_of_this_name"],
        vec![PYTHON, "-I", "-c", "import json, sys; print(sys.path, len(sys.meta_path))"],
        vec![PYTHON, "-c", "import json, importlib; print(importlib.reload(json).__loader__.path)"],
    ] {
        bundled.assert_same_packed(&words);
    }
}

#[test]
fn an_import_that_fails_says_the_same() {
    let mut bundled = Bundled::new();
    bundled.file("own/broken.py", "def f(:\n");
    bundled.file("own/raises.py", "import json\n1/0\n");
    bundled.file("own/warns.py", "import warnings\nwarnings.warn('look', stacklevel=2)\n");
    bundled.python_path = bundled.scene.at("own");
    for module in ["broken", "raises", "warns"] {
        bundled.assert_same_packed(&[PYTHON, "-c", &format!("import {module}")]);
    }
}

#[test]
fn what_lies_over_prefixes_in_archives_and_beside_modules_is_found_as_without() {
    let mut bundled = Bundled::new();
    bundled.file("a/space/one.py", "");
    bundled.file("b/space/two.py", "");
    bundled.file("b/space/deep/three.py", "");
    bundled.file("b ü/größe ü/__init__.py", "x = __file__");
    bundled.file("b ü/größe ü/data/größe.txt", "data");
    bundled.file("b/both.py", "x = 'module'");
    bundled.file("a/both/__init__.py", "x = 'package'");
    bundled.file("b/late.py", "x = 'b'");
    bundled.file("a/late.pyx", "");
    let zip = "import zipfile; z = zipfile.ZipFile('c.zip', 'w'); z.writestr('zipped.py', 'x = 1')";
    assert_eq!(bundled.without(&[PYTHON, "-c", zip]).code(), 0);
    let entries = ["a", "b", "b ü", "c.zip", "none", "a/"].map(|name| bundled.scene.at(name));
    bundled.python_path = entries.join(":");
    let program = bundled.file(
        "app/run.py",
        &("import importlib, importlib.resources, os, pkgutil, sys
import space.one, space.two, space.deep.three, both, late, zipped
odd = importlib.import_module('größe ü')
print(space.__path__, both.x, late.x, zipped.__file__, odd.x)
print(open(os.path.dirname(odd.__file__) + '/data/größe.txt').read())
print(pkgutil.get_data('größe ü', 'data/größe.txt'))
print(importlib.resources.files('größe ü').joinpath('data/größe.txt').read_text())
sys.path.append('/nonexistent'); print(space.__path__)
try: import space.nothing
except ImportError as error: print(error)
"
        .to_owned()
            + LOOK),
    );
    bundled.assert_same_packed(&[PYTHON, &program]);
    let answer = bundled.pack(&[], &[PYTHON, &program]);
    let zipped = serde_json::json!([{"why": "zip", "path": bundled.scene.at("c.zip")}]);
    assert_eq!(answer["not_taken"], zipped);
}

#[test]
fn what_an_extension_module_finds_from_its_own_place_is_found() {
    let mut bundled = Bundled::new();
    let answer = bundled.file("src/answer.c", "int answer(void) { return 42; }");
    let native = bundled.file(
        "src/native.c",
        "extern int answer(void);
extern void *PyModule_Create2(void *, int);
extern int PyModule_AddIntConstant(void *, const char *, long);
static struct { long base[5]; const char *name, *doc; long size; void *rest[5]; }
    module = { {1}, \"native\", 0, -1 }; /* struct PyModuleDef, Include/moduleobject.h */
void *PyInit_native(void) {
    void *made = PyModule_Create2(&module, 1013);
    PyModule_AddIntConstant(made, \"answer\", answer());
    return made;
}",
    );
    let package = bundled.scene.at("lib/pack");
    bundled.file("lib/pack/__init__.py", "");
    let [library, extension] =
        ["libanswer.so", "native.so"].map(|name| format!("{package}/{name}"));
    gcc(&[&answer, "-o", &library]);
    gcc(&[&native, "-o", &extension, &library, "-Wl,-rpath,$ORIGIN"]);
    bundled.python_path = bundled.scene.at("lib");
    let program = "import pack.native as n; print(n.answer, n.__file__, n.__spec__.loader)";
    let program = &program.replace("n.__spec__.loader", "type(n.__spec__.loader)");
    let said = bundled.assert_same_packed(&[PYTHON, "-c", program]);
    assert!(said.out().starts_with("42 "), "{}", said.err());
}

#[test]
fn no_bytecode_is_written_for_what_is_in_the_bundle() {
    let mut bundled = Bundled::new();
    let names: Vec<_> = (0..20).map(|number| format!("module_{number}")).collect();
    for name in &names {
        bundled.file(&format!("site-packages/{name}.py"), "x = 1");
    }
    bundled.python_path = bundled.scene.at("site-packages");
    let answer = bundled.pack(&["--python", PYTHON, &bundled.python_path], &[]);
    assert_eq!(answer["modules"], 20);
    let words = [PYTHON, "-c", &format!("import {}", names.join(", "))];
    let is_write = |line: &str| line.contains("O_CREAT") && line.contains(".pyc.");
    assert_eq!(bundled.traced(is_write, &words, true), 0);
    assert_eq!(bundled.traced(is_write, &words, false), 20);
}

#[test]
fn the_answer_holds_its_schema_and_the_recording_of_a_run_serves_as_well() {
    let bundled = Bundled::new();
    let document = include_str!("../../../../docs/schema/becalm.python.bundle.md");
    let schema = Schema::of(document);
    let words = [PYTHON, "-c", "import json"];
    let answer = bundled.pack(&[], &words);
    schema.holds(&answer, "all is packed");
    schema.holds(&schema.example(), "not taken");
    let rec = bundled.scene.at("rec");
    let mut record = bundled.command(crate::BECALM);
    assert_eq!(run(record.args(["record", "-o", &rec, "--"]).args(words)).code(), 0);
    let again = bundled.pack(&["--trace", &rec], &[]);
    assert_eq!(again["modules"], answer["modules"]);
    bundled.assert_same(&words);
}

#[test]
fn code_lies_in_the_order_of_the_trace_and_what_no_python_can_read_is_named() {
    let mut bundled = Bundled::new();
    bundled.file("own/first.py", "import second");
    bundled.file("own/second.py", "");
    bundled.file("own/never.py", "");
    bundled.file("own/old.py", "print 'of another age'");
    bundled.python_path = bundled.scene.at("own");
    let answer = bundled.pack(&[&bundled.python_path], &[PYTHON, "-c", "import first, json"]);
    let old = serde_json::json!([{"why": "no_code", "path": bundled.scene.at("own/old.py")}]);
    assert_eq!(answer["not_taken"], old);
    let text = fs::read(bundled.bundle()).unwrap();
    let index = String::from_utf8_lossy(&text).into_owned();
    let offset = |name: &str| {
        let line = index.lines().find(|line| line.starts_with(&format!("{name}\t.py\t"))).unwrap();
        line.split('\t').nth(2).unwrap().parse::<u64>().unwrap()
    };
    assert!(offset("first") < offset("second") && offset("second") < offset("never"));
}
