//! Counts with their nouns, for messages.

use std::fmt::Display;

/// Returns a count with its noun in singular or plural: `1 object`, `2 objects`, `3 identities`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) => format!("{count} {stem}ies"),
        None if noun.ends_with(['s', 'h']) => format!("{count} {noun}es"),
        None => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_is_singular_cli_6() {
        assert_eq!(counted(1_usize, "object"), "1 object");
        assert_eq!(counted(0_u64, "object"), "0 objects");
        assert_eq!(counted(2_i64, "process"), "2 processes");
        assert_eq!(counted(1_u32, "identity"), "1 identity");
        assert_eq!(counted(3_u32, "identity"), "3 identities");
    }
}
