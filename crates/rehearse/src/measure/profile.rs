//! All that was measured, as a profile.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cost::{
    Bandwidth, CacheRules, DataServer, FilesystemProfile, MetadataServer, Revalidation, TimeSpan,
};
use recording::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::{AloneFigures, LifetimeFigures, LoadFigures, TransferFigures, WATCHED_OUT};

/// What was measured of a filesystem.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FilesystemFigures {
    /// Its type, as /proc/self/mountinfo has it.
    pub kind: String,
    /// Whether a server holds it: it is of a network filesystem's type, or of FUSE's.
    pub is_network: bool,
    /// Nodes that measured.
    pub nodes: u64,
    /// Ranks that did.
    pub ranks: u64,
    /// Whether the files were made by another node than that which measured alone.
    pub is_made_elsewhere: bool,
    /// What one client waited.
    pub alone: AloneFigures,
    /// What many did at once: with few threads each, then with more.
    pub loads: Vec<LoadFigures>,
    /// For how long one client trusted what it had.
    pub lifetimes: LifetimeFigures,
    /// What one client a node read, all at once: bytes are those of all.
    pub transfers: TransferFigures,
}

/// A profile, and what it can be relied on for.
#[derive(Clone, Debug)]
pub struct MeasuredProfile {
    /// It.
    pub profile: FilesystemProfile,
    /// Whether the server, or the client before it, had as much to do as it can: if not, it may
    /// do more than the profile says.
    pub is_saturated: bool,
    /// For how long names that are there were trusted at least; none: they were not.
    pub entries: TimeSpan,
    /// The same of names that are not.
    pub negatives: TimeSpan,
    /// Whether `entries` is no more than for how long they were watched: they were still trusted then.
    pub is_entries_least: bool,
    /// The same of `negatives`.
    pub is_negatives_least: bool,
    /// Whether data came from the server, not from the node's own memory.
    pub is_data_cold: bool,
}

/// An operation that takes less than this part of what one asked of the server takes was answered by
/// the client itself.
const OWN: f64 = 0.35;

/// The type of the filesystem that a path is on.
///
/// # Errors
/// Of /proc.
pub fn filesystem_kind(path: &Path) -> io::Result<String> {
    let path = path.canonicalize()?;
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let at = proc::mount_entries(&mounts).filter(|mount| path.starts_with(&mount.point));
    // Of two at one point, the later covers the earlier.
    let found = at.max_by_key(|mount| mount.point.as_os_str().len());
    let kind = found.map(|mount| String::from_utf8_lossy(mount.kind.as_bytes()).into_owned());
    Ok(kind.unwrap_or_else(|| "unknown".to_owned()))
}

impl FilesystemFigures {
    /// What one metadata RPC takes where nobody else asks, in nanoseconds: a lookup of what is not
    /// there, or of another node's file, whichever takes longer. (A client that has all of a
    /// directory knows what is not in it.)
    pub fn latency_ns(&self) -> u64 {
        let there = if self.is_made_elsewhere { self.alone.there.p50_ns } else { 0 };
        self.alone.absent.p50_ns.max(there)
    }

    /// The most lookups a second that were seen.
    fn best(&self) -> Option<LoadFigures> {
        let loads = self.loads.iter().filter(|load| load.rate() > 0.0).copied();
        loads.max_by(|one, other| one.rate().total_cmp(&other.rate()))
    }

