//! Finds the known word nearest to a mistyped one.

/// The maximum number of characters compared, so that a long word costs little; its suggestion would not improve.
const LONGEST: usize = 64;

/// Returns the nearest known word, if one is near enough: about one letter in four may be wrong. Ignores case.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let input: String = given.to_lowercase().chars().take(LONGEST).collect();
    let most = 1 + input.chars().count() / 4;
    let near =
        known.into_iter().map(|known| (strsim::osa_distance(&input, &known.to_lowercase()), known)).min();
    near.filter(|(edits, _)| *edits <= most).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_near_or_none_cli_6() {
        const KNOWN: [&str; 5] = ["border", "frame", "nodeMonitorGrace", "pod", "podgc"];
        for (given, expected) in [
            ("bordr", Some("border")),
            ("fraem", Some("frame")),
            ("FRAME", Some("frame")),
            ("nodeMonitorGracePeriod", Some("nodeMonitorGrace")),
            ("podcg", Some("podgc")),
            ("foo", None),
            ("", None),
            ("something else", None),
        ] {
            assert_eq!(nearest(given, KNOWN), expected, "{given}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), ["x"]), None, "long words cost nothing");
    }
}
