//! 64-bit Arm.

/// The directory of Debian's libraries.
pub const LIB: &str = "/lib/aarch64-linux-gnu";
/// The path of glibc's loader.
pub const LOADER: &str = "/lib/ld-linux-aarch64.so.1";
/// Its name.
pub const LOADER_NAME: &str = "ld-linux-aarch64.so.1";
/// The compiler's option for 32-bit programs.
pub const NARROW: Option<&str> = None;
