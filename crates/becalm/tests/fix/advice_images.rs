//! What `becalm check` advises for imports is pasted, and fewer operations reach the filesystem.

use crate::BECALM;
use crate::place::{Place, commands, steps_of};
use serde_json::Value;
use testkit::run;

/// A virtual environment with a package of many modules.
fn environment(place: &Place) -> String {
    environment_of(place, "python3", "venv")
}

/// The same of this Python, by this name.
fn environment_of(place: &Place, python: &str, name: &str) -> String {
    let modules = "mkdir many && cd many && for i in {1..150}; do echo \"x = $i\" > m$i.py; done; \
                   { for i in {1..150}; do echo \"from . import m$i\"; done; } > __init__.py";
    place.said(&format!("{python} -m venv --without-pip {name}"));
    place.said(&format!("cd {name}/lib/*/site-packages && {modules}"));
    place.said(&format!("{name}/bin/python -c 'import many'"));
    place.at(&format!("{name}/bin/python"))
}

/// How many operations reach the filesystem that a place is on.
#[track_caller]
fn reached(place: &Place, line: &str) -> u64 {
    let words = ["rehearse", "--json", "--profile", "local", "--writable", &place.directory, "--"];
    let ran = run(&mut place.command(BECALM, &[&words[..], &["bash", "-c", line]].concat()));
    assert_eq!(ran.code(), 0, "{line}: {}", ran.err());
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    told["rpcs"].as_u64().unwrap()
}

#[test]
fn an_image_of_an_environment_that_most_is_searched_in() {
    let place = Place::new();
    let python = environment(&place);
    let words = [python.as_str(), "-c", "import many; print(many.m7.x)"];
    let steps = place.steps("python", &words);
    let [built, scanned] = commands(&steps)[..] else { panic!("{steps:#?}") };
    let predicted = &steps[0]["predicted"];
    let ops = |when: &str| predicted[when]["metadata_ops"].as_u64().unwrap();
    assert!(ops("after") * 2 < ops("before"), "{predicted:#}");
    assert!(built.starts_with("becalm image build -o env.sqsh "), "{built}");
    let (_, in_the_image) = built.split_once(" && ").unwrap();
    assert!(place.said(built).ends_with("7\n"), "{built}");
    let plain = in_the_image.split_once(" -- ").unwrap().1;
    let (before, after) = (reached(&place, plain), reached(&place, in_the_image));
    // Most of what is left is the check: one operation a directory of the image and traced file.
    assert!(after * 3 < before * 2, "{before} became {after}");
    assert_eq!(place.said(scanned), "7\n");
}

#[test]
fn no_image_of_what_is_no_environment_or_serves_little() {
    let place = Place::new();
    let python = environment(&place);
    let has_image = |words: &[&str]| {
        let steps = place.steps("python", words);
        let all = commands(&steps);
        all.iter().any(|line| line.contains("image build"))
    };
    // Most is searched in the Python that the environment is based on.
    assert!(!has_image(&[
        &python,
        "-c",
        "import asyncio, email, http.client, json, unittest.mock"
    ]));
    assert!(has_image(&[&python, "-c", "import many"]));
    // Whoever works in the environment would write to it.
    let mut within =
        place.command(BECALM, &["check", "--json", "--", &python, "-c", "import many"]);
    let found = run(within.current_dir(place.at("venv"))).out();
    assert!(found.contains("becalm python scan") && !found.contains("image build"), "{found}");
}

/// A Python of its own: what the system's has, in another prefix.
fn base_python(place: &Place) -> String {
    place.said(
        "mkdir -p base/bin base/lib && cp -L /usr/bin/python3 base/bin/ && \
         version=$(python3 -c 'import sys; print(\"python%d.%d\" % sys.version_info[:2])') && \
         cp -r /usr/lib/$version base/lib/ && rm -rf base/lib/$version/test && \
         base/bin/python3 -m venv --without-pip venv && venv/bin/python3 -m compileall -q base",
    );
    place.at("venv/bin/python3")
}

