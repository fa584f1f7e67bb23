//! `becalm lab`: the laboratory.

pub mod aslr;
pub mod fork;
pub mod profile;
