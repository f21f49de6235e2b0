//! Builds the lines of the user's own permissions: the rules in columns on wide screens, else each resource with its
//! verbs below it.

use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use super::{Access, Lines};
use console_data::access::namespace_of;
use console_data::access::self_rules::Row;
use console_data::context::Context;
use console_toolkit::text::{clean, pad, wrapped};

/// Minimum width, in columns, for resources, names and verbs side by side.
const WIDE: usize = 60;

pub(super) fn lines(screen: &Access, cx: &Context<'_>, width: usize) -> Vec<(String, Style)> {
    let theme = cx.theme;
    let mut lines = Lines::new(width);
    let (_, note) = namespace_of(cx.scope);
    if let Some(note) = note {
        lines.add("· ", &note, theme.body.dim);
    }
    if let Some(why) = &screen.failed {
        lines.add("✖ ", &format!("not known: {why}"), theme.status.failed);
    }
    let Some(mine) = &screen.own_rules else {
        if screen.failed.is_none() {
            lines.add("", "asking the server …", theme.body.dim);
        }
        return lines.lines;
    };
    if let Some(why) = &mine.incomplete {
        lines.add("✖ ", &format!("incomplete, there may be more: {why}"), theme.status.pending);
    }
    if mine.is_truncated {
        let limit = mine.rows.len();
        lines.add("✖ ", &format!("only the first {limit} are shown"), theme.status.pending);
    }
    let text = |row: &Row| format!("{} {} {}", row.target, row.names.join(" "), row.verbs.join(" "));
    let shown: Vec<&Row> = mine.rows.iter().filter(|row| screen.matches(&text(row))).collect();
    let count = match (shown.len(), mine.rows.len()) {
        (_, 0) => "the server reports no permissions here".to_owned(),
        (shown, all) if shown < all => format!("{shown} of {all} resources and paths"),
        (_, 1) => "1 resource or path".to_owned(),
        (_, all) => format!("{all} resources and paths"),
    };
    lines.add("· ", &count, theme.body.dim);
    if shown.is_empty() {
        return lines.lines;
    }
    if width >= WIDE {
        columns(&mut lines, &shown, theme.table.header);
    } else {
        for row in shown {
            lines.add("", &row.target, Style::default());
            if !row.names.is_empty() {
                lines.add("  ", &format!("only {}", row.names.join(", ")), theme.body.dim);
            }
            lines.add("  ", &row.verbs.join(" "), theme.body.dim);
        }
    }
    lines.lines
}

fn columns(lines: &mut Lines, rows: &[&Row], header: Style) {
    let widest = |cell: &dyn Fn(&Row) -> usize| rows.iter().map(|row| cell(row)).max().unwrap_or(0);
    let names = widest(&|row| clean(&row.names.join(", ")).width());
    // The column of names is left out if no rule is limited to names.
    let names = if names == 0 { 0 } else { names.clamp(5, lines.width / 4) };
    let gap = if names == 0 { 0 } else { 2 };
    // Resources get the width that the verbs leave, and at least two fifths.
    let verbs = widest(&|row| clean(&row.verbs.join(" ")).width());
    let available = lines.width.saturating_sub(2 + names + gap + verbs).max(lines.width * 2 / 5);
    let whats = widest(&|row| clean(&row.target).width()).clamp(8, available.max(8));
    let verbs = lines.width.saturating_sub(whats + 2 + names + gap).max(8);
    let line = |target: &str, only: &str, verb: &str| {
        format!("{}  {}{}{verb}", pad(target, whats), pad(only, names), " ".repeat(gap)).trim_end().to_owned()
    };
    lines.lines.push((line("RESOURCE", "NAMES", "VERBS"), header));
    for row in rows {
        let target = wrapped(&clean(&row.target), whats);
        let only = if names == 0 { Vec::new() } else { wrapped(&clean(&row.names.join(", ")), names) };
        let verb = wrapped(&clean(&row.verbs.join(" ")), verbs);
        let cell = |column: &[String], at: usize| column.get(at).cloned().unwrap_or_default();
        for at in 0..target.len().max(only.len()).max(verb.len()) {
            let text = line(&cell(&target, at), &cell(&only, at), &cell(&verb, at));
            lines.lines.push((text, Style::default()));
        }
    }
}
