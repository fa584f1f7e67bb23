//! What this test program is when it starts itself: a recorder that holds threads back, and the
//! programs that are held.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use recording::Nanos;
use watch::{Deadlines, DelayPolicy, ReturnedCall};

/// How calls below a directory are held.
enum Hold {
    /// Each for so long, as if there were a server for each.
    Apart(Nanos),
    /// By one server that takes so long for each.
    OneServer(Nanos, Rc<Cell<Nanos>>),
    /// In so many steps of that length.
    Steps(u32, Nanos),
}

struct Below {
    directory: Vec<u8>,
    hold: Hold,
}

impl DelayPolicy for Below {
    fn delay(&mut self, call: &ReturnedCall<'_>) -> Option<Deadlines> {
        call.path.filter(|path| path.starts_with(&self.directory))?;
        let made = call.made;
        Some(match &self.hold {
            Hold::Apart(time) => Box::new(std::iter::once(made + *time)),
            Hold::OneServer(time, free_at) => {
                free_at.set(free_at.get().max(made) + *time);
                Box::new(std::iter::once(free_at.get()))
            }
            Hold::Steps(steps, time) => {
                let time = time.0;
                Box::new((1..=u64::from(*steps)).map(move |step| made + Nanos(step * time)))
            }
        })
    }
}

/// Plays the part that the arguments name.
pub fn play(mut words: Vec<OsString>) -> i32 {
    let role = words.remove(0).into_string().unwrap();
    let text = |at: usize| words[at].to_str().unwrap();
    match role.as_str() {
        "record" => record(&words),
        "stats" => print_stats(Path::new(text(0)), text(1).parse().unwrap()),
        "threads" => threads(Path::new(text(0)), text(1).parse().unwrap()),
        "one-of-two-ends" => beside(Path::new(text(0)), || std::process::exit(23)),
        "one-of-two-executes" => beside(Path::new(text(0)), || {
            let error = Command::new("sh").args(["-c", "exit 24"]).exec();
            panic!("{error}");
        }),
        "handles" => handles(Path::new(text(0))),
        _ => panic!("no such role: {role}"),
    }
}

/// `record HOW MICROSECONDS DIRECTORY REC CMD…`: ends as the command ends.
fn record(words: &[OsString]) -> i32 {
    let [how, micros, directory, rec, command @ ..] = words else { panic!("{words:?}") };
    let time = Nanos(micros.to_str().unwrap().parse::<u64>().unwrap() * 1000);
    let hold = match how.to_str().unwrap() {
        "apart" => Hold::Apart(time),
        "one-server" => Hold::OneServer(time, Rc::default()),
        "steps" => Hold::Steps(4, time),
        other => panic!("{other}"),
    };
    let directory = directory.to_str().unwrap().as_bytes().to_vec();
    let options = watch::RecorderOptions {
        calls: match std::env::var_os("ALL_SYSCALLS") {
            Some(_) => watch::WatchedCalls::All,
            None => watch::WatchedCalls::WithData,
        },
        old_kernel: std::env::var_os("OLD_KERNEL").is_some(),
        ..watch::RecorderOptions::default()
    };
    let command = launch::Command::of(command.to_vec());
    let delays = Box::new(Below { directory, hold });
    let session = watch::record_delayed(&command, File::create(rec).unwrap(), &options, delays);
    let finished = session.and_then(watch::Session::wait).unwrap();
    assert_eq!(finished.failure, None);
    i32::from(finished.ended.pass_on())
}

/// How long each of so many stats of a file takes, one a line, in ns.
fn print_stats(file: &Path, times: usize) -> i32 {
    let took: Vec<_> = (0..times).map(|_| stat(file)).collect();
    let lines: String = took.iter().map(|took| format!("{}\n", took.as_nanos())).collect();
    print!("{lines}");
    0
}

fn stat(file: &Path) -> Duration {
    let start = Instant::now();
    let _ = std::hint::black_box(file.symlink_metadata());
    start.elapsed()
}

/// Threads that stat side by side, 20 times each; prints how long they took together, in ns,
/// and the shortest stat.
fn threads(file: &Path, number: usize) -> i32 {
    let start = Instant::now();
    let shortest = std::thread::scope(|scope| {
        let stats = || (0..20).map(|_| stat(file)).min().unwrap();
        let threads: Vec<_> = (0..number).map(|_| scope.spawn(stats)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).min().unwrap()
    });
    println!("{}\n{}", start.elapsed().as_nanos(), shortest.as_nanos());
    0
}

/// One thread stats, and is held, while another does something.
fn beside(file: &Path, act: impl FnOnce() + Send) -> i32 {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            act();
        });
        stat(file);
    });
    0
}

/// Stats with a handler for SIGTERM; prints whether it ran, and how long the stat took.
fn handles(file: &Path) -> i32 {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    static RAN: AtomicBool = AtomicBool::new(false);
    extern "C" fn handler(_: i32) {
        RAN.store(true, SeqCst);
    }
    // SAFETY: the handler only stores into an atomic.
    unsafe { libc::signal(libc::SIGTERM, handler as *const () as libc::sighandler_t) };
    println!("ready");
    let took = stat(file);
    println!("{}\n{}", RAN.load(SeqCst), took.as_nanos());
    0
}
