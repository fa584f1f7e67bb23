//! Why ranks cannot be recorded, joined or told apart.

use std::io;
use std::path::PathBuf;

use save::SaveError;

/// What went wrong. The cause of what a file refuses is the error's source.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The file that there is to be in the end.
    #[error("cannot write the recordings to {}", .target.display())]
    Target {
        /// The file.
        target: PathBuf,
        /// What is wrong with it.
        source: TargetError,
    },
    /// There is no directory of the node's own.
    #[error(
        "cannot record; name a directory of this node with --node-dir: cannot make a directory in {}",
        .within.display()
    )]
    NoNodeDirectory {
        /// Where one was to be made.
        within: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What has the name of the node's directory is somebody else's, or open to others.
    #[error(
        "{} is not this user's own directory; name another place on this node with --node-dir",
        .0.display()
    )]
    ForeignDirectory(PathBuf),
    /// The node's directory cannot be used.
    #[error("cannot record to {}", .directory.display())]
    NodeDirectory {
        /// The node's directory.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another recorder is this rank.
    #[error(
        "cannot record to {}: rank {rank} is being recorded to the same file already",
        .directory.display()
    )]
    RankTaken {
        /// The node's directory.
        directory: PathBuf,
        /// The rank.
        rank: u32,
    },
    /// The directory has no file that says which run it is of.
    #[error("it is no directory of recordings")]
    NoRun(#[source] io::Error),
    /// The file that says which run it is of is another becalm's.
    #[error("its file {0} is not as this becalm writes it")]
    UnknownRun(&'static str),
    /// A recorder is still at it.
    #[error("rank {0} is still being recorded there")]
    StillRecording(u32),
    /// The node's file cannot be written.
    #[error(
        "cannot write {}; the recordings are kept in {directory}: becalm merge -o FILE {directory}",
        .target.display(), directory = .directory.display()
    )]
    Kept {
        /// The file.
        target: PathBuf,
        /// The node's directory.
        directory: PathBuf,
        /// Why not.
        source: Box<JobError>,
    },
    /// Writing the node's file.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The node's directory stays.
    #[error("cannot remove {}", .directory.display())]
    Remove {
        /// The node's directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process that would do what killed ranks cannot.
    #[error("cannot start what joins the recordings of killed ranks")]
    NoJoiner(#[source] io::Error),
    /// A rank was asked for where there are none.
    #[error("--rank {0}: no launcher started this, there is one rank")]
    NoLauncher(u32),
    /// A rank was asked for that nobody is.
    #[error("--rank {asked}: the ranks of this run are 0 to {last}")]
    NoSuchRank {
        /// The one that was asked for.
        asked: u32,
        /// The last one.
        last: u32,
    },
    /// A lock, or reading the node's directory.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Why nothing can be written to a file that all ranks of a node share.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It is a directory.
    #[error("it is a directory")]
    Directory,
    /// `-o` is easily mistyped.
    #[error("it exists and is not a recording; choose another name or remove it")]
    NotRecording,
    /// A device or a pipe.
    #[error("ranks are joined in a regular file; give one")]
    NotRegular,
    /// Its directory, or the file.
    #[error(transparent)]
    System(#[from] io::Error),
}
