//! What `becalm check` advises is pasted as it is printed, into bash, where the storm is: it ends
//! with status 0, the command says what it said, and makes fewer metadata operations. What is not certain to do so is
//! not advised.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use crate::place::{Place, commands, sentences, steps_of};
use serde_json::Value;
use testkit::{answer, run};

fn store(place: &Place, libraries: &str, options: &[&str]) -> String {
    store_in(place, "opt", libraries, options)
}

fn store_in(place: &Place, name: &str, libraries: &str, options: &[&str]) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let mut make = Command::new(make);
    let made = run(make.args(options).args(["--libs", libraries]).arg(place.at(name)));
    assert_eq!(made.code(), 0, "{}", made.err());
    made.out().trim_end().to_owned()
}

#[test]
fn binding_what_a_long_rpath_searches() {
    for kind in [&[][..], &["--runpath"]] {
        let place = Place::new();
        let program = store(&place, "40", kind);
        let (before, said) =
            (place.operations(&[&program]), run(&mut place.command(&program, &[])));
        let steps = place.steps("loader", &[&program]);
        let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
        let promised = steps[0]["predicted"]["after"]["metadata_ops"].as_u64().unwrap();
        place.said(advised);
        let after = place.operations(&[&program]);
        assert!(after * 2 < before && after.abs_diff(promised) < 10, "{promised} became {after}");
        assert_eq!(run(&mut place.command(&program, &[])), said);
    }
}

/// Nothing of it is bound: Nix checks its files by their hashes.
#[test]
fn starting_a_program_of_a_nix_store_from_one_file() {
    let place = Place::new();
    let program = store_in(&place, "nix", "100", &["--runpath"]);
    let (before, said) = (place.operations(&[&program]), run(&mut place.command(&program, &[])));
    let steps = place.steps("loader", &[&program]);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    let promised = steps[0]["predicted"]["after"]["metadata_ops"].as_u64().unwrap();
    assert!(place.said(advised).ends_with(&said.out()), "{advised}");
    let after = place.operations(&["becalm", "run", "--pack", "app.pack", "--", &program]);
    assert!(after * 10 < before && after.abs_diff(promised) < 20, "{promised} became {after}");
    let planned = run(place.command(BECALM, &["fix", "--", &program]).env("COLUMNS", "1000"));
    assert!(planned.out().contains(&format!("  {advised}\n")), "{}", planned.out());
}

#[test]
fn binding_what_plug_ins_search() {
    let place = Place::new();
    let program = store(&place, "60", &["--runpath"]);
    let load = "import ctypes, glob, sys\n\
                for name in sorted(glob.glob(sys.argv[1] + '/*/lib/*')): ctypes.CDLL(name)\n\
                print('done')";
    place.file("load.py", load);
    let store = Path::new(&program).ancestors().nth(3).unwrap().to_str().unwrap();
    let words = ["/usr/bin/python3", "load.py", store];
    let before = place.operations(&words);
    let steps = place.steps("dlopen", &words);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    place.said(advised);
    assert!(place.operations(&words) < before, "{advised}");
    assert_eq!(
        place.said(&format!("python3 load.py '{}'", store.replace('\'', r"'\''"))),
        "done\n"
    );
}

