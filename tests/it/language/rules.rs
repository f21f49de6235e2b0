//! The rules of language for one comment, one word, one type name.

/// First words that turn a statement into a riddle ("What is not read …", "Whose turn it is.").
const QUESTIONS: &[&str] = &["who", "what", "whom", "whose", "where", "how", "whether", "when", "which"];

/// Words that stand for a noun of the field, or are out of use.
#[rustfmt::skip]
pub(super) const BANNED: &[&str] = &[
    "anew", "anybody", "asked", "begun", "born", "eldest", "elsewhere", "kept", "nobody", "nowhere", "said",
    "somebody", "therein", "thereof", "told", "wanted", "whatever", "whereof", "wherever", "whichever",
    "whoever", "whom", "whose", "wished",
];

/// Names of types that are participles, adverbs, prepositions, pronouns or adjectives, as far as [`is_participle`] and
/// [`CLAUSES`] do not find them.
#[rustfmt::skip]
const NO_NOUNS: &[&str] = &[
    "About", "Above", "After", "Always", "Around", "Asides", "Asks", "At", "Before", "Begun", "Behind",
    "Below", "Beside", "Between", "Born", "Both", "Bound", "Broken", "Built", "Came", "Chosen", "Comes",
    "Down", "Drawn", "Due", "Early", "Elsewhere", "Exclusive", "Faulty", "Found", "Given", "Go", "Gone",
    "GrantFrom", "GrantTo", "Half", "Heard", "Held", "Hidden", "How", "In", "Inside", "Inward", "Is",
    "Kept", "Known", "Laid", "LaidOut", "Latest", "Led", "Left", "Lost", "Made", "Met", "Mine", "No",
    "None", "NotDone", "NotJson", "NotKnown", "Now", "Nowhere", "Of", "Off", "On", "Once", "One", "Only",
    "Onward", "Open", "Others", "Ours", "Out", "Outgoing", "Outward", "Over", "Overdue", "Own", "Past",
    "Reachable", "Read", "Ready", "Recent", "Refuse", "Said", "Same", "Seen", "Sent", "Show", "Shown",
    "Shows", "Since", "Sought", "Spoken", "Taken", "Tell", "Theirs", "Then", "There", "Through", "Together",
    "Told", "Torn", "UnderWay", "Unfit", "Unmade", "Unreachable", "Unsteady", "Unusable", "Way", "WayOut",
    "What", "When", "Where", "Which", "Who", "Whole", "Whom", "Whose", "Why", "With", "Worn", "Written",
    "Wrong", "Yours",
];

/// Names of one word that end as a participle does, and are nouns.
#[rustfmt::skip]
const NOUNS: &[&str] = &[
    "Backing", "Binding", "Ceiling", "Deed", "Drawing", "Embedding", "Encoding", "Ending", "Feed",
    "Finding", "Framing", "Greeting", "Heading", "Keyring", "Listing", "Logging", "Mapping", "Meaning", "Need",
    "Opening", "Ping", "Reading", "Recording", "Ring", "Rounding", "Ruling", "Seed", "Setting", "Sibling",
    "Spring", "String", "Thing", "Timing", "Typing", "Warning",
];

/// First words of names that are clauses: `OfNode`, `AsIs`, `InForce`, `WhatHappened`.
#[rustfmt::skip]
const CLAUSES: &[&str] = &[
    "As", "At", "For", "From", "How", "In", "Is", "Of", "There", "What", "When", "Where", "Which", "Who",
    "Whom", "Whose", "Why", "With",
];

/// Words in capitals before a number that name no paper: standards, and a heading in a picture of a screen.
const NO_PAPERS: &[&str] = &["ASCII", "HTTP", "JSON", "LATER", "WCAG", "YAML"];

pub(super) fn opens_with_a_question(text: &str) -> bool {
    let text = text.trim_start_matches(|first: char| !first.is_ascii_alphanumeric() && first != '`');
    let end = text.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(text.len());
    QUESTIONS.iter().any(|word| text[..end].eq_ignore_ascii_case(word))
}

/// The words of a name in camel case or with underscores, or of a sentence.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().take_while(|byte| !byte.is_ascii_alphabetic()).count();
        let start = at;
        while let Some(byte) = bytes.get(at).filter(|byte| byte.is_ascii_alphabetic()) {
            // A capital begins a word, except within an abbreviation, whose last capital may begin the next word.
            let after_small = at > start && bytes[at - 1].is_ascii_lowercase();
            let before_small = at > start && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            if byte.is_ascii_uppercase() && (after_small || before_small) {
                break;
            }
            at += 1;
        }
        (at > start).then(|| &text[start..at])
    })
}

/// The banned words of a name or a sentence.
pub(super) fn banned(text: &str) -> impl Iterator<Item = &'static str> {
    words(text).filter_map(|word| {
        // Most words of a source are dismissed by their length or first letter, which is fast.
        let first = word.as_bytes()[0].to_ascii_lowercase();
        if word.len() < 4 || word.len() > 9 || !b"abeknstw".contains(&first) {
            return None;
        }
        BANNED.iter().find(|banned| banned.eq_ignore_ascii_case(word)).copied()
    })
}

