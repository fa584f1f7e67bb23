//! The modes of `becalm elf bind`, and what each must keep: the order in which symbols are looked
//! up, constructors run and libraries come.

use std::fs;

use serde_json::Value;
use testkit::bound::{Site, changed, says_with, shown, start};

const MODES: [&str; 3] = ["needed", "farm", "closure"];

#[test]
fn a_closure_changes_the_program_and_no_library() {
    for kind in [&[][..], &["--runpath"]] {
        let site = Site::new();
        let app = site.store(40, kind);
        let (before, shown_before) = (start(&app, &[]), shown(&app, &[]));
        let bound = site.bind(&["--mode=closure"]);
        assert_eq!(changed(&bound), [app.as_str()], "{kind:?}");
        assert_eq!(bound["files"].as_array().unwrap().len(), 1);
        assert_eq!(shown(&app, &[]), shown_before);
        let after = start(&app, &[]);
        assert_eq!((after.failed_opens, after.failed_stats), (0, 0), "{kind:?}");
        // The libraries, libc, and the closure.
        assert!(after.opens <= 40 + 2, "{after:?}");
        assert!(after.mmaps <= before.mmaps + 4, "{before:?} {after:?}");
        assert_eq!(bound["predicted"]["after"], after.to_json());
    }
}

#[test]
fn a_farm_is_searched_once() {
    for kind in [&[][..], &["--runpath"]] {
        let site = Site::new();
        let app = site.store(40, kind);
        let shown_before = shown(&app, &[]);
        let bound = site.bind(&["--mode=farm"]);
        assert_eq!(shown(&app, &[]), shown_before, "{kind:?}");
        let after = start(&app, &[]);
        // The sub-directories for hardware, when the farm is met first.
        assert!(after.failed_opens <= 18, "{kind:?}: {after:?}");
        assert!(after.opens <= 40 + 2 + 18, "{kind:?}: {after:?}");
        assert_eq!(bound["predicted"]["after"], after.to_json());
        let farms = fs::read_dir(site.at(".becalm/farm")).unwrap().count();
        assert_eq!(farms, 1);
    }
}

/// The program finds b for nobody, d finds x in the first directory of two, and b's list cannot be replaced:
/// a farm that x is not in would only be one directory more to look into.
#[test]
fn what_would_have_all_its_starts_look_up_more_stays_as_it_is() {
    let site = Site::new();
    let x = site.part("d", "x", &[]);
    let d = site.part("d", "d", &[&site.runpath(&["d/lib", "e/lib"]), &x]);
    let relative = format!("{}:", site.rpath(&["d/lib"]));
    let b = site.part("e", "b", &[&relative, &d]);
    site.ask("app", &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../d/lib", &b, &x]);
    let said = site.says(&["elf", "bind", "--mode=farm", "--dry-run", "--json", &site.tree()]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(changed(&said), Vec::<&str>::new(), "{said:#}");
    let of_d = said["left_out"].as_array().unwrap().iter().find(|left| left["path"] == d.as_str());
    let reason = &of_d.unwrap()["reason"];
    assert_eq!(reason, "edited, it would have starts look up more than today");
}

/// `both` is offered by c, which a needs, and by b. Breadth first, b comes before c.
#[test]
fn of_two_libraries_with_one_function_the_same_is_called() {
    for mode in MODES {
        let site = Site::new();
        let (to_c, to_all) = (site.rpath(&["n", "m", "c/lib"]), ["n", "m", "a/lib", "b/lib"]);
        let c = site.part("c", "c", &["-DALSO=both"]);
        let a = site.part("a", "a", &[&to_c, &c]);
        let b = site.part("b", "b", &["-DALSO=both"]);
        let app = site.ask("app", &[&site.rpath(&to_all), &a, &b]);
        let before = shown(&app, &["both", "a", "b", "c"]);
        assert!(before.says.contains("both: b of b\n"), "{}", before.says);
        let bound = site.bind(&["--mode", mode]);
        assert!(bound["applied"].is_string(), "{mode}: {bound:#}");
        assert_eq!(shown(&app, &["both", "a", "b", "c"]), before, "{mode}");
    }
}

/// The loader runs constructors of what is needed first, in an order that depends on who needs
/// whom; z needs y needs x, and the program needs them in yet another order.
#[test]
fn constructors_run_in_the_same_order() {
    for mode in MODES {
        let site = Site::new();
        let list = site.rpath(&["n", "m", "x/lib", "y/lib", "z/lib"]);
        let x = site.part("x", "x", &[]);
        let y = site.part("y", "y", &[&list, &x]);
        let z = site.part("z", "z", &[&list, &y]);
        let app = site.ask("app", &[&list, &x, &z, &y]);
        let before = shown(&app, &[]);
        assert_eq!(before.says, "loaded: x of x\nloaded: y of y\nloaded: z of z\n");
        site.bind(&["--mode", mode]);
        assert_eq!(shown(&app, &[]), before, "{mode}");
    }
}

/// DT_RPATH comes before LD_LIBRARY_PATH, DT_RUNPATH after it.
#[test]
fn an_overridable_farm_lets_ld_library_path_win() {
    for kind in ["rpath", "runpath"] {
        let site = Site::new();
        let list = |directories: &[&str]| match kind {
            "rpath" => site.rpath(directories),
            _ => site.runpath(directories),
        };
        let x = site.part("x", "x", &[]);
        let y = site.part("y", "y", &[&list(&["n", "m", "x/lib"]), &x]);
        site.part("other", "x", &[]);
        let app = site.ask("app", &[&list(&["n", "m", "x/lib", "y/lib"]), &y]);
        let before = shown(&app, &["x", "y"]);
        site.bind(&["--mode=farm", "--overridable"]);
        assert_eq!(shown(&app, &["x", "y"]), before);
        assert!(start(&app, &[]).failed_opens <= 18);
        let other = [("LD_LIBRARY_PATH", &*site.at("other/lib"))];
        let said = says_with(&app, &["x"], &other);
        assert!(said.ends_with("x: x of other\n"), "{kind}: {said}");
    }
}

#[test]
fn overridable_without_a_farm_is_wrong_usage() {
    let site = Site::new();
    site.store(12, &[]);
    for words in [&["--overridable"][..], &["--overridable", "--mode=needed"]] {
        let ran = testkit::run(&mut site.becalm(&[&["elf", "bind"], words, &["tree"]].concat()));
        assert_eq!(ran.code(), 2, "{words:?}: {}{}", ran.out(), ran.err());
    }
    assert!(site.is_untouched());
}