#[test]
fn files_that_are_anothers_are_bound_in_copies_or_by_who_owns_them() {
    if !testkit::user::is_root() {
        return;
    }
    let (scene, _) = testkit::user::scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made = run(Command::new(make).arg("--libs=40").arg(scene.directory()));
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(scene.directory()).status();
    assert!(opened.unwrap().success());
    let program = made.out().trim_end().to_owned();
    let ran = run(&mut testkit::user::as_a_user(&[&becalm, "check", "--json", "--", &program]));
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["storms"][0]["storm"], "loader", "{found:#}");
    let steps = steps_of(&found, "loader");
    let of =
        |field: &str| steps.iter().map(|step| step[field].as_str().unwrap()).collect::<Vec<_>>();
    let (calmed, asked) = (
        format!("becalm fix --apply -o app.calm -- {program}"),
        format!("becalm fix --apply -- {program}"),
    );
    assert_eq!(of("command"), [&*calmed, &*asked]);
    assert_eq!(of("actor"), ["you", "root"]);
    assert_eq!(steps[0]["change"]["kind"], "show_bound_copies");
    let predicted = |when: &str, what: &str| steps[0]["predicted"][when][what].as_u64().unwrap();
    let ops = |when: &str| predicted(when, "metadata_ops");
    // How many subdirectories glibc tries of each directory depends on the processor.
    assert!(ops("after") < ops("before"), "{steps:#?}");
    assert!(predicted("after", "enoent") * 100 < predicted("before", "enoent"), "{steps:#?}");

    // What is printed is pasted, and does what was predicted.
    let path = format!("PATH={}:/usr/bin:/bin", scene.directory().display());
    let home = format!("HOME={}", scene.at("home"));
    fs::create_dir(scene.at("home")).unwrap();
    chown(scene.at("home"), Some(65534), Some(65534)).unwrap();
    let pasted = |line: &str| {
        let words = ["env", "-i", &path, &home, "bash", "-c", line];
        let ran = run(testkit::user::as_a_user(&words).current_dir(scene.directory()));
        assert_eq!(ran.code(), 0, "{line}: {}{}", ran.out(), ran.err());
        ran.out()
    };
    pasted(&calmed);
    let calm: Value =
        serde_json::from_str(&pasted("becalm check --json --until exit -- becalm run app.calm"))
            .unwrap();
    assert_eq!(calm["verdict"], "calm", "{calm:#}");
    let measured = calm["totals"]["metadata_ops"].as_u64().unwrap();
    assert!(measured.abs_diff(ops("after")) * 10 < measured, "{measured}: {steps:#?}");
    pasted("becalm undo");
    assert!(!Path::new(&scene.at("app.calm")).exists());
}

/// The owner may add links beside the files, and a user's copies may not: the search for what is opened by name goes,
/// too.
#[test]
fn what_the_owner_is_asked_for_is_what_it_comes_to_when_the_owner_does_it() {
    if !testkit::user::is_root() {
        return;
    }
    let (scene, _) = testkit::user::scene_for_a_user(&[]);
    let becalm = scene.at("becalm");
    let site = testkit::bound::Site::of(scene);
    site.part("b", "plug", &[]);
    let host = site.host("a", "host", "plug", &[]);
    let none: Vec<String> = (0..120).map(|number| format!("n{number}")).collect();
    none.iter().for_each(|name| fs::create_dir(site.at(name)).unwrap());
    let directories: Vec<&str> =
        none.iter().map(String::as_str).chain(["a/lib", "b/lib"]).collect();
    let program = site.ask("app", &["-ldl", "-rdynamic", &site.rpath(&directories), &host]);
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(site.scene.directory()).status();
    assert!(opened.unwrap().success());
    let check = ["check", "--json", "--until", "exit", "--", &program, "host"];
    let words = [&[&*becalm][..], &check].concat();
    let ran = run(&mut testkit::user::as_a_user(&words));
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let steps = steps_of(&found, "loader");
    let asked = steps.iter().find(|step| step["actor"] == "root");
    let asked = asked.unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(asked["command"], format!("becalm fix --apply -- {program} host"));
    let done = run(&mut site.becalm(&["fix", "--apply", "--", &program, "host"]));
    assert_eq!(done.code(), 0, "{}{}", done.out(), done.err());
    let calm: Value = serde_json::from_slice(&run(&mut site.becalm(&check)).stdout).unwrap();
    let measured = calm["totals"]["metadata_ops"].as_u64().unwrap();
    let predicted = asked["predicted"]["after"]["metadata_ops"].as_u64().unwrap();
    assert!(measured.abs_diff(predicted) * 10 <= measured, "{measured}: {asked:#}");
}

