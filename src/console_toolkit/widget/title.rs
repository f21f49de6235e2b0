//! The title of a view in its upper border: its name, then what it shows, the most important part first.

use ratatui::text::{Line, Span};

use crate::text::fit;

/// Returns a title for a border of this width. Parts that do not fit are dropped whole; only the first one is
/// truncated.
pub fn title_line(parts: Vec<Span<'_>>, width: u16) -> Line<'_> {
    // The corners, and a column of the border beside each.
    let mut left = usize::from(width).saturating_sub(4);
    let mut line = Line::default();
    for (at, mut part) in parts.into_iter().enumerate() {
        if at == 0 && part.width() > left {
            part.content = format!("{} ", fit(part.content.trim_end(), left.saturating_sub(1))).into();
        }
        if part.width() <= left {
            left -= part.width();
            line.push_span(part);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_whole_parts_only_con_20() {
        for (parts, width, drawn) in [
            (&[" Timeline ", "3 objects ", "newest first "][..], 40, " Timeline 3 objects newest first "),
            (&[" Timeline ", "3 objects ", "newest first "], 30, " Timeline 3 objects "),
            (&[" Timeline ", "3 objects ", "now "], 20, " Timeline now "),
            (&[" why not ready · web-1 "], 20, " why not ready… "),
        ] {
            let parts = parts.iter().map(|part| Span::raw(*part)).collect();
            assert_eq!(title_line(parts, width).to_string(), drawn, "{width}");
        }
    }
}
