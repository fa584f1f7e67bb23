//! A shared filesystem, as data: how long its metadata server takes, and what a client caches.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use recording::Nanos;
use serde::{Deserialize, Serialize, Serializer};

/// What a shared filesystem is like, seen from one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemProfile {
    /// What it is called: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// One line about it.
    #[serde(default)]
    pub about: String,
    /// Its metadata server.
    pub mds: MetadataServer,
    /// Reading and writing files.
    #[serde(default)]
    pub data: DataServer,
    /// What a client caches.
    pub cache: CacheRules,
}

/// The metadata server: one, with one queue.
///
/// An RPC takes `round_trip`, plus the wait until the server has served all that came before it,
/// plus `service`. So `round_trip + service` is the metadata latency, and `1 / service` are the
/// server's ops/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataServer {
    /// The network, both ways. Many operations can be on their way at once.
    pub round_trip: TimeSpan,
    /// How long the server works on one operation. It works on one at a time.
    pub service: TimeSpan,
}

/// Reading and writing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataServer {
    /// How long one transfer (of up to 1 MiB) takes before its first byte.
    #[serde(default)]
    pub round_trip: TimeSpan,
    /// Bytes a second, for all clients on this machine together; none for as fast as here.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
}

/// What a client caches, for all processes of its node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheRules {
    /// How long a name that was found, and its file's attributes, are cached (positive dentries).
    pub entries: TimeSpan,
    /// How long ENOENT is (negative dentries).
    pub negatives: TimeSpan,
    /// Whether each open of a file that is cached takes an RPC.
    pub open: Revalidation,
    /// Whether each listing of a directory that was listed before does.
    pub list: Revalidation,
}

/// Whether what the node has had takes another RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Revalidation {
    /// Each time.
    #[serde(rename = "revalidated")]
    EachTime,
    /// Only once the name's lifetime is over.
    Cached,
}

/// A span of time, written as `200us`, `0.5ms`, `30s`, `0` or `forever`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TimeSpan(Nanos);

/// Bytes a second, written as `1GB/s` or `800MB/s` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bandwidth(f64);

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No such profile.
    #[error(
        "there is no profile '{name}': known are {}; a file of your own is given by its path, or \
         put into {} as {name}.toml", .known.join(", "), .directory.display()
    )]
    Unknown {
        /// The name that was given.
        name: String,
        /// What there is.
        known: Vec<String>,
        /// Where a user's own are looked for.
        directory: PathBuf,
    },
    /// Its file cannot be read.
    #[error("{}: cannot read the profile: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Its text is no profile.
    #[error("{source_name}: {what}")]
    Bad {
        /// The file, or what stands for it.
        source_name: String,
        /// What is wrong, and where.
        what: String,
    },
}

/// The profiles that becalm brings.
const BUILT_IN: [(&str, &str); 4] = [
    ("nfs", include_str!("../profiles/nfs.toml")),
    ("lustre", include_str!("../profiles/lustre.toml")),
    ("gpfs", include_str!("../profiles/gpfs.toml")),
    ("local", include_str!("../profiles/local.toml")),
];

/// A profile's file is read up to this size.
const LONGEST: u64 = 64 << 10;

/// The profile that is taken where none is named.
const DEFAULT: &str = "nfs";

impl Default for FilesystemProfile {
    /// NFS over Ethernet.
    fn default() -> FilesystemProfile {
        let text = BUILT_IN[0].1;
        FilesystemProfile::parse(text, DEFAULT).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

impl FilesystemProfile {
    /// The name of the profile that is taken where none is named.
    pub const DEFAULT: &'static str = DEFAULT;

    /// The profile of this name: a path if it has a slash, else a user's own (below
    /// [`FilesystemProfile::directory`]), else one that becalm brings.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn find(name: &OsStr) -> Result<FilesystemProfile, ProfileError> {
        let (text, source) = FilesystemProfile::source(name)?;
        FilesystemProfile::parse(&text, &source)
    }

    /// The text of the profile of this name, as [`FilesystemProfile::find`] finds it.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn text(name: &OsStr) -> Result<String, ProfileError> {
        let (text, source) = FilesystemProfile::source(name)?;
        FilesystemProfile::parse(&text, &source)?;
        Ok(text)
    }

    /// A profile's text, and what to call it in errors.
    fn source(name: &OsStr) -> Result<(String, String), ProfileError> {
        let text = name.to_string_lossy();
        if text.contains('/') {
            return FilesystemProfile::read(Path::new(name));
        }
        let directory = FilesystemProfile::directory();
        let own = directory.join(format!("{text}.toml"));
        if own.is_file() {
            return FilesystemProfile::read(&own);
        }
        match BUILT_IN.iter().find(|(known, _)| *known == text) {
            Some((_, source)) => Ok(((*source).to_owned(), text.into_owned())),
            None => {
                let known = BUILT_IN.iter().map(|(known, _)| (*known).to_owned()).collect();
                Err(ProfileError::Unknown { name: text.into_owned(), known, directory })
            }
        }
    }

