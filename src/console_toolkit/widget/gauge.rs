//! Bars with a precision of an eighth of a cell.
//!
//! Bars are spans, because they are parts of titles, rows and lines of text; ratatui's `Gauge` and `LineGauge` need an
//! area of their own. Those also leave the empty part blank or use whole cells only, show nothing for a small share,
//! and ignore that a reversed cursor swaps colours.

use ratatui::style::Style;
use ratatui::text::Span;

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Returns a bar of `share` (0 to 1) over `columns`; the rest has the style `empty`.
pub fn bar<'a>(share: f64, columns: usize, full: Style, empty: Style) -> Vec<Span<'a>> {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mut eighths = (share * columns as f64 * 8.0).round() as usize;
    // A share above zero is always visible, however small.
    if share > 0.0 && eighths == 0 {
        eighths = 1;
    }
    let (whole, part) = (eighths / 8, eighths % 8);
    let used = whole + usize::from(part > 0);
    // Under a reversed cursor a full bar would look empty.
    let (full, empty) = (full.not_reversed(), empty.not_reversed());
    vec![
        Span::styled(format!("{}{}", "█".repeat(whole), EIGHTHS[part]), full),
        Span::styled("·".repeat(columns.saturating_sub(used)), empty),
    ]
}

/// Returns the bar of [`bar`] as text.
pub fn bar_text(share: f64, columns: usize) -> String {
    bar(share, columns, Style::default(), Style::default()).iter().map(|part| part.content.as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share_con_2() {
        for (share, text) in [
            (0.0, "········"),
            (0.001, "▏·······"),
            (0.5, "████····"),
            (0.55, "████▍···"),
            (1.0, "████████"),
            (7.0, "████████"),
            (f64::NAN, "········"),
        ] {
            assert_eq!(bar_text(share, 8), text, "{share}");
        }
    }
}
