//! Which profiles there are: those that becalm brings, and a user's own.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::FilesystemProfile;

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
    /// It does not say what a cold server takes.
    #[error(
        "the profile '{name}' does not say what its server's disk takes: add [disk] with \
         metadata_latency and data_latency, as docs/profiles.md shows, or leave --cold-server out"
    )]
    NoDisk {
        /// The profile.
        name: String,
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

    /// Whether becalm brings a profile of this name.
    pub fn is_built_in(name: &str) -> bool {
        BUILT_IN.iter().any(|(known, _)| *known == name)
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
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut text = String::new();
        // Of a device or a pipe nobody knows beforehand how long it is.
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LONGEST {
            return Err(failed(std::io::Error::other("it is too long for a profile")));
        }
        Ok((text, path.to_string_lossy().into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_profile_is_refused_with_the_known_ones() {
        let error = FilesystemProfile::find(OsStr::new("beegfs")).unwrap_err().to_string();
        assert!(error.contains("nfs, lustre, gpfs, local"), "{error}");
    }
}
