//! Label and field selectors: a parsed selector survives writing and parsing.

use std::fmt::Write as _;

use object::selector::{Operator, Requirement, Selector, parse_fields};

/// Input: the text of a selector.
pub(super) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    labels(text);
    fields(text);
}

fn labels(text: &str) {
    let Ok(selector) = Selector::parse(text) else { return };
    let written: Vec<String> = selector.requirements().iter().map(write).collect();
    let written = written.join(",");
    assert_eq!(Selector::parse(&written).ok().as_ref(), Some(&selector), "{written:?}");
    let mut labels = std::collections::BTreeMap::new();
    assert!(!selector.is_everything() || selector.matches(Some(&labels)));
    for requirement in selector.requirements() {
        match &requirement.operator {
            Operator::In(values) => {
                let value = values.first().expect("a list has at least one element").clone();
                assert!(!requirement.matches(&labels) || labels.contains_key(&requirement.key));
                labels.insert(requirement.key.clone(), value);
                assert!(requirement.matches(&labels));
            }
            Operator::Exists => {
                labels.insert(requirement.key.clone(), String::new());
                assert!(requirement.matches(&labels));
            }
            _ => {
                let _ = requirement.matches(&labels);
            }
        }
    }
    let _ = selector.matches(Some(&labels));
}

fn write(requirement: &Requirement) -> String {
    let Requirement { key, operator } = requirement;
    match operator {
        Operator::In(values) => format!("{key} in ({})", values.join(",")),
        Operator::NotIn(values) => format!("{key} notin ({})", values.join(",")),
        Operator::Exists => key.clone(),
        Operator::DoesNotExist => format!("!{key}"),
        Operator::GreaterThan(bound) => format!("{key}>{bound}"),
        Operator::LessThan(bound) => format!("{key}<{bound}"),
    }
}

fn fields(text: &str) {
    let Ok(requirements) = parse_fields(text) else { return };
    assert!(requirements.len() <= text.split(',').count());
    let mut written = String::new();
    for requirement in &requirements {
        let sign = if requirement.equal { "==" } else { "!=" };
        // Two requirements cannot be written: in `a! = b` the path ends with `!`, and a blank at a value's end is lost.
        if requirement.path.ends_with('!') || requirement.value.trim() != requirement.value {
            return;
        }
        let value = requirement.value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        let _ = write!(written, "{}{sign}{value},", requirement.path);
    }
    assert_eq!(parse_fields(&written).ok(), Some(requirements), "{written:?}");
}
