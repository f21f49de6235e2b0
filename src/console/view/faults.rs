//! The banner of active faults with their remaining time (FAULT-1). It appears on every screen, so that their effects
//! are not mistaken for something else.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use console_data::context::Context;
use console_data::rows::fault::{ends_at, is_active};
use console_toolkit::text::{age, clean, fit, seconds_until};
use extension::fault::Fault;

/// Maximum width of one fault.
const ONE: usize = 56;

/// The hint for ending faults.
const HINT: &str = " :faults heals ";

/// Returns the active faults: the one that ends first comes first, those without an end last.
pub(super) fn active<'a>(cx: &Context<'a>) -> Vec<&'a Fault> {
    let faults = cx.stores.faults().iter().map(|(_, fault)| fault);
    let mut faults: Vec<&Fault> = faults.filter(|fault| is_active(fault)).collect();
    faults.sort_by_key(|fault| (ends_at(fault).unwrap_or(Timestamp::MAX), fault.metadata.name.clone()));
    faults
}

pub(super) fn draw(faults: &[&Fault], cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    if faults.iter().any(|fault| ends_at(fault).is_some()) {
        cx.redraw_at(Timestamp::from_second(cx.now.as_second() + 1).unwrap_or(cx.now));
    }
    let width = usize::from(area.width);
    let mut text = banner_text(faults, cx.now, width.saturating_sub(HINT.width()));
    // On a narrow screen the faults matter more than the hint.
    if text.width() + HINT.width() <= width {
        text.push_str(&" ".repeat(width - HINT.width() - text.width()));
        text.push_str(HINT);
    } else {
        text = banner_text(faults, cx.now, width);
        text.push_str(&" ".repeat(width.saturating_sub(text.width())));
    }
    let style = cx.theme.status.pending.add_modifier(Modifier::REVERSED | Modifier::BOLD);
    frame.render_widget(Line::from(Span::styled(text, style)), area);
}

fn banner_text(faults: &[&Fault], now: Timestamp, width: usize) -> String {
    let mut text = match faults.len() {
        1 => " ⚠ broken on purpose:".to_owned(),
        count => format!(" ⚠ {count} broken on purpose:"),
    };
    for (at, fault) in faults.iter().enumerate() {
        let sign = if at == 0 { " " } else { " · " };
        let one = format!("{sign}{}", fit(&one(fault, now), ONE));
        let left = faults.len() - at;
        let more = if left > 1 { format!(" · {} more", left - 1) } else { String::new() };
        if text.width() + one.width() + more.width() > width {
            // The number of omitted faults is shown at any width.
            let (one, more) = if at == 0 { (one, more) } else { (String::new(), format!(" · {left} more")) };
            text.push_str(&fit(&one, width.saturating_sub(text.width() + more.width())));
            text.push_str(&fit(&more, width.saturating_sub(text.width())));
            return text;
        }
        text.push_str(&one);
    }
    text
}

/// Returns `Partition cut node/node-1 ↔ node/node-2, 25s left`; for a fault with a target
/// `PowerOff node node-3 (poweroff-x)`.
fn one(fault: &Fault, now: Timestamp) -> String {
    let name = fault.metadata.name.as_deref().unwrap_or_default();
    let side = |peer: Option<&extension::fault::FaultPeer>| {
        peer.map_or_else(|| "all".to_owned(), ToString::to_string)
    };
    let target = match (&fault.spec.from, &fault.spec.to) {
        (None, None) => String::new(),
        (from, to) => {
            let arrow = if fault.is_one_way() { "→" } else { "↔" };
            format!(" {} {arrow} {}", side(from.as_ref()), side(to.as_ref()))
        }
    };
    let left = ends_at(fault).map(|at| format!(", {} left", age(seconds_until(now, at)))).unwrap_or_default();
    let meets =
        fault.status.as_ref().and_then(|status| status.meets.as_deref()).filter(|_| target.is_empty());
    let description = match meets {
        Some(meets) => format!("{} {meets} ({name})", fault.spec.type_),
        None => format!("{} {name}{target}", fault.spec.type_),
    };
    let description = clean(&description).into_owned();
    let max_width = ONE.saturating_sub(left.width());
    format!("{}{left}", fit(&description, max_width))
}