#[test]
fn a_library_path_is_not_taken_apart_by_what_one_start_needs() {
    let mut place = Place::new();
    let program = store(&place, "40", &["--no-rpath"]);
    let store = Path::new(&program).ancestors().nth(3).unwrap();
    let packages = store.read_dir().unwrap().map(|entry| entry.unwrap().path().join("lib"));
    let list: Vec<_> = packages.map(|directory| directory.to_str().unwrap().to_owned()).collect();
    place.set("LD_LIBRARY_PATH", list.join(":"));
    assert_eq!(commands(&place.steps("loader", &[&program])), [""; 0]);
}

/// A script that starts three programs for each of 100 paths.
const UNPACK: &str = "while read -r path; do
    directory=$(dirname \"$path\")
    mkdir -p \"out/$directory\"
    echo \"$directory\" \"$(basename \"$path\")\"
done < list
";

fn unpacking(place: &Place) {
    place.file("unpack.sh", UNPACK);
    let list: String = (0..100).map(|number| format!("a/d{}/f{number}\n", number % 7)).collect();
    place.file("list", &list);
}

#[test]
fn builtins_for_a_script_that_starts_what_bash_can_do() {
    let place = Place::new();
    unpacking(&place);
    let words = ["bash", "unpack.sh"];
    let (before, said) = (place.operations(&words), place.said("bash unpack.sh"));
    let steps = place.steps("fork", &words);
    let commands = commands(&steps);
    assert_eq!(
        commands,
        ["becalm run --builtins -- bash unpack.sh", "becalm fork lines -- bash unpack.sh"]
    );
    for advised in &commands {
        assert_eq!(place.said(advised), said, "{advised}");
    }
    let after = place.operations(&["bash", "-c", commands[0]]);
    assert!(after < before, "{before} became {after}");
    // Nothing better is promised than what is.
    let promised = steps[0]["predicted"]["after"]["metadata_ops"].as_u64().unwrap();
    assert!(after <= promised && promised < after * 3 / 2, "{promised} became {after}");
}

#[test]
fn the_same_where_the_script_is_executed_be_it_of_sh() {
    let place = Place::new();
    for first in ["#!/usr/bin/env bash", "#!/bin/bash", "#!/bin/sh", "#!/usr/bin/env dash"] {
        let text = "for i in a b c d e f g h i j; do for j in a b c d e f g h i j k l m n o p q r s t; do for k in 1 2 3 4 5 6; do dirname $i/$j/$k; done; done; done";
        place.file("run.sh", &format!("{first}\n{text}\n"));
        place.said("chmod +x run.sh");
        let steps = place.steps("fork", &["./run.sh"]);
        let advised = "becalm run --builtins -- ./run.sh";
        assert_eq!(commands(&steps)[0], advised, "{first}: {steps:#?}");
        let after = place.operations(&advised.split(' ').collect::<Vec<_>>());
        let promised = steps[0]["predicted"]["after"]["metadata_ops"].as_u64().unwrap();
        assert!(
            after <= promised && promised < after * 3 / 2,
            "{first}: {promised} became {after}"
        );
    }
}

/// How many programs the plan says that the shell does itself, of 60 that a line runs; and how many it does then.
fn said_and_done(place: &Place, line: &str) -> (u64, u64) {
    let text = format!("for i in {{1..60}}; do {line}; done >all 2>&1\n");
    place.file("line.sh", &text);
    place.file("data", "c\nb\na\n");
    let steps = place.steps("fork", &["bash", "line.sh"]);
    let cure = steps.iter().find(|step| step["change"]["processes"].is_u64());
    let said = cure.map_or(0, |cure| cure["change"]["processes"].as_u64().unwrap());
    let counted = place.bash("becalm run --builtins --count --json -- bash line.sh");
    let counted = answer::parse(counted.err());
    (said, counted["builtins"]["counted"]["avoided"].as_u64().unwrap())
}

#[test]
fn the_plan_counts_the_programs_that_the_shell_does_itself() {
    let place = Place::new();
    let mut others = Vec::new();
    for (line, processes) in [
        ("x=$(echo a-$i | sed s/a/b/)", 60),
        ("x=`echo a-$i | tr a-c A-C | cut -d- -f2`", 120),
        ("chmod 644 data", 60),
        ("cp data copy", 60),
        ("expr $i : [0-9]", 60),
        ("date +%s", 60),
        ("grep -q b data", 60),
        ("grep -q nothing data", 60),
        ("sort data", 60),
        ("wc -l data", 60),
        ("wc -l < data", 0),
        ("cat <<END\nx\nEND\n:", 60),
        ("head -1 data", 60),
        ("ls data", 60),
        ("cut -c1 data", 60),
        ("cat data", 60),
        ("rm -f link; ln -s data link", 120),
        ("ln -sf data link", 0),
        ("mkdir -p d/$i", 60),
        ("uname -s", 60),
        ("grep -E b data", 0),
        ("ls -l data", 0),
        ("expr $i + 1", 0),
        ("LC_ALL=C sort data", 0),
        ("LC_ALL=de_DE.UTF-8; export LC_ALL; sort data", 0),
    ] {
        let both = said_and_done(&place, line);
        if both != (processes, processes) {
            others.push((line, both));
        }
    }
    assert_eq!(others, []);
}

#[test]
fn no_builtins_where_the_shells_have_them() {
    let place = Place::new();
    place.file("run.sh", "for i in {1..100}; do mkdir d; mkdir d; grep -q b /dev/null; done; :\n");
    let found = place.found(&["becalm", "run", "--builtins", "--", "bash", "run.sh"]);
    assert!(!found["cures"].to_string().contains("--builtins"), "{found:#}");
    assert!(found.to_string().contains("the shells have the builtins"), "{found:#}");
}

/// Whether the shell reads a pipe hangs on who is faster.
#[test]
fn no_builtins_where_cat_reads_what_comes() {
    let place = Place::new();
    place.file("run.sh", "for i in {1..100}; do echo $i | cat; done\n");
    let steps = place.steps("fork", &["bash", "run.sh"]);
    assert!(!commands(&steps).iter().any(|line| line.contains("--builtins")), "{steps:#?}");
}

#[test]
fn no_builtins_where_a_variable_is_exported_that_programs_heed() {
    let mut place = Place::new();
    place.file("line.sh", "for i in {1..60}; do basename /a/$i; done\n");
    place.set("LD_GOLD", "ld.gold".to_owned());
    assert!(commands(&place.steps("fork", &["bash", "line.sh"]))[0].contains("--builtins"));
    place.set("LD_PRELOAD", "/lib/x86_64-linux-gnu/libz.so.1".to_owned());
    let found = place.found(&["bash", "line.sh"]);
    assert!(!found["cures"].to_string().contains("--builtins"), "{found:#}");
    assert!(found.to_string().contains("LD_PRELOAD is exported: a shell then starts"), "{found:#}");
    let counted = place.said("becalm run --builtins --count -- bash line.sh 2>&1");
    assert!(counted.contains("(exported: LD_PRELOAD)"), "{counted}");
}

/// What was once advised of these, and was false: `ldconfig`, inotify, builtins that cost more than
/// they save.
#[test]
fn nothing_is_advised_where_nothing_certain_helps() {
    let place = Place::new();
    place.file("ls.sh", "for i in {1..121}; do ls -l / > list; done\n");
    place.file("few.sh", "for i in {1..20}; do dirname /a/b > name; done\n");
    place.file("a.c", "int main(void) { return 0; }\n");
    place.file("a.js", "console.log(1)\n");
    place.file("a.rb", "puts 1\n");
    let commands: [&[&str]; 5] = [
        &["bash", "ls.sh"],
        &["bash", "few.sh"],
        &["gcc", "a.c"],
        &["node", "a.js"],
        &["ruby", "a.rb"],
    ];
    for words in commands {
        let found = place.found(words);
        assert_eq!(found["cures"], serde_json::json!([]), "{words:?}: {found:#}");
        for word in ["ldconfig", "inotify"] {
            assert!(!found.to_string().contains(word), "{words:?}: {found:#}");
        }
    }
}

#[test]
fn what_to_write_in_a_line() {
    let place = Place::new();
    unpacking(&place);
    let (before, said) = (place.operations(&["bash", "unpack.sh"]), place.said("bash unpack.sh"));
    let steps = place.steps("fork", &["bash", "unpack.sh"]);
    let mut edits = 0;
    for sentence in sentences(&steps) {
        let rest = sentence.strip_prefix("In unpack.sh:").unwrap_or_else(|| panic!("{sentence}"));
        let (line, rest) = rest.split_once(": write `").unwrap();
        let (write, of) = rest.strip_suffix('`').unwrap().split_once("` instead of `").unwrap();
        let text = std::fs::read_to_string(place.at("unpack.sh")).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let line = &mut lines[line.parse::<usize>().unwrap() - 1];
        assert!(line.contains(of), "{line}: {sentence}");
        *line = line.replacen(of, write, 1);
        place.file("unpack.sh", &lines.join("\n"));
        edits += 1;
    }
    if edits > 0 {
        assert_eq!(place.said("bash unpack.sh"), said);
        assert!(place.operations(&["bash", "unpack.sh"]) < before);
    }
}

#[test]
fn a_full_path_is_not_searched() {
    let mut place = Place::new();
    let empty: Vec<_> =
        (0..12).map(|number| place.scene.subdirectory(&format!("bin{number}"))).collect();
    let path = place.env.iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    place.set("PATH", format!("{}:{path}", empty.join(":")));
    place.file("run.sh", "for i in {1..40}; do env uname; done\n");
    let before = place.operations(&["bash", "run.sh"]);
    let said = place.said("bash run.sh");
    let steps = place.steps("path", &["bash", "run.sh"]);
    assert_eq!(commands(&steps), [""; 0], "what others need of PATH is not known");
    let [sentence] = sentences(&steps)[..] else { panic!("{steps:#?}") };
    let told = sentence.split_once("`uname` is ").unwrap().1;
    let path = told.split([',', ' ']).next().unwrap();
    place.file("run.sh", &format!("for i in {{1..40}}; do env {path}; done\n"));
    assert_eq!(place.said("bash run.sh"), said);
    assert!(place.operations(&["bash", "run.sh"]) < before, "{sentence}");
}

#[test]
fn a_named_time_zone_is_read_once() {
    let place = Place::new();
    place.file("run.sh", "for i in {1..400}; do printf '%(%Y)T\\n' 1000000000; done\n");
    let (before, said) = (place.operations(&["bash", "run.sh"]), place.said("bash run.sh"));
    let steps = place.steps("repeat", &["bash", "run.sh"]);
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    assert_eq!(place.said(advised), said);
    assert!(place.operations(&["bash", "-c", advised]) * 2 < before, "{advised}");
}

#[test]
fn repeats_walks_and_locales_have_no_cure_that_is_certain() {
    let mut place = Place::new();
    for number in 0..120 {
        std::fs::create_dir_all(place.at(&format!("tree/d{number}"))).unwrap();
        place.file(&format!("tree/d{number}/file"), "");
    }
    place.said("git init -q tree && cd tree && git add . && git -c user.name=me -c user.email=me commit -qm x");
    place.file("poll.sh", "for i in {1..1000}; do [ -e tree ]; done");
    let calm: [(&str, &[&str]); 3] = [
        ("walk", &["find", "tree", "-empty"]),
        ("walk", &["find", "tree", "-newer", "/etc/hostname"]),
        ("repeat", &["bash", "poll.sh"]),
    ];
    for (name, words) in calm {
        assert_eq!(place.steps(name, words), [] as [Value; 0], "{words:?}");
    }
    place.env.retain(|(name, _)| name != "LC_ALL");
    place.set("LANG", "tlh_QO.UTF-8".to_owned());
    place.file(
        "tools.sh",
        "for t in ls id date uname cat sort head tail wc cut tr uniq stat touch mv cp rm ln; do $t --help; $t --version; done",
    );
    assert_eq!(place.steps("locale", &["bash", "tools.sh"]), [] as [Value; 0]);
}

#[test]
fn the_status_of_a_modulepath_and_its_calming() {
    let place = Place::new();
    for package in 0..30 {
        std::fs::create_dir_all(place.at(&format!("modulefiles/p{package}"))).unwrap();
        (1..5).for_each(|version| {
            place.file(&format!("modulefiles/p{package}/{version}.0"), "#%Module\n")
        });
    }
    let avail = "unset MODULEPATH; module use \"$PWD/modulefiles\"; module avail";
    let steps = place.steps("modules", &["bash", "-lc", avail]);
    let commands = commands(&steps);
    let status = commands.iter().find(|line| line.starts_with("becalm modules status")).unwrap();
    let said = place.bash(status);
    assert!(said.out().contains("120 modulefiles in 1 modulepath"), "{status}: {}", said.out());
    assert_eq!(said.code(), 1, "there is something to calm: {}", said.out());
    // Debian's Modules has no cache: an index is asked first, and says what Modules says.
    let [index, _] = commands[..] else { panic!("{steps:#?}") };
    assert!(index.starts_with("becalm modules calm --apply "), "{index}");
    // A login shell sets PATH anew.
    let bin = place.scene.at("bin");
    let indexed = format!("PATH={bin}:$PATH; {avail} 2> plain; {index} > made");
    place.said(&term::shell_line(["bash", "-lc", &format!("{indexed}; module avail 2> answered")]));
    assert_eq!(place.said("cat plain"), place.said("cat answered"));
    assert_eq!(place.bash(status).code(), 0, "nothing is left to calm");
    let (_, hook) = index.split_once(" && ").unwrap();
    // A login shell runs ps, which looks at every process of the machine.
    let set_up = ". /usr/share/modules/init/bash";
    let count = |line: String| place.operations(&["bash", "-c", &line]);
    let before = count(format!("{set_up}; {avail}"));
    let after = count(format!("{set_up}; {hook}; {avail}"));
    assert!(after < before, "{before} became {after}");
}

#[test]
fn what_is_next_where_no_storm_explains_the_wait() {
    let place = Place::new();
    place.said("mkdir inc");
    // Each name in one place only: no search of a list.
    let run_it = "stat \"inc/$_/m$_\" for 1..700; print \"done\\n\"";
    let report = run(&mut place.command(BECALM, &["check", "--", "perl", "-e", run_it])).err();
    assert!(report.contains("no single storm"), "{report}");
    let next = report.lines().last().unwrap().strip_prefix("Next: ").unwrap();
    assert!(place.said(next).contains("inc"), "{next}");
    let kept = ["check", "-o", "kept.becalm", "--", "perl", "-e", run_it];
    let report = run(&mut place.command(BECALM, &kept)).err();
    let next = report.lines().last().unwrap().strip_prefix("Next: ").unwrap();
    assert_eq!(next, "becalm report kept.becalm --by prefix");
    assert!(place.said(next).contains("inc"), "{next}");
}

#[test]
fn what_a_report_says_next_is_pasted_elsewhere() {
    let place = Place::new();
    place.said("mkdir sub; printf '#!/bin/sh\\necho it runs\\n' > app; chmod +x app");
    place.said("cd sub; becalm record -o ../r.becalm -- ../app");
    let said = place.said("becalm report r.becalm --by library");
    let next = said.lines().last().unwrap().strip_prefix("Next: ").unwrap();
    assert!(next.starts_with("(cd ") && place.bash(next).out().contains("it runs"), "{next}");
    let said = place.said("cd sub; becalm report ../r.becalm --by library");
    assert!(said.ends_with("Next: becalm fix -- ../app\n"), "{said}");
}
