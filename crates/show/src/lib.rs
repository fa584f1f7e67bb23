//! becalm's show.
