//! Files that patchelf relocated: their tables of names end with what is used, and nothing follows in which
//! a path would have room. Their lists name directories that are not there, and stay for what is opened.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use crate::place::{Place, commands, steps_of};
use serde_json::Value;
use testkit::run;

/// Every other library has no room; all of them may open others by name.
const RELOCATE: &str = r#"
store=$1/store
mkdir -p $store/opens/lib
echo '#include <dlfcn.h>
void *opens(const char *name) { return dlopen(name, RTLD_NOW); }' |
  gcc -x c - -shared -fPIC -Wl,-soname,libopens.so -o $store/opens/lib/libopens.so
plain=$(printf %s: $store/*/lib)
cramped=$(for directory in $store/*/lib; do printf %s: $store/none$directory $directory; done)
for file in $store/*/lib/libpart* $store/*/bin/app; do
  patchelf --add-needed libopens.so $file
  case $file in
  *[02468].so.*) list=$cramped ;;
  *) list=$plain ;;
  esac
  patchelf --force-rpath --set-rpath "${list%:}" $file
done"#;

/// A store in a directory; the path of its program.
fn relocated(directory: &str) -> String {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
    let made = run(Command::new(make).args(["--libs=40", "--no-rpath"]).arg(directory));
    assert_eq!(made.code(), 0, "{}", made.err());
    let relocated = run(Command::new("bash").args(["-ec", RELOCATE, "relocate", directory]));
    assert_eq!(relocated.code(), 0, "{}", relocated.err());
    made.out().trim_end().to_owned()
}

fn operations(step: &Value, when: &str) -> u64 {
    step["predicted"][when]["metadata_ops"].as_u64().unwrap()
}

#[test]
fn files_without_room_leave_the_others_to_be_bound_and_what_growing_brings_is_said() {
    let place = Place::new();
    let program = relocated(&place.scene.at("tree"));
    let (before, said) = (place.operations(&[&program]), run(&mut place.command(&program, &[])));
    let steps = place.steps("loader", &[&program]);
    let lines = [
        format!("becalm fix --apply -- {program}"),
        format!("becalm fix --apply --grow -- {program}"),
    ];
    assert_eq!(commands(&steps), [&*lines[0], &*lines[1]]);
    assert_eq!(steps[1]["change"]["kind"], "grow_files");
    // Each line is pasted, and does what was promised.
    for ((line, step), left) in lines.iter().zip(&steps).zip([before * 9 / 10, before / 10]) {
        let promised = operations(step, "after");
        place.said(line);
        let after = place.operations(&[&program]);
        assert!(after <= left && after.abs_diff(promised) < 10, "{promised} became {after}");
        assert_eq!(run(&mut place.command(&program, &[])), said);
        place.said("becalm undo");
        assert_eq!(place.operations(&[&program]), before);
    }
    // The other way that is named, pasted: in all of the tree, no list stays for what is not there.
    let risk = steps[1]["risk"].as_str().unwrap();
    let line = format!("becalm elf bind --dry-run {}", place.scene.at("tree/store"));
    assert!(risk.contains(&format!("({line})")), "{risk}");
    let tree: Value = serde_json::from_str(&place.said(&format!("{line} --json"))).unwrap();
    let changes = tree["changes"].as_array().unwrap();
    let (in_place, grown) = (changes.len(), steps[1]["change"]["files"].as_array().unwrap().len());
    assert!(in_place >= grown, "{in_place} of {grown}: {:#}", tree["left_out"]);
    assert!(changes.iter().all(|change| change["room"] != "grown"), "{changes:#?}");
    assert!(place.said(&line).starts_with(&format!("Would bind {in_place} files: ")));
    // The plan says it, too, and people read it.
    let words = ["fix", "--", &program];
    let planned = run(place.command(BECALM, &words).env("COLUMNS", "1000"));
    assert_eq!(planned.code(), 0, "{}", planned.err());
    assert!(planned.out().contains(&format!("\n  {}\n", lines[1])), "{}", planned.out());
    assert!(planned.out().contains(": no room: "), "{}", planned.out());
    let checked = run(place.command(BECALM, &["check", "--", &program]).env("COLUMNS", "1000"));
    assert!(checked.err().contains(&*lines[1]), "{}", checked.err());
}

/// No storm, and all that could be bound has no room.
#[test]
fn where_nothing_is_done_the_next_line_lets_files_grow() {
    let place = Place::new();
    let (scene, long) = (&place.scene, place.scene.at(&"p".repeat(200)));
    let build = "mkdir -p $1 && for i in {1..20}; do echo \"int x$i(void) { return $i; }\" |
        gcc -x c - -shared -fPIC -Wl,-soname,libx$i.so -o $1/libx$i.so; done
        echo 'int main(void) { return 0; }' |
        gcc -x c - -x none -Wl,--no-as-needed,--disable-new-dtags,-rpath,$2/a:$2/b:$1 $1/*.so -o $2/app";
    let here = scene.at("");
    let built = run(Command::new("bash").args(["-ec", build, "build", &long, &here]));
    assert_eq!(built.code(), 0, "{}", built.err());
    let app = scene.at("app");
    let planned = run(place.command(BECALM, &["fix", "--", &app]).env("COLUMNS", "1000"));
    assert_eq!(planned.code(), 1, "{}", planned.out());
    let line = format!("\nNext: becalm fix --grow -- {app}\n");
    assert!(planned.out().contains(&line), "{}", planned.out());
    let before = place.operations(&[&app]);
    place.said(&format!("becalm fix --apply --grow -- {app}"));
    assert!(place.operations(&[&app]) < before);
}

#[test]
fn copies_of_files_without_room_grow_by_themselves() {
    if !testkit::user::is_root() {
        return;
    }
    let (scene, _) = testkit::user::scene_for_a_user(&[]);
    let program = relocated(scene.directory().to_str().unwrap());
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(scene.directory()).status();
    assert!(opened.unwrap().success());
    fs::create_dir(scene.at("home")).unwrap();
    chown(scene.at("home"), Some(65534), Some(65534)).unwrap();
    let (path, home) = (
        format!("PATH={}:/usr/bin:/bin", scene.directory().display()),
        format!("HOME={}", scene.at("home")),
    );
    let pasted = |line: &str| {
        let words = ["env", "-i", &path, &home, "bash", "-c", line];
        let ran = run(testkit::user::as_a_user(&words).current_dir(scene.directory()));
        assert_eq!(ran.code(), 0, "{line}: {}{}", ran.out(), ran.err());
        ran.out()
    };
    let found: Value =
        serde_json::from_str(&pasted(&format!("becalm check --json -- {program}"))).unwrap();
    let steps = steps_of(&found, "loader");
    // Who owns the files has to say so.
    let (calmed, asked) = (
        format!("becalm fix --apply -o app.calm -- {program}"),
        format!("becalm fix --apply --grow -- {program}"),
    );
    assert_eq!(commands(&steps), [&*calmed, &*asked]);
    pasted(&calmed);
    let checked = pasted("becalm check --json --until exit -- becalm run app.calm");
    let calm: Value = serde_json::from_str(&checked).unwrap();
    let measured = calm["totals"]["metadata_ops"].as_u64().unwrap();
    let promised = operations(&steps[0], "after");
    assert!(measured * 4 < operations(&steps[0], "before"), "{measured}: {steps:#?}");
    assert!(measured.abs_diff(promised) * 10 < measured, "{measured}: {steps:#?}");
    assert_eq!(pasted("becalm run app.calm"), pasted(&program));
}