    /// Every profile that has a name: those that becalm brings, and a user's own, which may stand
    /// in for one of them.
    pub fn all() -> Vec<Result<FilesystemProfile, ProfileError>> {
        let mut names: Vec<OsString> = BUILT_IN.iter().map(|(name, _)| (*name).into()).collect();
        let own = std::fs::read_dir(FilesystemProfile::directory()).into_iter().flatten().flatten();
        let own = own.map(|entry| PathBuf::from(entry.file_name()));
        let own = own.filter(|file| file.extension().is_some_and(|end| end == "toml"));
        let mut own: Vec<_> = own.filter_map(|file| Some(file.file_stem()?.to_owned())).collect();
        own.sort();
        names.extend(own.into_iter().filter(|own| !BUILT_IN.iter().any(|(name, _)| own == name)));
        names.iter().map(|name| FilesystemProfile::find(name)).collect()
    }

    /// The profiles that becalm brings, each with its text.
    pub fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
        BUILT_IN.into_iter()
    }

    /// Where a user's own profiles are: `becalm/profiles` in `$XDG_CONFIG_HOME` or `~/.config`
    /// (XDG Base Directory Specification).
    pub fn directory() -> PathBuf {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let config = absolute("XDG_CONFIG_HOME");
        let config = config.or_else(|| absolute("HOME").map(|home| home.join(".config")));
        config.unwrap_or_else(|| "/etc".into()).join("becalm/profiles")
    }

    fn read(path: &Path) -> Result<(String, String), ProfileError> {
        let failed = |error| ProfileError::Read { path: path.to_owned(), error };
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > LONGEST {
            return Err(failed(std::io::Error::other("it is too long for a profile")));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Ok((text, path.to_string_lossy().into_owned()))
    }

    /// A profile from its text; `source` names it in errors.
    ///
    /// # Errors
    /// [`ProfileError::Bad`].
    pub fn parse(text: &str, source: &str) -> Result<FilesystemProfile, ProfileError> {
        let bad = |what: String| ProfileError::Bad { source_name: source.to_owned(), what };
        let profile: FilesystemProfile =
            toml::from_str(text).map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
        let good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if profile.name.is_empty() || !profile.name.chars().all(good) {
            return Err(bad("name: use letters, digits, '-', '_' and '.'".to_owned()));
        }
        for (what, span) in [
            ("mds.round_trip", profile.mds.round_trip),
            ("mds.service", profile.mds.service),
            ("data.round_trip", profile.data.round_trip),
        ] {
            if span > TimeSpan::LONGEST_WAIT {
                return Err(bad(format!("{what}: at most 60s")));
            }
        }
        Ok(profile)
    }

    /// The metadata latency: what one RPC takes where nobody else waits.
    pub fn latency(&self) -> Nanos {
        self.mds.round_trip.nanos() + self.mds.service.nanos()
    }

    /// How many metadata operations the server serves in a second; none if it takes no time.
    pub fn ops_per_second(&self) -> Option<u64> {
        1_000_000_000u64.checked_div(self.mds.service.nanos().0)
    }

    /// Nanoseconds for which so many bytes keep the data server.
    pub fn transfer_time(&self, bytes: u64) -> f64 {
        self.data.bandwidth.map_or(0.0, |rate| rate.time_for(bytes).0 as f64)
    }

    /// Nanoseconds that so many bytes are on the network beside that, in transfers of 1 MiB.
    pub fn transfer_trips(&self, bytes: u64) -> f64 {
        const TRANSFER: u64 = 1 << 20;
        bytes.div_ceil(TRANSFER) as f64 * self.data.round_trip.nanos().0 as f64
    }
}

impl TimeSpan {
    /// No time at all.
    pub const ZERO: TimeSpan = TimeSpan(Nanos(0));
    /// Without end.
    pub const FOREVER: TimeSpan = TimeSpan(Nanos(u64::MAX));
    const LONGEST_WAIT: TimeSpan = TimeSpan(Nanos(60_000_000_000));

    /// A span of so many nanoseconds.
    pub fn of(nanos: Nanos) -> TimeSpan {
        TimeSpan(nanos)
    }

    /// In nanoseconds; the largest number stands for 'forever'.
    pub fn nanos(self) -> Nanos {
        self.0
    }

