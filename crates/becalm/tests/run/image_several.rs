//! `becalm run` with several images: each is seen at its own place, one holder serves them all, and
//! what they have in common is said before the command starts.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cure::{CalmFile, CalmImage, CalmImageBeside};
use remedy::FileState;
use serde_json::Value;
use testkit::imaged::{As, Imaged, ways};
use testkit::installed;
use testkit::scene::becalm;
use testkit::user::scene_for_a_user;
use testkit::{Live, run};

/// Packs a directory of the scene's, which then says `directory` where the image says `image`.
fn packed(env: &Imaged, directory: &str) -> String {
    let path = env.scene.subdirectory(directory);
    packed_at(env, &path, &format!("{directory}.sqsh").replace('/', "-"))
}

fn packed_at(env: &Imaged, path: &str, name: &str) -> String {
    let kept = Path::new(path).join("__pycache__");
    fs::create_dir_all(&kept).unwrap();
    let place = kept.join("where");
    fs::write(&place, "image\n").unwrap();
    let image = env.scene.at(name);
    let built = run(Command::new(becalm()).args(["image", "build", "-o", &image, path]));
    assert_eq!(built.code(), 0, "{}", built.err());
    fs::write(&place, "directory\n").unwrap();
    image
}

fn small() -> Imaged {
    Imaged::of("first", |first| fs::create_dir_all(first.join("sub/inner")).unwrap())
}

#[test]
fn each_image_is_seen_at_its_own_place_and_one_holder_serves_all() {
    let env = small();
    let (second, third) = (packed(&env, "second: a"), packed(&env, "third"));
    let elsewhere = format!("{third}:{}", env.scene.subdirectory("elsewhere"));
    let options = ["--image", &second, "--image", &elsewhere];
    let script = "cd \"$0/..\" && cat first/where 'second: a/__pycache__/where' \
                  elsewhere/__pycache__/where third/__pycache__/where";
    for who in ways() {
        assert_eq!(env.said(who, &options, script), "image\nimage\nimage\ndirectory\n", "{who:?}");
        let wait = "cat \"$0/where\"; echo \"$BECALM_IMAGE\"; read line || :";
        let mut rank = Live::start(&mut env.sh(who, &options, wait));
        assert_eq!(rank.line(), "image");
        assert_eq!(rank.line(), format!("{}:{second}:{third}", env.image));
        // A later rank finds it by the same images at the same places, and no other.
        let joined = |options: &[&str]| -> Value {
            let ran = run(&mut env.sh(who, &[options, &["--json"]].concat(), "true"));
            serde_json::from_str(&ran.err()).unwrap_or_else(|error| panic!("{error} {}", ran.err()))
        };
        let later = joined(&options);
        assert_eq!(later["image"]["joined"], true, "{later}");
        assert_eq!(later["image"]["beside"][0]["file"], second.as_str());
        let over = later["image"]["beside"][1]["over"][0].as_str().unwrap();
        assert!(over.ends_with("/elsewhere"), "{over}");
        assert_eq!(env.holders().len(), 1, "{who:?}");
        assert_eq!(joined(&options[..2])["image"]["joined"], false);
        assert_eq!(rank.end().code(), 0);
        env.all_gone();
    }
}

#[test]
fn an_image_within_another_lies_over_it_whichever_is_named_first() {
    let env = small();
    // What the outer image has, and what only the directory on disk has.
    let inner = packed(&env, "packed");
    let late = env.scene.subdirectory("first/sub/late");
    for (place, is_said) in [("sub/inner", true), ("sub/late", true)] {
        let at = format!("{inner}:{}/{place}", env.directory);
        let script = format!("cat \"$0/where\" \"$0/{place}/__pycache__/where\"; ls \"$0/sub\"");
        for who in ways() {
            let options = ["--check", "no", "--image", &at];
            let ran = run(&mut env.sh(who, &options, &script));
            assert_eq!(ran.code(), 0, "{who:?} {}", ran.err());
            assert!(ran.out().starts_with("image\nimage\ninner\n"), "{who:?} {}", ran.out());
            assert_eq!(ran.err().contains("it lies within that"), is_said, "{}", ran.err());
            // The other way round.
            let other = Imaged { image: at.clone(), ..small_like(&env) };
            let options = ["--check", "no", "--image", &env.image];
            let ran = run(&mut other.sh(who, &options, &script));
            assert!(ran.out().starts_with("image\nimage\ninner\n"), "{who:?} {}", ran.err());
        }
    }
    fs::remove_dir(late).unwrap();
    let nowhere = format!("{inner}:{}/sub/none", env.directory);
    for who in ways() {
        let why = env.refused(who, &["--check", "no", "--image", &nowhere]);
        assert!(why.contains("which does not have it") && why.contains("mkdir -p"), "{why}");
    }
}

