//! ELF facts.
