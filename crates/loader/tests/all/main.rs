//! The simulated loader, against the real ones.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

mod dlopen;
mod facts;
mod glibc_directories;
mod glibc_objects;
mod glibc_versions;
mod hostile;
mod musl_rules;
mod overlay;
mod real;
mod store;
mod system_files;
mod truth;
mod unprivileged;
