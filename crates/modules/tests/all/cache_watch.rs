//! A watched tree tells that it has changed.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::ModuleTree;
use modules::cache::{Watch, WatchMethod};
use modules::tree::{WalkLimits, walk};

fn told(scene: &ModuleTree, change: impl FnOnce() + Send) -> Duration {
    let tree = walk(&scene.at("tree"), WalkLimits::default());
    let watch = Watch::over(&[tree], Duration::from_secs(3600)).unwrap();
    assert_eq!(watch.how(), WatchMethod::Inotify);
    let begun = Instant::now();
    thread::scope(|threads| {
        threads.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            change();
        });
        watch.wait().unwrap();
    });
    begun.elapsed()
}

#[test]
fn each_change_of_a_tree_is_told_and_waited_out() {
    let scene = ModuleTree::new();
    scene.module("tree/gcc/12");
    scene.module("elsewhere/1");
    std::os::unix::fs::symlink(scene.at("elsewhere/1"), scene.at("tree/gcc/link")).unwrap();
    let write = |path: &Path| fs::write(path, "#%Module\n# changed\n").unwrap();
    let changes: [Box<dyn FnOnce() + Send + '_>; 5] = [
        Box::new(|| drop(scene.module("tree/gcc/13"))),
        Box::new(|| write(&scene.at("tree/gcc/12"))),
        Box::new(|| write(&scene.at("elsewhere/1"))),
        Box::new(|| fs::create_dir(scene.at("tree/new")).unwrap()),
        Box::new(|| fs::remove_file(scene.at("tree/gcc/13")).unwrap()),
    ];
    for change in changes {
        let took = told(&scene, change);
        let quiet = Duration::from_secs(1);
        assert!(took >= quiet && took < Duration::from_secs(100), "{took:?}");
    }
}