/// The same directory, seen from a scene of its own.
fn small_like(env: &Imaged) -> Imaged {
    let (scene, _) = scene_for_a_user(&[]);
    Imaged { scene, directory: env.directory.clone(), image: String::new() }
}

#[test]
fn what_cannot_be_is_refused_in_one_line_and_what_is_otherwise_is_said_before() {
    let env = small();
    let second = packed(&env, "second");
    let place = env.directory.clone();
    let same = format!("{second}:{place}");
    let link = env.scene.at("link");
    std::os::unix::fs::symlink(&place, &link).unwrap();
    let linked = format!("{second}:{link}");
    let new = format!("{second}:{}/not/there", env.scene.at("new"));
    for who in ways() {
        for same in [&same, &linked] {
            let why = env.refused(who, &["--image", same]);
            assert!(why.contains("and so does") && why.contains("FILE:/PLACE"), "{why}");
        }
        let roots = [format!("{second}:/"), format!("{}:/", env.image)];
        let why = env.refused(who, &["--image", &roots[0], "--image", &roots[1]]);
        assert!(why.contains("is a whole root, and so is"), "{why}");
        let gone = env.refused(who, &["--image", "/no/such.sqsh:/opt"]);
        assert!(gone.contains("/no/such.sqsh: cannot find"), "{gone}");
        let relative = run(&mut env.sh(who, &["--image", &format!("{second}:opt")], "true"));
        let why = relative.err();
        assert!(relative.code() == 2 && why.contains("\"opt\" is no absolute path"), "{why}");
        let at = run(&mut env.sh(who, &["--image", &second, "--at", "/opt"], "true"));
        assert!(at.code() == 2 && at.err().contains("--at is for one image"), "{}", at.err());
        let script = "cat \"$0/../new/not/there/__pycache__/where\"";
        let ran = run(&mut env.sh(who, &["--image", &new], script));
        assert_eq!((ran.code(), ran.out().as_str()), (0, "image\n"), "{}", ran.err());
        let said = ran.err();
        assert!(said.contains("several images") && said.contains("there was nothing"), "{said}");
        // Two images that have nothing to do with each other say nothing.
        assert_eq!(run(&mut env.sh(who, &["--image", &second], "true")).err(), "");
    }
}

#[test]
fn each_of_them_is_as_fresh_as_its_own_sources() {
    let env = small();
    let second = packed(&env, "second");
    let edited = env.scene.path("second/module.py");
    std::thread::sleep(Duration::from_millis(1100)); // squashfs counts seconds
    fs::write(&edited, "new = 1\n").unwrap();
    let options = ["--image", &second];
    for who in ways() {
        let why = env.refused(who, &options);
        assert!(
            why.contains("second.sqsh: is older") && why.contains("second has changed"),
            "{why}"
        );
        let seen = "cd \"$0/..\" && cat second/module.py first/where";
        let live = run(&mut env.sh(who, &["--image", &second, "--live"], seen));
        assert_eq!(live.out(), "new = 1\nimage\n", "{who:?}");
        let older: Vec<_> = live.err().lines().map(str::to_owned).collect();
        assert!(older.len() == 1 && older[0].contains("second.sqsh is older"), "{older:?}");
        let old = env.said(who, &["--image", &second, "--check", "no"], "ls \"$0/../second\"");
        assert_eq!(old, "__pycache__\n", "{who:?}");
    }
}

#[test]
fn changes_go_over_the_first_image() {
    let env = small();
    let second = packed(&env, "second");
    for who in ways() {
        let options = ["--image", &second, "--writable-tmpfs"];
        let script = "echo new > \"$0/new\" && cat \"$0/new\" \"$0/../second/__pycache__/where\"; \
                      echo > \"$0/../second/new\"";
        let ran = run(&mut env.sh(who, &options, script));
        assert_eq!(ran.out(), "new\nimage\n", "{who:?} {}", ran.err());
        assert!(ran.err().contains("Read-only file system"), "{}", ran.err());
    }
}

