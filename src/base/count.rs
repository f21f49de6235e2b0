//! Counts with their nouns, for messages.

use std::borrow::Cow;
use std::fmt::Display;

/// Returns a count with its noun in singular or plural: `1 object`, `2 objects`, `3 identities`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    format!("{count} {}", noun_for(count, noun))
}

/// Returns the noun for a count: the singular for 1, else the plural.
pub fn noun_for<N: Copy + PartialEq + From<u8>>(count: N, noun: &str) -> Cow<'_, str> {
    if count == N::from(1) {
        return Cow::Borrowed(noun);
    }
    Cow::Owned(match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    })
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
        for (noun, plural) in [
            ("watch", "watches"),
            ("path", "paths"),
            ("key", "keys"),
            ("more pod", "more pods"),
            ("box", "boxes"),
        ] {
            assert_eq!((noun_for(1_usize, noun), noun_for(2_usize, noun)), (noun.into(), plural.into()));
        }
    }
}
