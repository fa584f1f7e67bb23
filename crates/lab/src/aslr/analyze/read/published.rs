//! A line of the published test: `CT: rank min max avg stddev : …`, one a process.

use memchr::memmem;

const MARK: &[u8] = b"CT:";

/// What follows the mark, if the line has it: at its start, or after a rank that `srun --label`
/// or `mpirun --tag-output` puts there.
pub(crate) fn record(text: &[u8]) -> Option<&[u8]> {
    let at = memmem::find(text, MARK)?;
    // `7: ` of the one, `[1,7]<stdout>:` or `[1,7]<stderr>:` of the other.
    let is_label = |byte: &u8| byte.is_ascii_digit() || b" \t:[]<>,stdouer".contains(byte);
    text[..at].iter().all(is_label).then(|| &text[at + MARK.len()..])
}

/// The numbers of a line, in seconds.
pub(crate) struct Published {
    pub rank: u32,
    pub min: f64,
    pub max: f64,
    pub avg: f64,
    pub stddev: f64,
}

impl Published {
    /// The five numbers that a record begins with.
    pub(crate) fn parse(record: &[u8]) -> Option<Published> {
        let words = record.split(|byte| byte.is_ascii_whitespace() || b",;:".contains(byte));
        let mut words = words.filter(|word| !word.is_empty());
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let rank = word()?.parse().ok()?;
        let mut number = || word()?.parse().ok();
        Some(Published { rank, min: number()?, max: number()?, avg: number()?, stddev: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avg(line: &str) -> Option<f64> {
        Published::parse(record(line.as_bytes())?).map(|published| published.avg)
    }

    #[test]
    fn a_line_may_have_a_label_before_it_and_anything_behind() {
        assert_eq!(avg("CT: 12 0.1 0.3 0.2 0.01 : node17 cpu 3"), Some(0.2));
        assert_eq!(avg("  7: CT:    12 0.1 0.3 2e-1 0.01"), Some(0.2));
        assert_eq!(avg("[1,7]<stdout>:CT: 12 0.1 0.3 0.2 nan"), Some(0.2));
    }

    #[test]
    fn what_only_mentions_the_mark_is_no_record() {
        assert_eq!(record(b"the CT: lines follow"), None);
        assert_eq!(avg("CT: rank min max avg stddev"), None);
        assert_eq!(avg("CT: 12 0.1 0.3 0.2"), None);
    }
}