#[test]
fn an_environment_and_the_python_that_it_is_based_on_are_in_one_image() {
    let place = Place::new();
    let python = base_python(&place);
    let words = [&*python, "-c", "import asyncio, email.message, json, unittest.mock; print(7)"];
    let found = place.found(&words);
    let steps = steps_of(&found, "python");
    let built = commands(&steps)[0];
    assert!(built.contains("/base'") && steps[0]["change"]["kind"] == "mount_image", "{steps:#?}");
    let (_, in_the_image) = built.split_once(" && ").unwrap();
    assert!(place.said(built).ends_with("7\n"), "{built}");
    let (before, after) =
        (reached(&place, &term::shell_line(&words)), reached(&place, in_the_image));
    assert!(after * 3 < before * 2, "{before} became {after}");
}

#[test]
fn an_environment_is_in_an_image_though_the_python_that_it_is_based_on_cannot_be() {
    let place = Place::new();
    let base = base_python(&place);
    // More directories than `becalm run` would look at.
    place.said("mkdir -p base/share/{1..100}/{1..60}");
    let python = environment_of(&place, &term::shell_line([&base]), "own");
    let words = [&*python, "-c", "import asyncio, email.message, many; print(many.m7.x)"];
    let built = |words: &[&str]| {
        let ran = run(&mut place.command(BECALM, words));
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let steps = steps_of(&found, "python");
        let line = commands(&steps)[0].to_owned();
        assert!(line.starts_with("becalm image build "), "{steps:#?}");
        assert!(!line.contains("/base'"), "{line}");
        (line, steps[0]["text"].as_str().unwrap().to_owned())
    };
    let check = ["check", "--json", "--until", "exit"];
    let (line, text) = built(&[&check[..], &["--"], &words].concat());
    assert!(text.contains("(not of ") && text.contains("/base: becalm run looks"), "{text}");
    let (_, in_the_image) = line.split_once(" && ").unwrap();
    assert!(place.said(&line).ends_with("7\n"), "{line}");
    let (before, after) =
        (reached(&place, &term::shell_line(&words)), reached(&place, in_the_image));
    assert!(after * 10 < before * 9, "{before} became {after}");
    // Where the base is on no shared filesystem, nothing is missing.
    let own = place.at("own");
    let (line, text) = built(&[&check[..], &["--below", &own, "--"], &words].concat());
    assert!(line.contains("/own' -- ") && !text.contains("not of"), "{line}: {text}");
}

/// Directories as `pip --target` fills them.
fn targets(place: &Place) -> Vec<String> {
    let target = |name: &str| {
        place.said(&format!(
            "mkdir -p {name}/{name}_pkg {name}/{name}.dist-info && cd {name}/{name}_pkg && \
             for i in {{1..80}}; do echo \"x = $i\" > m$i.py; done; \
             for i in {{1..80}}; do echo \"from . import m$i\"; done > __init__.py"
        ));
        place.at(name)
    };
    ["first", "second"].map(target).to_vec()
}

#[test]
fn directories_of_pythonpath_are_in_one_image() {
    let mut place = Place::new();
    place.set("PYTHONPATH", targets(&place).join(":"));
    let words = ["/usr/bin/python3", "-c", "import first_pkg, second_pkg; print(first_pkg.m7.x)"];
    place.operations(&words);
    let steps = place.steps("python", &words);
    let built = commands(&steps)[0];
    assert_eq!(steps[0]["change"]["directories"].as_array().unwrap().len(), 2, "{steps:#?}");
    let (_, in_the_image) = built.split_once(" && ").unwrap();
    assert!(place.said(built).ends_with("7\n"), "{built}");
    let (before, after) =
        (reached(&place, &term::shell_line(&words)), reached(&place, in_the_image));
    assert!(after < before, "{before} became {after}");
}