fn is_participle(name: &str) -> bool {
    (name.ends_with("ed") || name.ends_with("ing")) && !NOUNS.contains(&name)
}

/// The name of a type is a bare participle, adverb, preposition or pronoun, a clause, or has a banned word.
pub(super) fn is_no_noun(name: &str) -> bool {
    let mut words = words(name);
    let (Some(first), second) = (words.next(), words.next()) else { return false };
    let by_its_words = match second {
        None => is_participle(name),
        Some(_) => CLAUSES.contains(&first),
    };
    by_its_words || NO_NOUNS.contains(&name) || banned(name).next().is_some()
}

/// References to papers outside of the repository: a name in capitals with a number, or an issue's number. Ids of
/// the specification have a hyphen before the number.
pub(super) fn papers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let tokens: Vec<&str> = text.split_whitespace().collect();
    for (n, token) in tokens.iter().enumerate() {
        let name = token.trim_matches(|end: char| !end.is_ascii_alphanumeric());
        let name = name.strip_suffix("'s").unwrap_or(name);
        let next = tokens.get(n + 1).map_or("", |next| next.trim_start_matches('#'));
        let digits = next.bytes().take_while(u8::is_ascii_digit).count();
        let number = digits > 0 && !next[digits..].starts_with(|after: char| after.is_alphanumeric());
        let capitals = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase());
        // A mark after the name separates it from the number.
        let adjoins = token.ends_with(|end: char| end.is_ascii_alphanumeric());
        let first = name.split('-').next().unwrap_or(name);
        let paper = name.split('-').all(capitals) && first.len() >= 4 && !NO_PAPERS.contains(&first);
        let issue = name.eq_ignore_ascii_case("issue") || name.eq_ignore_ascii_case("issues");
        if (number && adjoins && (paper || issue)) || name.ends_with("-FOUND") {
            found.push(format!("{name} {next}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_found_behind_marks_and_not_within_names() {
        for (text, expected) in [
            ("What is read.", true),
            ("how many pods run", true),
            ("(Whether it runs.)", true),
            ("- who owns it", true),
            ("**When** it runs", true),
            ("Which", true),
            ("whoever", false),
            ("Whatever the size", false),
            ("The pod which runs", false),
            ("`Who` asks", false),
            ("`What`.", false),
            ("2 which", false),
            ("", false),
            ("—", false),
        ] {
            assert_eq!(opens_with_a_question(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_split_at_case_and_underscore() {
        for (text, expected) in [
            ("told_by", &["told", "by"][..]),
            ("whoIsTold", &["who", "Is", "Told"]),
            ("KEPT_MAX", &["KEPT", "MAX"]),
            ("HTTPServer2Told", &["HTTP", "Server", "Told"]),
            ("a said: \"told\"", &["a", "said", "told"]),
            ("élder _ 12", &["lder"]),
            ("", &[]),
        ] {
            assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn every_banned_word_is_found() {
        for word in BANNED {
            assert_eq!(banned(word).collect::<Vec<_>>(), [*word]);
        }
    }

    #[test]
    fn banned_words_are_whole_words() {
        for (text, expected) in [
            ("last_told", &["told"][..]),
            ("ToldAndKept", &["told", "kept"]),
            ("NOBODY", &["nobody"]),
            ("Said the user, whom it asked.", &["said", "whom", "asked"]),
            ("retold unasked keptit Unwanted tolds", &[]),
        ] {
            assert_eq!(banned(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn types_are_nouns() {
        for name in
            ["Told", "Wanted", "Watching", "Whom", "Elsewhere", "Way", "OfNode", "AsIs", "WhatHappened"]
        {
            assert!(is_no_noun(name), "{name}");
        }
        for name in
            ["Pod", "String", "Binding", "Feed", "WatchedPods", "PodDeleted", "Isolation", "Forecast", "T"]
        {
            assert!(!is_no_noun(name), "{name}");
        }
    }

    #[test]
    fn papers_are_names_in_capitals_with_a_number() {
        for (text, expected) in [
            ("HOUSE 3: a fact", &["HOUSE 3:"][..]),
            ("a fact (RELIABILITY-FOUND 12, 13)", &["RELIABILITY-FOUND 12,"]),
            ("API-FOUND. A fact", &["API-FOUND A"]),
            ("PAPER's 4", &["PAPER 4"]),
            ("Found in issue 42, issues #7 and #8", &["issue 42,", "issues 7"]),
            ("API-3, POD-12 and SAFE-1", &[]),
            ("YAML 1.2, HTTP 404, WCAG 2", &[]),
            ("RFC 9110, OSC 8", &[]),
            ("HOUSES are 3", &[]),
            ("SIGTERM, 30 seconds", &[]),
            ("CREATE 2x", &[]),
            ("an issue", &[]),
        ] {
            assert_eq!(papers(text), expected, "{text}");
        }
    }
}
