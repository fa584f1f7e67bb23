//! What `python -X importtime` prints (CPython's `Python/import.c`): a line an import, when it
//! ends.

use std::collections::HashMap;

use recording::Micros;

use crate::scan::{ImportScan, Time};

/// The variable that has the same effect as `-X importtime`.
pub const VARIABLE: &str = "PYTHONPROFILEIMPORTTIME";

/// The times of each module's first import, from standard error; other lines are passed over.
pub fn parse(text: &[u8]) -> HashMap<String, Time> {
    let mut times = HashMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Some((module, time)) = line_of(line) {
            times.entry(module).or_insert(time);
        }
    }
    times
}

/// `import time:       123 |        456 |   numpy.core`: microseconds, and the name, indented by
/// its depth.
fn line_of(line: &[u8]) -> Option<(String, Time)> {
    let line = std::str::from_utf8(line).ok()?;
    // What the program writes without a newline is before it.
    let (_, rest) = line.split_once("import time:")?;
    let mut parts = rest.splitn(3, '|').map(str::trim);
    let mut micros = || parts.next()?.parse().ok().map(Micros);
    let (own, cumulative) = (micros()?, micros()?);
    let module = parts.next()?.trim_matches(['\r', ' ']);
    (!module.is_empty()).then(|| (module.to_owned(), Time { own, cumulative }))
}

/// Puts the times beside the imports. A module that is imported in several places has its time
/// at the first. Says how many imports have one.
pub fn beside(scan: &mut ImportScan, mut times: HashMap<String, Time>) -> usize {
    let before = times.len();
    for import in scan.modules.iter_mut().filter(|import| import.times > 0) {
        import.time = times.remove(&import.module);
    }
    before - times.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_two_times_and_an_indented_name() {
        let text = b"import time: self [us] | cumulative | imported package\n\
            warning: not one | 1 | 2\n\
            import time:       107 |        107 |   _io\n\
            import time:       250 |       1234 | io\n\
            progress...import time:  3 | 4 | late\n\
            import time:       999 |       9999 | io\n";
        let times = parse(text);
        let micros = |name: &str| times.get(name).map(|time| (time.own.0, time.cumulative.0));
        assert_eq!(times.len(), 3);
        assert_eq!(micros("_io"), Some((107, 107)));
        assert_eq!(micros("io"), Some((250, 1234)), "the first");
        assert_eq!(micros("late"), Some((3, 4)));
    }
}
