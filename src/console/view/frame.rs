//! Finds the frames in a drawing by their corners, for reading or selecting their content.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Returns the outermost frames in an area, from top to bottom and left to right.
pub(crate) fn outermost(buffer: &Buffer, area: Rect) -> Vec<Rect> {
    let mut found: Vec<Rect> = Vec::new();
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if found.iter().any(|frame| frame.contains((x, y).into())) {
                continue;
            }
            found.extend(frame_at(buffer, area, x, y));
        }
    }
    found
}

/// Returns the area inside a frame.
pub(crate) fn inside(frame: Rect) -> Rect {
    Rect {
        x: frame.x + 1,
        y: frame.y + 1,
        width: frame.width.saturating_sub(2),
        height: frame.height.saturating_sub(2),
    }
}

/// Returns the cells of a frame's border.
pub(super) fn perimeter(frame: Rect) -> impl Iterator<Item = (u16, u16)> {
    let (right, bottom) = (frame.right().saturating_sub(1), frame.bottom().saturating_sub(1));
    let rows = (frame.x..frame.right()).flat_map(move |x| [(x, frame.y), (x, bottom)]);
    rows.chain((frame.y..frame.bottom()).flat_map(move |y| [(frame.x, y), (right, y)]))
}

/// Returns whether this is a character of a border, not of a title.
pub(super) fn is_border(symbol: &str) -> bool {
    matches!(symbol, "─" | "│" | "╭" | "╮" | "╰" | "╯")
}

/// Returns the frame with its upper left corner at this position.
fn frame_at(buffer: &Buffer, area: Rect, x: u16, y: u16) -> Option<Rect> {
    let symbol = |x: u16, y: u16| buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
    let is = |x: u16, y: u16, of: &[&str]| of.contains(&symbol(x, y));
    if !is(x, y, &["╭", "┌", "╔", "┏"]) {
        return None;
    }
    let bottom = (y + 1..area.bottom()).find(|y| is(x, *y, &["╰", "└", "╚", "┗"]))?;
    let right = (x + 1..area.right())
        .find(|x| is(*x, y, &["╮", "┐", "╗", "┓"]) && is(*x, bottom, &["╯", "┘", "╝", "┛"]))?;
    Some(Rect { x, y, width: right - x + 1, height: bottom - y + 1 })
}
