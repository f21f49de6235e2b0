//! Port numbers.

/// Returns the port that a field of the API has; `None` if it is not between 1 and 65535.
pub fn port_number(field: impl TryInto<u16>) -> Option<u16> {
    field.try_into().ok().filter(|number| *number > 0)
}