    /// As the standard library has it, at most a hundred years.
    pub fn duration(self) -> std::time::Duration {
        const CENTURY: u64 = 100 * 365 * 86_400;
        std::time::Duration::from_nanos(self.0.0).min(std::time::Duration::from_secs(CENTURY))
    }
}

/// The part of `text` that is a number, and the unit that follows it.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?.trim_start()))
}

impl FromStr for TimeSpan {
    type Err = String;
    fn from_str(text: &str) -> Result<TimeSpan, String> {
        const HOW: &str = "is no span of time: write 200us, 0.5ms, 30s, 0 or forever";
        if text == "forever" {
            return Ok(TimeSpan::FOREVER);
        }
        let bad = || format!("'{text}' {HOW}");
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale = match unit {
            "" if number == 0.0 => 1.0,
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            "h" => 3600e9,
            _ => return Err(bad()),
        };
        Ok(TimeSpan(Nanos((number * scale).round() as u64)))
    }
}

impl std::fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.0;
        match nanos {
            0 => f.write_str("0"),
            u64::MAX => f.write_str("forever"),
            _ => {
                let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
                let (unit, size) =
                    units.into_iter().find(|(_, size)| nanos >= *size).unwrap_or(("ns", 1));
                write!(f, "{}{unit}", nanos as f64 / size as f64)
            }
        }
    }
}

impl FromStr for Bandwidth {
    type Err = String;
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let bad = || format!("'{text}' is no rate: write 1GB/s or 800MB/s");
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale = match unit {
            "B/s" => 1.0,
            "kB/s" => 1e3,
            "MB/s" => 1e6,
            "GB/s" => 1e9,
            _ => return Err(bad()),
        };
        // A transfer must end.
        if number * scale < 1e3 {
            return Err(format!("'{text}' is too slow: at least 1kB/s"));
        }
        Ok(Bandwidth(number * scale))
    }
}

impl std::fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
        let (unit, size) = units.into_iter().find(|(_, size)| self.0 >= *size).unwrap_or(units[2]);
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl Bandwidth {
    /// How long so many bytes take.
    pub fn time_for(self, bytes: u64) -> Nanos {
        Nanos((bytes as f64 / self.0 * 1e9) as u64)
    }
}

impl TryFrom<String> for TimeSpan {
    type Error = String;
    fn try_from(text: String) -> Result<TimeSpan, String> {
        text.parse()
    }
}

impl TryFrom<String> for Bandwidth {
    type Error = String;
    fn try_from(text: String) -> Result<Bandwidth, String> {
        text.parse()
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_that_becalm_brings_can_be_read_and_is_called_as_its_file() {
        for (name, text) in FilesystemProfile::built_in() {
            let profile = FilesystemProfile::parse(text, name).unwrap();
            assert_eq!(profile.name, name);
            let again = toml::to_string(&profile).unwrap();
            assert_eq!(FilesystemProfile::parse(&again, name).unwrap(), profile);
        }
    }

    #[test]
    fn spans_and_rates_are_read_as_they_are_written() {
        for (text, nanos) in [("200us", 200_000), ("0.5ms", 500_000), ("30s", 30_000_000_000)] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.nanos(), Nanos(nanos));
            assert_eq!(span.to_string().parse::<TimeSpan>().unwrap(), span);
        }
        assert_eq!("0".parse::<TimeSpan>().unwrap(), TimeSpan::ZERO);
        assert_eq!("forever".parse::<TimeSpan>().unwrap(), TimeSpan::FOREVER);
        for text in ["", "5", "-1s", "1 fortnight", "s", "1..2s", "nan", "inf"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        let rate: Bandwidth = "800MB/s".parse().unwrap();
        assert_eq!(rate.time_for(800_000_000), Nanos(1_000_000_000));
        assert_eq!(rate.to_string(), "800MB/s");
        assert!("0GB/s".parse::<Bandwidth>().is_err());
    }

    #[test]
    fn what_is_wrong_with_a_profile_is_said_with_its_place() {
        let nfs = BUILT_IN[0].1;
        for (from, to, said) in [
            ("480us", "480 parsecs", "no span of time"),
            ("service", "servise", "servise"),
            ("480us", "2h", "at most 60s"),
            ("name = \"nfs\"", "name = \"a b\"", "name:"),
            ("[cache]", "[cash]", "cash"),
        ] {
            let error = FilesystemProfile::parse(&nfs.replace(from, to), "mine.toml").unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("mine.toml: ") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn an_unknown_profile_is_refused_with_the_known_ones() {
        let error = FilesystemProfile::find(OsStr::new("beegfs")).unwrap_err().to_string();
        assert!(error.contains("nfs, lustre, gpfs, local"), "{error}");
    }
}
