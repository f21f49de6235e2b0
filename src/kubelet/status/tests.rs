//! Tables of the status composed from what is observed.
