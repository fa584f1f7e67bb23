//! becalm's watch.
