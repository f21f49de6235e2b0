//! What is used, in words as `kubectl top` has them, and whether that is near its limit.

/// How near its limit something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// There is no limit, or it is far.
    Far,
    /// Four fifths of it are used.
    Near,
    /// Nearly all of it is.
    At,
}

impl Nearness {
    /// Of so much of a limit.
    pub(crate) fn of(used: i64, limit: Option<i64>) -> Self {
        let tenths = match limit {
            Some(limit) if limit > 0 => used.saturating_mul(10) / limit,
            _ => 0,
        };
        match tenths {
            ..8 => Self::Far,
            8 => Self::Near,
            _ => Self::At,
        }
    }

    /// A mark that says it without colour.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Far => "",
            Self::Near => "▴",
            Self::At => "▲",
        }
    }
}

/// `3Mi`, as `kubectl top` has them.
pub(crate) fn bytes_in_words(bytes: i64) -> String {
    format!("{}Mi", bytes.max(0) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_its_limit_is_marked_con_4() {
        for (used, limit, nearness) in [
            (79, Some(100), Nearness::Far),
            (80, Some(100), Nearness::Near),
            (90, Some(100), Nearness::At),
            (400, Some(100), Nearness::At),
            (400, None, Nearness::Far),
            (400, Some(0), Nearness::Far),
            (i64::MAX, Some(1), Nearness::At),
        ] {
            assert_eq!(Nearness::of(used, limit), nearness, "{used} of {limit:?}");
        }
    }
}
