//! How ranks ended, and of which it is not known how long they take.

use term::number::time;

use super::ranks::{RankRow, numbers};

/// Why how long a rank takes is not known; what to look at first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RankTrouble {
    Failed,
    Cut,
    LetGo,
    /// As launchers do to the others where one has failed.
    Killed,
    Unreadable,
    None,
}

impl RankRow {
    pub(super) fn trouble(&self) -> RankTrouble {
        match (self.signal, self.status) {
            _ if self.unreadable.is_some() => RankTrouble::Unreadable,
            (Some(_), _) => RankTrouble::Killed,
            (_, Some(0)) => RankTrouble::None,
            (_, Some(_)) => RankTrouble::Failed,
            _ if self.totals.let_go.is_some() => RankTrouble::LetGo,
            _ => RankTrouble::Cut,
        }
    }

    /// Whether it ended as it should.
    pub fn is_good(&self) -> bool {
        self.trouble() == RankTrouble::None
    }

    /// The same in words, for a row.
    pub(super) fn end(&self) -> String {
        match (&self.unreadable, self.signal, self.status) {
            (Some(why), ..) => why.clone(),
            (_, Some(signal), _) => format!("killed by signal {signal}"),
            (.., Some(status)) if status != 0 => format!("status {status}"),
            _ if self.ended => String::new(),
            _ if self.totals.let_go.is_some() => "let go".to_owned(),
            _ => "cut".to_owned(),
        }
    }
}

/// Which ranks did not end as they should, or were not seen to: what is known of them. Nothing, where all did.
pub(super) fn unknown(rows: &[RankRow], absent: &[u32]) -> String {
    let groups = [
        (RankTrouble::Failed, "failed", "failed"),
        (RankTrouble::Cut, "is cut", "are cut"),
        (RankTrouble::LetGo, "was let go of", "were let go of"),
        (RankTrouble::Killed, "was killed", "were killed"),
        (RankTrouble::Unreadable, "cannot be read", "cannot be read"),
    ];
    let told = groups.into_iter().filter_map(|(trouble, one, several)| {
        let of: Vec<_> = rows.iter().filter(|row| row.trouble() == trouble).collect();
        let longest = of.iter().map(|row| row.totals.took).max()?;
        let which: Vec<u32> = of.iter().map(|row| row.rank).collect();
        let longest = match trouble {
            RankTrouble::Unreadable => String::new(),
            _ if of.len() == 1 => format!(" after {}", time(longest)),
            _ => format!(" after up to {}", time(longest)),
        };
        let what = if of.len() == 1 { one } else { several };
        Some(format!("{} {what}{longest}", numbers(&which)))
    });
    let absent = (!absent.is_empty()).then(|| format!("no recording of {}", numbers(absent)));
    told.chain(absent).collect::<Vec<_>>().join(", ")
}
