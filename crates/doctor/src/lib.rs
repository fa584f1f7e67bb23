//! becalm's doctor.
