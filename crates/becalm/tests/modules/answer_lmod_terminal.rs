//! `becalm modules answer` for Lmod in a terminal, whose width decides what is shown.

use crate::BECALM;
use crate::scene::lmod::{LMODS, LmodScene, Said, said};

/// Runs words in a terminal of so many columns.
fn in_a_terminal(scene: &LmodScene, columns: u16, words: &str) -> Said {
    let command = format!("stty cols {columns} rows 50; exec {words}");
    let mut script = scene.command("/usr/bin/script");
    said(&script.args(["-q", "-e", "-c", &command, "/dev/null"]).output().unwrap())
}

#[test]
fn the_width_of_the_terminal_is_the_answers() {
    for lmod in LMODS {
        let mut scene = LmodScene::new(lmod);
        // The pager is a program that is left to Lmod.
        scene.environment.insert("LMOD_PAGER".into(), "none".into());
        scene.environment.insert("SHELL".into(), "/bin/sh".into());
        let script = lmod.script();
        let script = script.display();
        let real = format!("{script} bash avail");
        let asked = format!("{BECALM} modules answer --tool {script} bash avail");
        let why = format!("{BECALM} modules answer --tool {script} --why bash avail");
        for columns in [60, 120, 60] {
            let answer = in_a_terminal(&scene, columns, &real);
            assert_eq!(in_a_terminal(&scene, columns, &asked), answer, "{columns}");
            let mut tries = 0;
            while in_a_terminal(&scene, columns, &why).0 != Some(0) {
                tries += 1;
                assert!(tries < 20, "{:?}", in_a_terminal(&scene, columns, &why));
                std::thread::sleep(std::time::Duration::from_millis(500));
                in_a_terminal(&scene, columns, &asked);
            }
            assert_eq!(in_a_terminal(&scene, columns, &asked), answer, "{columns} from memory");
        }
        let [narrow, wide] = [60, 120].map(|columns| in_a_terminal(&scene, columns, &asked).1);
        assert_ne!(narrow, wide);
    }
}
