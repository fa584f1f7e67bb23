//! becalm's launch.
