//! 64-bit x86.

/// The directory of Debian's libraries.
pub const LIB: &str = "/lib/x86_64-linux-gnu";
/// The path of glibc's loader.
pub const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// Its name.
pub const LOADER_NAME: &str = "ld-linux-x86-64.so.2";
/// The compiler's option for 32-bit programs.
pub const NARROW: Option<&str> = Some("-m32");
