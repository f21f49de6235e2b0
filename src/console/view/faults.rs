//! The banner of active faults with their remaining time (FAULT-1). It appears on every screen, so that their effects
//! are not mistaken for something else.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::rows::fault::{ends_at, is_active};
use console_toolkit::text::{age, clean, fit, seconds_until};
use extension::fault::Fault;

/// Maximum width of one of several faults.
const ONE: usize = 56;

/// Minimum width for the whole text before the faults.
const NARROW: usize = 60;

/// The hint for ending faults.
const HINT: &str = " :faults heals ";

/// Returns the active faults: the one that ends first comes first, those without an end last.
pub(super) fn active<'a>(cx: &Context<'a>) -> Vec<&'a Fault> {
    let faults = cx.stores.faults().iter().map(|(_, fault)| fault);
    let mut faults: Vec<&Fault> = faults.filter(|fault| is_active(fault)).collect();
    faults.order_by_key(|fault| (ends_at(fault).unwrap_or(Timestamp::MAX), fault.metadata.name.clone()));
    faults
}

pub(super) fn draw(faults: &[&Fault], cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    if faults.iter().any(|fault| ends_at(fault).is_some()) {
        cx.redraw_in(1);
    }
    let width = usize::from(area.width);
    let mut text = banner_text(faults, cx.now, width.saturating_sub(HINT.width()));
    let has_end = |text: &str| text.ends_with(" left");
    // On a narrow screen the faults matter more than the hint, and so does the end of a single one.
    let is_whole = !text.contains('…')
        && (faults.len() > 1 || has_end(&text) == has_end(&banner_text(faults, cx.now, width)));
    if text.width() + HINT.width() <= width && is_whole {
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
    let count = if faults.len() > 1 { format!(" {}", faults.len()) } else { String::new() };
    // On the narrowest screens the faults need the space.
    let words = if width < NARROW { "broken" } else { "broken on purpose" };
    let mut text = format!(" ⚠{count} {words}:");
    for (at, fault) in faults.iter().enumerate() {
        let sign = if at == 0 { " " } else { " · " };
        let left = faults.len() - at;
        // The number of omitted faults is shown at any width.
        let more = if left > 1 { format!(" · {} more", left - 1) } else { String::new() };
        let room = width.saturating_sub(text.width() + sign.width() + more.width());
        let one = one(fault, now, if faults.len() == 1 { room } else { ONE.min(room) });
        if at > 0 && one.contains('…') {
            let more = format!(" · {left} more");
            text.push_str(&fit(&more, width.saturating_sub(text.width())));
            return text;
        }
        text.push_str(sign);
        text.push_str(&one);
        if at == 0 && one.contains('…') {
            text.push_str(&more);
            return text;
        }
    }
    text
}

/// Returns `Partition cut node/node-1 ↔ node/node-2, 25s left`; for a fault with a target
/// `PowerOff node node-3 (poweroff-x)`. The target matters more than the fault's name, and that more than its end.
fn one(fault: &Fault, now: Timestamp, width: usize) -> String {
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
    let kind = &fault.spec.type_;
    let (whole, short) = match meets {
        Some(meets) => (format!("{kind} {meets} ({name})"), format!("{kind} {meets}")),
        None if target.is_empty() => (format!("{kind} {name}"), format!("{kind} {name}")),
        None => (format!("{kind} {name}{target}"), format!("{kind}{target}")),
    };
    let (whole, short) = (clean(&whole).into_owned(), clean(&short).into_owned());
    let choices = [format!("{whole}{left}"), format!("{short}{left}"), short.clone()];
    let fitting = choices.into_iter().find(|choice| choice.width() <= width);
    fitting.unwrap_or_else(|| fit(&short, width).into_owned())
}
