//! becalm's explain.
