//! Builds the lines of a permission query: the server's decision, the parts of RBAC that could not be read, and each
//! subject with its bindings.

use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use ratatui::style::{Modifier, Style};

use super::{Access, Lines, WhoCanResult};
use console_data::access::Attributes;
use console_data::context::Context;

pub(super) fn lines(
    screen: &Access,
    attributes: &Attributes,
    notes: &[String],
    cx: &Context<'_>,
    width: usize,
) -> Vec<(String, Style)> {
    let theme = cx.theme;
    let mut lines = Lines::new(width);
    match &screen.whether {
        None => lines.add("", "asking the server …", theme.body.dim),
        Some(Err(why)) => {
            lines.add("✖ ", &format!("your permission is not known: {why}"), theme.status.failed);
        }
        Some(Ok(status)) => whether(&mut lines, attributes, status, cx),
    }
    for note in notes {
        lines.add("· ", note, theme.body.dim);
    }
    lines.blank();
    match &screen.who {
        None => lines.add("", "reading roles and bindings …", theme.body.dim),
        Some(who) => subjects(&mut lines, screen, who, cx),
    }
    lines.lines
}

fn whether(lines: &mut Lines, attributes: &Attributes, status: &SubjectAccessReviewStatus, cx: &Context<'_>) {
    let theme = cx.theme;
    let bold = |style: Style| style.add_modifier(Modifier::BOLD);
    if status.allowed {
        lines.add(theme.sign("✔ ", ""), &format!("you may {attributes}"), bold(theme.status.running));
    } else {
        lines.add(theme.sign("✖ ", ""), &format!("you may not {attributes}"), bold(theme.status.failed));
    }
    let trimmed = |text: &Option<String>| {
        text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match trimmed(&status.reason) {
        Some(reason) => lines.add("  ", &reason, theme.body.text),
        None => lines.add("  ", "the server gives no reason", theme.body.dim),
    }
    if let Some(error) = trimmed(&status.evaluation_error) {
        lines.add("  ", &format!("and could not evaluate all rules: {error}"), theme.status.pending);
    }
}

fn subjects(lines: &mut Lines, screen: &Access, who: &WhoCanResult, cx: &Context<'_>) {
    let theme = cx.theme;
    for (what, why) in &who.unread {
        lines.add("✖ ", &format!("{what}: {why}"), theme.status.failed);
    }
    let unresolved = match who.report.unresolved {
        0 => None,
        1 => Some("1 binding names a role that was not read: its permissions are not known".to_owned()),
        many => {
            Some(format!("{many} bindings name roles that were not read: their permissions are not known"))
        }
    };
    if let Some(unresolved) = unresolved {
        lines.add("✖ ", &unresolved, theme.status.pending);
    }
    if who.report.is_truncated {
        lines.add("✖ ", "more subjects exist than are shown", theme.status.pending);
    }
    let all = who.report.subjects.len();
    let mut shown = Vec::new();
    for (subject, grants) in &who.report.subjects {
        let subject = subject.to_string();
        let grants = grants.iter().map(ToString::to_string);
        let grants: Vec<String> =
            grants.filter(|grant| screen.matches(&format!("{subject} {grant}"))).collect();
        if !grants.is_empty() {
            shown.push((subject, grants));
        }
    }
    let among = if who.unread.is_empty() { "" } else { " that were read" };
    let count = match (shown.len(), all) {
        (_, 0) => format!("no subject is allowed by the roles and bindings{among}"),
        (shown, all) if shown < all => format!("{shown} of {all} subjects are allowed"),
        (_, 1) => format!("1 subject is allowed by the roles and bindings{among}"),
        (_, all) => format!("{all} subjects are allowed by the roles and bindings{among}"),
    };
    lines.add("· ", &count, theme.body.dim);
    for (subject, grants) in shown {
        lines.add("", &subject, theme.body.text.add_modifier(Modifier::BOLD));
        for grant in grants {
            lines.add("  ", &grant, theme.body.dim);
        }
    }
    lines.blank();
    let beyond = "RBAC only: other authorizers may allow more, and system:masters may do everything";
    lines.add("· ", beyond, theme.body.dim);
}