#[test]
fn ranks_do_not_notice_that_the_holder_of_several_images_is_killed() {
    let env = Imaged::of("first", |first| {
        for number in 0..200 {
            fs::write(first.join(format!("file{number}")), format!("{number}\n")).unwrap();
        }
    });
    let directory = env.scene.subdirectory("second");
    for number in 0..200 {
        fs::write(format!("{directory}/file{number}"), format!("{number}\n")).unwrap();
    }
    let second = packed_at(&env, &directory, "second.sqsh");
    let script = "cd \"$0/..\"; echo ready; for n in $(seq 0 199); do \
                  read a < first/file$n; read b < second/file$n; \
                  [ \"$a $b\" = \"$n $n\" ] || echo wrong $n; done; echo done";
    for who in [As::User, As::RootByFuse].into_iter().filter(|who| ways().contains(who)) {
        let mut rank = Live::start(&mut env.sh(who, &["--image", &second], script));
        assert_eq!(rank.line(), "ready");
        for _ in 0..10 {
            for holder in env.holders() {
                let _ = Command::new("kill").args(["-9", &holder.to_string()]).output().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let ran = rank.end();
        assert_eq!((ran.code(), ran.out().as_str()), (0, "done\n"), "{who:?} {}", ran.err());
        env.all_gone();
    }
}

#[test]
fn python_takes_numpy_from_one_image_and_the_application_from_another() {
    let numpy = Imaged::of("numpy-env", |directory| {
        let packages = installed::venv().join("lib");
        let packages = fs::read_dir(packages).unwrap().flatten().next().unwrap().path();
        for name in ["numpy", "numpy.libs"] {
            let from = packages.join("site-packages").join(name);
            let copied = Command::new("cp").arg("-a").arg(from).arg(directory).status();
            assert!(copied.unwrap().success());
        }
        let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(directory).status();
        assert!(opened.unwrap().success());
        fs::write(directory.join("six.py"), "whose = 'numpy-env'\n").unwrap();
    });
    let application = numpy.scene.subdirectory("application");
    let main = "import numpy, six, sys; print(numpy.__file__, numpy.arange(4).sum(), six.whose)\n";
    fs::write(format!("{application}/six.py"), "whose = 'application'\n").unwrap();
    fs::write(format!("{application}/main.py"), main).unwrap();
    let image = packed_at(&numpy, &application, "application.sqsh");
    let path = format!("{application}:{}", numpy.directory);
    for who in ways() {
        let words = ["python3", &format!("{application}/main.py")];
        let mut command = numpy.run(who, &["--image", &image], &words);
        let ran = run(command.env("PYTHONPATH", &path));
        let right = format!("{}/numpy/__init__.py 6 application\n", numpy.directory);
        assert_eq!(ran.out(), right, "{who:?} {}", ran.err());
        let said = ran.err();
        assert!(said.contains("PYTHONPATH") && said.contains("six: its directory"), "{said}");
        let mut command = numpy.run(who, &["--image", &image, "--json"], &["true"]);
        let told = run(command.env("PYTHONPATH", &path)).err();
        let told: Value = serde_json::from_str(&told).unwrap();
        let conflict = &told["image"]["conflicts"][0];
        assert_eq!(conflict["kind"], "same-name");
        assert_eq!(conflict["image"], image.as_str());
        assert_eq!(conflict["hidden"], numpy.image.as_str());
        assert_eq!((&conflict["names"][0], &conflict["count"]), (&"six".into(), &1.into()));
        numpy.all_gone();
    }
}

#[test]
fn a_calm_file_has_several_images_and_others_can_be_added() {
    let env = small();
    let (second, third) = (packed(&env, "second"), packed(&env, "third"));
    let image = |file: &str| {
        let FileState { bytes, digest, .. } = FileState::of(Path::new(file)).unwrap();
        CalmImage { file: file.into(), over: Vec::new(), bytes, digest }
    };
    let placed = env.scene.subdirectory("placed");
    let calm = CalmFile {
        command: ["true"].map(Into::into).into(),
        directory: "/".into(),
        image: Some(image(&env.image)),
        beside: vec![CalmImageBeside { image: image(&second), at: Some(placed.into()) }],
        ..CalmFile::default()
    };
    let file = env.scene.at("app.calm");
    fs::write(&file, calm.to_text(&env.scene.directory()).unwrap()).unwrap();
    let script = "cd \"$0/..\" && cat first/where placed/__pycache__/where \
                  second/__pycache__/where third/__pycache__/where";
    let words = ["--image", &third, "--", "sh", "-c", script, &env.directory];
    let ran = run(Command::new(becalm()).args(["run", &file]).args(words));
    assert_eq!(ran.out(), "image\nimage\ndirectory\nimage\n", "{}", ran.err());
    let checked = run(Command::new(becalm()).args(["calm", "check", "--json", &file]));
    let checked: Value = serde_json::from_str(&checked.out()).unwrap();
    // The first has other sources by now, and of one with a place nobody knows what it was made of.
    assert_eq!(checked["compared"], 2, "{checked}");
    assert!(checked["reasons"][0].as_str().unwrap().contains("image.sqsh: is older"), "{checked}");
    assert_eq!(checked["reasons"].as_array().unwrap().len(), 1, "{checked}");
    let shown = run(Command::new(becalm()).args(["calm", "show", &file])).out();
    assert!(shown.contains("second.sqsh at"), "{shown}");
    fs::write(&second, "no image").unwrap();
    let ran = run(Command::new(becalm()).args(["run", &file]));
    assert!(ran.code() == 125 && ran.err().contains("second.sqsh"), "{}", ran.err());
    fs::remove_file(&second).unwrap();
    let ran = run(Command::new(becalm()).args(["run", &file]));
    assert!(ran.code() == 125 && ran.err().contains("second.sqsh is gone"), "{}", ran.err());
}
