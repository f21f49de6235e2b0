//! Replaces non-ASCII characters, for terminals and fonts without them (CON-20): each sign has an ASCII sign that
//! resembles it, so that columns stay aligned.

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr;

/// Replaces each non-ASCII cell by an ASCII sign.
pub(crate) fn in_ascii(buffer: &mut Buffer) {
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        while x < area.right() {
            let Some(cell) = buffer.cell_mut((x, y)) else { break };
            let width = cell.symbol().width().max(1) as u16;
            if !cell.symbol().is_ascii() {
                let plain = plain(cell.symbol());
                cell.set_symbol(plain);
                // A wide character becomes a narrow one.
                for next in x + 1..(x + width).min(area.right()) {
                    if let Some(cell) = buffer.cell_mut((next, y)) {
                        cell.set_symbol(" ");
                    }
                }
            }
            x = x.saturating_add(width);
        }
    }
}

/// Returns the ASCII sign for a character; `?` for letters of other scripts.
fn plain(symbol: &str) -> &'static str {
    match symbol {
        "─" | "━" | "–" | "−" | "◌" | "↔" | "▃" | "▄" => "-",
        "═" | "▅" | "▆" => "=",
        "│" | "┃" | "║" | "‖" | "▏" => "|",
        "·" | "…" | "⋯" | "░" | "▎" | "▍" => ".",
        "▁" | "▂" => "_",
        "▌" | "▋" | "▊" | "▉" | "█" | "▇" | "▓" => "#",
        "▒" => ":",
        "✖" | "×" => "x",
        "✔" => "+",
        "●" => "o",
        "◐" => "~",
        "↻" => "@",
        "⚠" => "!",
        "◆" | "▪" | "■" | "✎" | "⧗" => "*",
        "▸" | "→" | "›" | "≥" => ">",
        "◀" | "←" | "‹" | "≤" | "↩" => "<",
        "↑" | "▲" | "▴" => "^",
        "↓" | "▾" => "v",
        _ => match symbol.chars().next() {
            // Corners and crossings of frames, dots of curves.
            Some('\u{2500}'..='\u{257f}') => "+",
            Some('\u{2800}'..='\u{28ff}') => ":",
            _ => "?",
        },
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn everything_is_ascii_and_stays_in_its_column_con_20() {
        for (text, plain) in [
            ("╭─ Pods ─╮", "+- Pods -+"),
            ("│● 3/3   │", "|o 3/3   |"),
            ("╰┬┴┼├┤═╝", "+++++++=+".get(1..).unwrap()),
            ("日本 a", "? ?  a"),
            ("👨‍👩‍👧 x", "?  x"),
            ("▸✖⚠◐✔↻◌…", ">x!~+@-."),
            ("▁▃▅█░⣿", "_-=#.:"),
            ("é\u{301}!", "?!"),
            ("plain", "plain"),
        ] {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
            buffer.set_string(0, 0, text, Style::default());
            in_ascii(&mut buffer);
            let shown: String = (0..12).map(|x| buffer[(x, 0)].symbol().to_owned()).collect();
            assert_eq!(shown.trim_end(), plain, "{text}");
        }
    }

    /// The signs of states are distinct.
    #[test]
    fn no_two_states_look_alike_con_20() {
        let signs: std::collections::HashSet<&str> = console_toolkit::health::Health::ALL
            .iter()
            .map(|health| match health.glyph() {
                "?" => "?",
                glyph => plain(glyph),
            })
            .collect();
        assert_eq!(signs.len(), console_toolkit::health::Health::ALL.len());
    }
}
