//! Desktop notifications: results of actions while the terminal does not have the focus (CON-20).
//!
//! Terminals have two sequences for it, OSC 9 and OSC 777; the environment tells which one applies. The bell is sent as
//! well, because tmux and screen mark a window by it.

use console_toolkit::text::{clean, fit};

/// The maximum width of a notification in columns.
const LONGEST: usize = 160;

/// The sequence that the terminal understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// `OSC 9 ; TEXT`: iTerm2, WezTerm, kitty, ghostty, Windows Terminal.
    Nine,
    /// `OSC 777 ; notify ; TITLE ; TEXT`: VTE (GNOME), foot, rxvt.
    Seven,
    /// The bell alone, which passes through tmux and screen.
    Bell,
}

impl Sequence {
    /// Detects the sequence from the environment.
    pub(crate) fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        match () {
            () if is_set("TMUX") || is_set("STY") || term == "linux" || term == "dumb" => Self::Bell,
            () if is_set("VTE_VERSION") || term.starts_with("foot") || term.starts_with("rxvt") => {
                Self::Seven
            }
            () => Self::Nine,
        }
    }

    /// Returns the bytes of a notification. The text cannot inject sequences.
    pub(crate) fn of(self, text: &str) -> String {
        let text: String = clean(text).chars().map(|c| if c == ';' { ',' } else { c }).collect();
        let text = fit(&text, LONGEST);
        match self {
            Self::Nine => format!("\u{1b}]9;Podium: {text}\u{7}\u{7}"),
            Self::Seven => format!("\u{1b}]777;notify;Podium;{text}\u{7}\u{7}"),
            Self::Bell => "\u{7}".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_terminal_gets_the_notification_sequence_it_supports_con_20() {
        for (environment, sequence) in [
            (&[("TERM", "xterm-256color")][..], Sequence::Nine),
            (&[("TERM", "xterm-256color"), ("VTE_VERSION", "7600")], Sequence::Seven),
            (&[("TERM", "foot-extra")], Sequence::Seven),
            (&[("TERM", "tmux-256color"), ("TMUX", "/tmp/x")], Sequence::Bell),
            (&[("TERM", "linux")], Sequence::Bell),
        ] {
            let variable = |name: &str| {
                environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Sequence::detect(variable), sequence, "{environment:?}");
        }
    }

    #[test]
    fn a_hostile_text_is_no_sequence_con_20() {
        let text = "drained;x\u{7}\u{1b}]52;c;AAAA\u{7}\nlast";
        for sequence in [Sequence::Nine, Sequence::Seven] {
            let written = sequence.of(text);
            assert_eq!(written.matches('\u{1b}').count(), 1, "{written:?}");
            assert!(written.ends_with("\u{7}\u{7}") && written.matches('\u{7}').count() == 2, "{written:?}");
        }
        assert!(Sequence::Nine.of(&"long ".repeat(1_000)).len() < 700);
        assert_eq!(Sequence::Bell.of(text), "\u{7}");
    }
}
