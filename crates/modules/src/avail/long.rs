//! What `avail -l` shows beside names.

use std::path::Path;

use super::Unable;
use super::paint::Paint;

/// Titles and the widths of their columns.
const COLUMNS: [(&str, usize); 3] = [("Package/Alias", 39), ("Versions", 19), ("Last mod.", 19)];

/// `displayTableHeader`
pub(super) fn table_header(paint: &mut Paint) -> String {
    let column = |(title, width): &(&str, usize)| {
        let dashes = "-".repeat(width - title.len() - 3);
        format!("- {} {dashes}", paint.text(&["hi"], title, &[]))
    };
    COLUMNS.iter().map(column).collect::<Vec<_>>().join(".")
}

/// When a file was written, in local time: the index does not notice a change in place.
pub(super) fn modified(path: &Path) -> Result<String, Unable> {
    let stale = || Unable::Stale(path.to_owned());
    let stat = rustix::fs::stat(path).map_err(|_| stale())?;
    let time = local(stat.st_mtime).ok_or_else(stale)?;
    let (year, month) = (time.tm_year + 1900, time.tm_mon + 1);
    let (hour, minute, second) = (time.tm_hour, time.tm_min, time.tm_sec);
    Ok(format!("{year:04}/{month:02}/{:02} {hour:02}:{minute:02}:{second:02}", time.tm_mday))
}

/// Seconds since 1970 as local time.
#[allow(unsafe_code)]
fn local(seconds: i64) -> Option<libc::tm> {
    // SAFETY: a `tm` of zeroes is a valid one, and localtime_r writes to it only. It reads the
    // environment's TZ, which nothing changes while `avail` runs.
    unsafe {
        let mut time: libc::tm = std::mem::zeroed();
        let filled = libc::localtime_r(&raw const seconds, &raw mut time);
        (!filled.is_null()).then_some(time)
    }
}
