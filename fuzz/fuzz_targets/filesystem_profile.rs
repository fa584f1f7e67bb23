//! Reads any text as the profile of a shared filesystem, and asks what the model asks of one.

#![no_main]

use cost::FilesystemProfile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    // With a profile before it, of which a fuzzer thinks rarely.
    let built_in = FilesystemProfile::built_in().map(|(_, text)| text.to_owned() + input);
    for text in std::iter::once(input.to_owned()).chain(built_in) {
        let Ok(profile) = FilesystemProfile::parse(&text, "input") else { continue };
        assert!(!profile.name.is_empty());
        let _ = (profile.latency(), profile.ops_per_second());
        for bytes in [0, 1 << 20, u64::MAX] {
            assert!(profile.transfer_time(bytes) >= 0.0 && profile.transfer_trips(bytes) >= 0.0);
        }
    }
});
