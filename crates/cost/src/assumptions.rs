//! What a predicted wait takes for granted, in words.

use std::os::unix::ffi::OsStrExt;

use recording::shown;
use term::number::count;

use crate::{
    ComputeSource, CostModel, ReadsKnown, RecordedStart, Revalidation, SharedChoice, TimeSpan,
};

/// Which files are shared and what is left out; then how server, nodes and ranks are modelled.
pub(crate) fn of(model: &CostModel, start: &RecordedStart) -> Vec<String> {
    let images = (!start.images.is_empty()).then(|| images(start));
    let reads = ReadsKnown::of(start.recording).assumption().map(str::to_owned);
    [shared(start), servers(model, start)].into_iter().chain(images).chain(reads).collect()
}

fn images(start: &RecordedStart) -> String {
    let points: Vec<_> = start.images.iter().map(|point| shown(point.as_bytes())).collect();
    format!(
        "Images were mounted at {}: the node serves what lies there, and what is read of it comes \
         from the server once.",
        points.join(", ")
    )
}

fn shared(start: &RecordedStart) -> String {
    let roots = start.shared.roots.iter().map(|root| shown(root.as_os_str().as_bytes()));
    let roots: Vec<_> = roots.collect();
    let roots = match start.chosen {
        SharedChoice::Given => roots.join(", "),
        SharedChoice::Network => format!("{} (network filesystems)", roots.join(", ")),
        SharedChoice::Everything => "everything, as no network filesystem was used where it was \
             recorded (--below names the directories that your cluster shares)"
            .to_owned(),
    };
    let all = count(start.elsewhere + start.metadata_ops);
    format!(
        "On the shared filesystem: {roots}; {} of {all} metadata operations were on something \
         else.",
        count(start.elsewhere),
    )
}

fn servers(model: &CostModel, start: &RecordedStart) -> String {
    let profile = &model.profile;
    let cached = |span: TimeSpan| match span {
        TimeSpan::ZERO => "not cached".to_owned(),
        TimeSpan::FOREVER => "cached".to_owned(),
        span => format!("cached for {span}"),
    };
    let sent = |rule: Revalidation| match rule {
        Revalidation::EachTime => "an RPC each time",
        Revalidation::Cached => "cached",
    };
    let compute = match start.compute {
        ComputeSource::Recorded => "computing as between the recorded calls",
        ComputeSource::Given => "computing as given",
    };
    let many = match profile.metadata_servers {
        0 | 1 => String::new(),
        many => format!(
            " (each of {many}; a directory is on one of them, and the busiest is waited for)"
        ),
    };
    let server = match profile.cold_disk() {
        None => "warm metadata server, which takes".to_owned(),
        Some(disk) => format!(
            "cold metadata server, which reads each directory and each inode once from its disk \
             ({}; {} to a file's first byte), many at once, and takes",
            disk.metadata_latency, disk.data_latency,
        ),
    };
    format!(
        "All ranks start at once on {} clients of one {server} {} an operation in turn{many}, and {} of network; names that were found are {}, negative dentries \
         {}, an open is {}, a listing {}; calls follow each other as recorded, {compute}; \
         symbolic links that paths lead through, and {}, are left out.",
        if model.warm { "warm" } else { "cold" },
        profile.mds.service,
        profile.mds.round_trip,
        cached(profile.cache.entries),
        cached(profile.cache.negatives),
        sent(profile.cache.open),
        sent(profile.cache.list),
        mappings(start),
    )
}

/// What is left out of what is read through memory mappings.
fn mappings(start: &RecordedStart) -> &'static str {
    match start.touches.is_empty() {
        true => "data read through memory mappings (libraries)",
        false => "what processes touch that map less than 4 MiB of any file",
    }
}
