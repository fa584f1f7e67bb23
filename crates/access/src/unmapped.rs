//! Numbers of users in a user namespace (user_namespaces(7)).

use std::fs;

/// Whether a number may stand for users that have none in this process's user namespace. There, what is root's
/// outside, as `/` or `/home`, has it; and so has what is of the user of that number, if the namespace has one.
pub(crate) fn may_be_unmapped(user: u32) -> bool {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    // Where nobody says, it is a user.
    overflow.trim().parse() == Ok(user)
        && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !has_all(&map))
}

/// Whether a map is that of the first namespace: lines of the first inside, the first outside, and how many.
fn has_all(map: &str) -> bool {
    let numbers: Vec<u32> = map.split_whitespace().flat_map(str::parse).collect();
    numbers == [0, 0, u32::MAX]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_in_the_first_namespace_each_user_has_a_number() {
        assert!(has_all("         0          0 4294967295\n"));
        for map in [
            "         0      12345          1\n",
            "     12345      12345          1\n",
            // As of a container that keeps the number of who starts it.
            "0 1 1000\n1000 0 1\n1001 1001 64536\n",
            "",
        ] {
            assert!(!has_all(map), "{map}");
        }
    }
}