#[test]
fn no_image_of_a_working_tree() {
    let mut place = Place::new();
    place.set("PYTHONPATH", targets(&place).join(":"));
    let words = ["/usr/bin/python3", "-c", "import first_pkg, second_pkg"];
    place.operations(&words);
    let refused = |place: &Place| {
        let found = place.found(&words);
        assert_eq!(found["cures"], serde_json::json!([]), "{found:#}");
        found["not_chosen"][0]["why"].as_str().unwrap().to_owned()
    };
    place.said("git init -q first; git init -q second");
    assert!(refused(&place).contains("/first is a working tree (.git)"));
    // What no installer filled.
    place.said("rm -rf {first,second}/.git; rmdir {first,second}/*.dist-info");
    assert!(refused(&place).contains("changed within a day"));
    place.said("git init -q .");
    assert!(refused(&place).contains("is a working tree (.git)"));
}

/// An image has a link as it is: what it leads to is asked of the server as before.
#[test]
fn a_view_of_links_is_not_served_by_an_image_of_it() {
    let place = Place::new();
    let make = "mkdir view pkgs && for n in {1..60}; do \
                mkdir pkgs/p$n && : > pkgs/p$n/__init__.py && ln -s ../pkgs/p$n view/p$n; done && \
                touch -d 2020-01-01 view pkgs pkgs/* pkgs/*/* && touch -hd 2020-01-01 view/*";
    place.said(make);
    place.file("load.py", "for n in range(1, 61): __import__(f'p{n}')\n");
    let found = |directory: &str| {
        let directory = format!("PYTHONPATH={}", place.at(directory));
        let words = ["env", &directory, "/usr/bin/python3", "-B", "load.py"];
        let steps = place.steps("python", &words);
        commands(&steps).iter().any(|command| command.contains("image build"))
    };
    assert!(!found("view"), "links");
    assert!(found("pkgs"), "what they lead to");
}

#[test]
fn an_image_of_a_tree_of_many_files_that_are_read_again_and_again() {
    let place = Place::new();
    place.said(
        "mkdir -p tree/{1..6} && for i in {1..600}; do echo $i >tree/$((i % 6 + 1))/$i; done && \
         find tree -exec touch -d '3 days ago' {} +",
    );
    // One process, which opens each file four times.
    place.file("sum.pl", "for (1..4) { for (glob 'tree/*/*') { open F, $_; $s += <F> } } print $s");
    let words = ["/usr/bin/perl", "sum.pl"];
    let steps = place.steps("files", &words);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    assert!(advised.starts_with("becalm image build -o files.sqsh "), "{advised}");
    assert!(place.said(advised).ends_with("721200"), "{advised}");
    let (_, in_the_image) = advised.split_once(" && ").unwrap();
    let (before, after) = (reached(&place, &words.join(" ")), reached(&place, in_the_image));
    // Each file and directory is looked at once, to see whether it has changed.
    assert!(after < before, "{before} became {after}");
}

#[test]
fn an_image_of_what_a_long_library_path_names() {
    let mut place = Place::new();
    // Many directories that are searched in vain come first.
    place.said(
        "mkdir -p dirs/{1..40} && for i in {1..40}; do echo $i > dirs/$i/README; done && \
         cp -L /usr/lib/*/libz.so.1 dirs/40/ && find dirs -exec touch -d '3 days ago' {} +",
    );
    let named: Vec<String> = (1..=40).map(|number| place.at(&format!("dirs/{number}"))).collect();
    place.set("LD_LIBRARY_PATH", named.join(":"));
    let words = ["/usr/bin/python3", "-c", "import bz2, ctypes, lzma, ssl, zlib; print(7)"];
    let found = place.found(&words);
    let storm =
        found["storms"].as_array().unwrap().iter().find_map(|storm| storm["storm"].as_str());
    let steps = steps_of(&found, storm.unwrap());
    assert_eq!(steps[0]["change"]["kind"], "mount_image", "{found:#}");
    let line = commands(&steps)[0];
    assert!(place.said(line).contains("Built one image"), "{line}");
    let plain = term::shell_line(&words);
    let before = reached(&place, &plain);
    let after = reached(&place, &format!("becalm run python3.calm -- {plain}"));
    assert!(after * 3 < before * 2, "{before} became {after}");
}