    /// As a profile of this name.
    pub fn profile(&self, name: &str, about: String) -> MeasuredProfile {
        let latency = self.latency_ns();
        let best = self.best();
        let service = best.map_or(0.0, |best| 1e9 / best.rate()).min(latency as f64);
        // As many as wait for nobody would do more than twice as much.
        let is_saturated = self
            .loads
            .iter()
            .any(|load| load.clients as f64 * 1e9 / (latency.max(1) as f64) > 2.0 * load.rate());
        let is_own = |took: u64| (took as f64) < OWN * latency as f64;
        let (entries, is_entries_least) =
            self.lifetime(self.alone.there_again.p50_ns, |it| it.there.p50_ns);
        let (negatives, is_negatives_least) =
            self.lifetime(self.alone.absent_again.p50_ns, |it| it.absent.p50_ns);
        let sent = |took: u64| match !self.is_network || is_own(took) {
            true => Revalidation::Cached,
            false => Revalidation::EachTime,
        };
        let first = self.alone.first_bytes.p50_ns;
        let is_data_cold =
            first > 0 && (!self.is_network || first > 2 * self.alone.first_bytes_again.p50_ns);
        let mds = MetadataServer {
            round_trip: rounded(latency as f64 - service),
            service: rounded(service),
        };
        let data = match is_data_cold {
            true => DataServer {
                round_trip: rounded(first as f64),
                bandwidth: self.bandwidth(first),
                fault: Some(rounded(first as f64)),
                readahead: None,
            },
            false => DataServer::default(),
        };
        let cache = CacheRules {
            entries,
            negatives,
            open: sent(self.alone.open.p50_ns),
            list: sent(self.alone.list_again.p50_ns),
        };
        let profile = FilesystemProfile {
            name: name.to_owned(),
            about,
            mds,
            data,
            cache,
            disk: None,
            cold_server: false,
            metadata_servers: 1,
        };
        MeasuredProfile {
            profile,
            is_saturated,
            entries,
            negatives,
            is_entries_least,
            is_negatives_least,
            is_data_cold,
        }
    }

    /// For how long names were trusted, and whether that is only for how long they were watched. It is
    /// `forever` where they were at each check, up to the last that there ever is.
    fn lifetime(
        &self,
        at_once: u64,
        later: impl Fn(&super::LifetimeCheck) -> u64,
    ) -> (TimeSpan, bool) {
        let is_own = |took: u64| (took as f64) < OWN * self.latency_ns() as f64;
        if !self.is_network {
            return (TimeSpan::FOREVER, false);
        }
        if !is_own(at_once) {
            return (TimeSpan::ZERO, false);
        }
        let checks = &self.lifetimes.checks;
        let held = checks.iter().take_while(|check| is_own(later(check))).count();
        let is_least = held == checks.len();
        match checks[..held].last().map(|check| check.after_seconds) {
            Some(last) if is_least && last >= WATCHED_OUT => (TimeSpan::FOREVER, false),
            // Too short is too many requests, which is what a guess may be.
            Some(last) => (TimeSpan::of(Nanos(last * 1_000_000_000)), is_least),
            // It was trusted at once, and not a second later, or nobody looked.
            None => (TimeSpan::of(Nanos(500_000_000)), is_least),
        }
    }

    /// Bytes a second beside the round trips, where these leave anything to see.
    fn bandwidth(&self, round_trip: u64) -> Option<Bandwidth> {
        let TransferFigures { readers, bytes, seconds, .. } = self.transfers;
        if bytes == 0 || seconds <= 0.0 {
            return None;
        }
        let each = bytes.div_ceil(readers.max(1)).div_ceil(1 << 20);
        let trips = each as f64 * round_trip as f64 / 1e9;
        let seconds = if trips < 0.5 * seconds { seconds - trips } else { seconds };
        let rate = three_digits(bytes as f64 / seconds).max(1e3);
        format!("{rate}B/s").parse().ok()
    }
}

/// Nanoseconds, to three digits: no more is known.
fn rounded(nanos: f64) -> TimeSpan {
    TimeSpan::of(Nanos(three_digits(nanos.max(0.0)) as u64))
}

