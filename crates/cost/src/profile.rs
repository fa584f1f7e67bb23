//! A shared filesystem, as data: how long its metadata server takes, and what a client caches.

use recording::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bandwidth, ProfileError, TimeSpan};

/// What a shared filesystem is like, seen from one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The server's disk; none where nothing is known of it.
    #[serde(default)]
    pub disk: Option<ServerDisk>,
    /// Whether the server is cold: whether it has yet to read from its disk what is asked of it.
    #[serde(skip)]
    pub cold_server: bool,
    /// How many metadata servers there are, each with the service time of [`MetadataServer`]; a
    /// directory, with the names in it, is on one of them.
    #[serde(skip, default = "one_server")]
    pub metadata_servers: u32,
}

fn one_server() -> u32 {
    1
}

/// The metadata server: one, with one queue.
///
/// An RPC takes `round_trip`, plus the wait until the server has served all that came before it,
/// plus `service`. So `round_trip + service` is the metadata latency, and `1 / service` are the
/// server's ops/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetadataServer {
    /// The network, both ways. Many operations can be on their way at once.
    pub round_trip: TimeSpan,
    /// How long the server works on one operation. It works on one at a time.
    pub service: TimeSpan,
}

/// Reading and writing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataServer {
    /// How long one transfer (of up to 1 MiB) takes before its first byte.
    #[serde(default)]
    pub round_trip: TimeSpan,
    /// Bytes a second, for all clients on this machine together; none for as fast as here.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// How long one request for what a page fault needs takes; none: as long as an operation of
    /// the metadata server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<TimeSpan>,
    /// How much a client fetches around a page fault, in bytes, a multiple of 4,096; none: 128 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readahead: Option<u64>,
}

/// What a cold server waits for its disk. Many reads can be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerDisk {
    /// How long it reads a directory's entries, or a file's inode.
    pub metadata_latency: TimeSpan,
    /// How long it is until the first byte of a file.
    pub data_latency: TimeSpan,
}

/// What a client caches, for all processes of its node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Revalidation {
    /// Each time.
    #[serde(rename = "revalidated")]
    EachTime,
    /// Only once the name's lifetime is over.
    Cached,
}

impl FilesystemProfile {
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
            ("data.fault", profile.data.fault.unwrap_or_default()),
            (
                "disk.metadata_latency",
                profile.disk.map_or(TimeSpan::ZERO, |disk| disk.metadata_latency),
            ),
            ("disk.data_latency", profile.disk.map_or(TimeSpan::ZERO, |disk| disk.data_latency)),
        ] {
            if span > TimeSpan::LONGEST_WAIT {
                return Err(bad(format!("{what}: at most 60s")));
            }
        }
        if profile.data.readahead.is_some_and(|bytes| bytes < 4096 || !bytes.is_multiple_of(4096)) {
            return Err(bad("data.readahead: a multiple of 4096, in bytes".to_owned()));
        }
        Ok(profile)
    }

    /// As the text of a profile's file.
    pub fn to_text(&self) -> String {
        // What a profile holds, TOML can say: names, times and numbers.
        toml::to_string(self).unwrap_or_default()
    }

    /// The same with a cold server.
    ///
    /// # Errors
    /// [`ProfileError::NoDisk`].
    pub fn with_cold_server(self) -> Result<FilesystemProfile, ProfileError> {
        match self.disk {
            Some(_) => Ok(FilesystemProfile { cold_server: true, ..self }),
            None => Err(ProfileError::NoDisk { name: self.name }),
        }
    }

    /// The same with so many metadata servers.
    pub fn with_metadata_servers(self, metadata_servers: u32) -> FilesystemProfile {
        FilesystemProfile { metadata_servers: metadata_servers.max(1), ..self }
    }

    /// What to call it in a sentence: `nfs`, `nfs with a cold server`.
    pub fn title(&self) -> String {
        let server = if self.cold_server { " with a cold server" } else { "" };
        let many = match self.metadata_servers {
            0 | 1 => String::new(),
            many => format!(", {many} metadata servers"),
        };
        format!("{}{server}{many}", self.name)
    }

    /// The disk that a cold server reads from; none of a warm one.
    pub fn cold_disk(&self) -> Option<ServerDisk> {
        self.disk.filter(|_| self.cold_server)
    }

    /// The metadata latency: what one RPC takes where nobody else waits.
    pub fn latency(&self) -> Nanos {
        self.mds.round_trip.nanos() + self.mds.service.nanos()
    }

    /// How many metadata operations the server serves in a second; none if it takes no time.
    pub fn ops_per_second(&self) -> Option<u64> {
        1_000_000_000u64.checked_div(self.mds.service.nanos().0)
    }

    /// Nanoseconds that so many requests for page faults take beside their bytes, one after the
    /// other: a fault's program waits for it.
    pub fn fault_trips(&self, requests: u64) -> f64 {
        let each = self.data.fault.map_or_else(|| self.latency(), TimeSpan::nanos);
        requests as f64 * each.0 as f64
    }

    /// How much a client fetches around a page fault, in bytes.
    pub fn readahead(&self) -> u64 {
        /// What Linux reads ahead unless a filesystem asks for another (VM_READAHEAD_PAGES,
        /// linux/mm.h; /sys/class/bdi/*/read_ahead_kb).
        const USUAL: u64 = 128 << 10;
        self.data.readahead.unwrap_or(USUAL)
    }

    /// Nanoseconds for which so many bytes keep the data server.
    pub fn transfer_time(&self, bytes: u64) -> f64 {
        self.data.bandwidth.map_or(0.0, |rate| rate.time_for(bytes).0 as f64)
    }

    /// Nanoseconds that so many bytes are on the network beside that, in transfers of 1 MiB.
    pub fn transfer_trips(&self, bytes: u64) -> f64 {
        FilesystemProfile::transfers(bytes) as f64 * self.data.round_trip.nanos().0 as f64
    }

    /// How many transfers so many bytes are.
    pub(crate) fn transfers(bytes: u64) -> u64 {
        const TRANSFER: u64 = 1 << 20;
        bytes.div_ceil(TRANSFER)
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
    fn what_is_wrong_with_a_profile_is_said_with_its_place() {
        let nfs = FilesystemProfile::text("nfs".as_ref()).unwrap();
        for (from, to, said) in [
            ("480us", "480 parsecs", "no span of time"),
            ("service", "servise", "servise"),
            ("480us", "2h", "at most 60s"),
            ("\"5ms\"", "\"5h\"", "at most 60s"),
            ("name = \"nfs\"", "name = \"a b\"", "name:"),
            ("[cache]", "[cash]", "cash"),
        ] {
            let error = FilesystemProfile::parse(&nfs.replace(from, to), "mine.toml").unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("mine.toml: ") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_server_is_warm_unless_it_is_said_to_be_cold_which_takes_a_disk() {
        let nfs = FilesystemProfile::default();
        assert_eq!(nfs.cold_disk(), None);
        assert!(nfs.clone().with_cold_server().unwrap().cold_disk().is_some());
        let nothing_known = FilesystemProfile { disk: None, ..nfs };
        let error = nothing_known.with_cold_server().unwrap_err().to_string();
        assert!(error.contains("nfs") && error.contains("[disk]"), "{error}");
    }
}
