//! becalm on each node of a job, started by this one; and what each says.

use std::ffi::OsString;
use std::fs::File;

use image::hot::{self, HotPlace, UnnamedHotPart};
use job::{BroadcastMeans, node_name, nodes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// Before what becalm on a node says: other lines are the launcher's, or a prolog's.
const LINE: &str = "becalm-node ";

/// What one node says.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeWithout {
    /// Its name.
    pub node: String,
    /// Why it has none.
    pub why: String,
}

#[derive(Serialize, Deserialize)]
struct NodeAnswer {
    node: String,
    why: Option<String>,
    /// How many files it removed.
    #[serde(default)]
    removed: u64,
}

/// The nodes that something was brought to.
pub struct Nodes {
    /// So many; none where nobody says.
    pub with: Option<u32>,
    pub without: Vec<NodeWithout>,
    /// How many files they removed.
    pub removed: u64,
}

impl Nodes {
    /// This one.
    pub fn one() -> Nodes {
        Nodes { with: Some(1), without: Vec::new(), removed: 0 }
    }

    /// All of the job.
    pub fn of_job() -> Nodes {
        Nodes { with: nodes(), without: Vec::new(), removed: 0 }
    }
}

/// Brings a hot part to each node. The words say why that was not even tried on one.
pub fn send(
    means: BroadcastMeans,
    made: &UnnamedHotPart,
    words: &[OsString],
) -> Result<Nodes, String> {
    let input = File::open(made.path()).map_err(|error| error.to_string())?;
    asked(means, words, Some(input))
}

/// Has each node remove what this job has there.
pub fn remove(means: BroadcastMeans, words: &[OsString]) -> Result<Nodes, String> {
    asked(means, words, None)
}

fn asked(means: BroadcastMeans, words: &[OsString], input: Option<File>) -> Result<Nodes, String> {
    let said = means.on_each_node(words, input).map_err(|error| error.to_string())?;
    let out = String::from_utf8_lossy(&said.stdout);
    // A launcher may put the lines of two nodes into one.
    let answers = out.split(LINE).skip(1).filter_map(|after| {
        let mut answers = serde_json::Deserializer::from_str(after).into_iter::<NodeAnswer>();
        answers.next()?.ok()
    });
    let mut found = Nodes { with: Some(0), without: Vec::new(), removed: 0 };
    for NodeAnswer { node, why, removed } in answers {
        found.removed += removed;
        match why {
            None => found.with = found.with.map(|with| with + 1),
            Some(why) => found.without.push(NodeWithout { node, why }),
        }
    }
    let with = found.with.unwrap_or_default();
    let told = with + found.without.len() as u32;
    let last = job::failed(&said);
    if with == 0 {
        let why = found.without.into_iter().next().map(|it| format!("{}: {}", it.node, it.why));
        return Err(why.unwrap_or(last));
    }
    let silent = nodes().unwrap_or(told).saturating_sub(told);
    if silent > 0 {
        let why = format!("{silent} nodes said nothing: {last}");
        found.without.push(NodeWithout { node: "?".to_owned(), why });
    }
    Ok(found)
}

/// The other side: does it, and says so in a line. Its status is 0, as mpirun ends all others
/// with the first that fails.
pub fn tell(receive: bool, places: &[HotPlace]) -> Result<u8, Failure> {
    let done = match receive {
        true => {
            hot::remove_ended();
            hot::receive(&mut std::io::stdin().lock(), places)
                .and_then(UnnamedHotPart::keep)
                .map(|_| 0)
        }
        false => hot::remove_of_job(),
    };
    let (removed, why) = match done {
        Ok(removed) => (removed, None),
        Err(why) => (0, Some(why.to_string())),
    };
    let answer = NodeAnswer { node: node_name(), why, removed };
    // What is left of the stream nobody waits for; a launcher might, for its reader.
    if receive {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    }
    term::print(&format!("{LINE}{}\n", serde_json::to_string(&answer)?))?;
    Ok(0)
}