fn three_digits(number: f64) -> f64 {
    if number < 1.0 {
        return 0.0;
    }
    let unit = 10f64.powf((number.log10().floor() - 2.0).max(0.0));
    (number / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::super::{LifetimeCheck, TimedSeries};
    use super::*;

    fn took(p50_ns: u64) -> TimedSeries {
        TimedSeries { samples: 100, p50_ns, p95_ns: p50_ns }
    }

    /// A server of 2 ms that does 1,000 a second, whose clients trust what is there for 10 s.
    fn figures() -> FilesystemFigures {
        let check = |after_seconds| LifetimeCheck {
            after_seconds,
            there: took(if after_seconds <= 10 { 5_000 } else { 2_000_000 }),
            absent: took(2_000_000),
        };
        FilesystemFigures {
            kind: "nfs4".to_owned(),
            is_network: true,
            nodes: 1,
            ranks: 1,
            is_made_elsewhere: false,
            alone: AloneFigures {
                absent: took(2_000_000),
                absent_again: took(2_000_000),
                there: took(4_000),
                there_again: took(4_000),
                open: took(2_000_000),
                list_again: took(9_000),
                first_bytes: took(1_000_000),
                first_bytes_again: took(3_000),
            },
            loads: vec![
                LoadFigures { clients: 2, lookups: 2000, seconds: 2.0 },
                LoadFigures { clients: 64, lookups: 2000, seconds: 2.0 },
            ],
            lifetimes: LifetimeFigures { checks: [1, 5, 10, 15, 31].map(check).to_vec() },
            transfers: TransferFigures {
                readers: 1,
                bytes: 16 << 20,
                seconds: 0.016 + f64::from(16 << 20) / 1e9,
                seconds_again: 0.01,
            },
        }
    }

    #[test]
    fn what_was_measured_is_the_profile() {
        let measured = figures().profile("ours", String::new());
        let profile = &measured.profile;
        assert!(measured.is_saturated && measured.is_data_cold);
        assert_eq!((profile.latency(), profile.ops_per_second()), (Nanos(2_000_000), Some(1000)));
        assert_eq!(profile.cache.entries.to_string(), "10s");
        assert_eq!(profile.cache.negatives, TimeSpan::ZERO);
        assert_eq!(profile.cache.open, Revalidation::EachTime);
        assert_eq!(profile.cache.list, Revalidation::Cached);
        assert_eq!(profile.data.round_trip.to_string(), "1ms");
        let bandwidth = profile.data.bandwidth.unwrap().bytes_per_second();
        assert!((bandwidth / 1e9 - 1.0).abs() < 0.02, "{bandwidth}");
    }

    #[test]
    fn forever_is_what_was_watched_to_the_end_and_less_is_a_lower_bound() {
        let of = |watched: &[u64]| {
            let mut figures = figures();
            let check = |after_seconds| {
                let (there, absent) = (took(5_000), took(2_000_000));
                LifetimeCheck { after_seconds, there, absent }
            };
            figures.lifetimes.checks = watched.iter().copied().map(check).collect();
            let measured = figures.profile("ours", String::new());
            assert!(!measured.is_negatives_least);
            (measured.profile.cache.entries.to_string(), measured.is_entries_least)
        };
        assert_eq!(of(&[1, 2, 3]), ("3s".to_owned(), true));
        assert_eq!(of(&[1, 29, 30]), ("30s".to_owned(), true));
        assert_eq!(of(&[1, 29, 31]), ("forever".to_owned(), false));
        assert_eq!(of(&[]), ("500ms".to_owned(), true));
        let measured = figures().profile("ours", String::new());
        assert!(!measured.is_entries_least, "it was seen to end");
    }

    #[test]
    fn a_server_that_was_never_busy_may_do_more_and_a_local_disk_forgets_nothing() {
        let mut quick = figures();
        quick.loads = vec![LoadFigures { clients: 8, lookups: 7000, seconds: 2.0 }];
        assert!(!quick.profile("ours", String::new()).is_saturated);
        let local = FilesystemFigures { is_network: false, ..figures() };
        let cache = local.profile("ours", String::new()).profile.cache;
        assert_eq!((cache.negatives, cache.open), (TimeSpan::FOREVER, Revalidation::Cached));
    }

    #[test]
    fn the_files_of_another_node_are_the_latency_where_a_client_knows_what_is_not_there() {
        let mut figures = figures();
        figures.alone.absent = took(3_000);
        figures.alone.there = took(700_000);
        assert_eq!(figures.latency_ns(), 3_000);
        figures.is_made_elsewhere = true;
        assert_eq!(figures.latency_ns(), 700_000);
    }
}
