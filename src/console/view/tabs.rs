//! The tab bar: a number and a title for each tab; signs mark the current tab, and tabs that need attention.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Block;
use unicode_width::UnicodeWidthStr as _;

use crate::model::Model;
use crate::model::tabs::TabTitle;
use console_data::context::Context;
use console_toolkit::text::{clean, fit_middle};

/// Maximum width of a title, and minimum width at which it is useful.
const LONGEST: usize = 24;
const SHORTEST: usize = 6;

pub(super) fn draw(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    frame.render_widget(Block::new().style(theme.header.bar), area);
    let titles = model.tab_titles(cx.now);
    let labels = labels(&titles, usize::from(area.width));
    let mut spans = Vec::new();
    let mut places = model.shared.tab_areas.borrow_mut();
    let mut x = area.x;
    for (tab, label) in titles.iter().zip(labels) {
        let width = u16::try_from(label.width()).unwrap_or(u16::MAX).min(area.right().saturating_sub(x));
        places.push(Rect { x, y: area.y, width, height: 1 });
        x += width;
        let style = match tab {
            TabTitle { front: true, .. } => theme.table.cursor,
            TabTitle { calls: true, .. } => theme.status.pending.add_modifier(Modifier::BOLD),
            _ => theme.body.dim,
        };
        spans.push(Span::styled(label, style));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Returns the labels of the tabs, such that they fit side by side: long titles are cut, then only the current tab has
/// one.
fn labels(tabs: &[TabTitle], max_width: usize) -> Vec<String> {
    let label = |number: usize, tab: &TabTitle, longest: usize| {
        let front = if tab.front { '▸' } else { ' ' };
        let calls = if tab.calls { "!" } else { "" };
        let title =
            if longest == 0 { String::new() } else { format!(" {}", fit_middle(&clean(&tab.text), longest)) };
        format!("{front}{}{calls}{title} ", number + 1)
    };
    let all = |longest: usize, of_others: usize| -> Vec<String> {
        let each = tabs.iter().enumerate();
        each.map(|(number, tab)| label(number, tab, if tab.front { longest } else { of_others })).collect()
    };
    let width = |labels: &[String]| labels.iter().map(|label| label.width()).sum::<usize>();
    for longest in (SHORTEST..=LONGEST).rev() {
        let labels = all(longest, longest);
        if width(&labels) <= max_width {
            return labels;
        }
    }
    let bare = width(&all(0, 0));
    all(max_width.saturating_sub(bare + 1).min(LONGEST), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tab_is_in_the_bar_and_the_one_in_front_is_named_con_17() {
        for count in 2..=9 {
            for room in [40, 80, 140] {
                for front in 0..count {
                    let tabs: Vec<TabTitle> = (0..count)
                        .map(|number| TabTitle {
                            text: format!("a-long-name-of-a-pod-{number} · logs kube-system"),
                            front: number == front,
                            calls: number % 2 == 0,
                        })
                        .collect();
                    let labels = labels(&tabs, room);
                    let whole = labels.concat();
                    assert!(whole.width() <= room, "{count} {room}: {whole:?}");
                    assert_eq!(labels.len(), count);
                    for (number, label) in labels.iter().enumerate() {
                        assert!(label.contains(&(number + 1).to_string()), "{whole:?}");
                        assert_eq!(label.contains('!'), number % 2 == 0, "{whole:?}");
                        assert_eq!(label.starts_with('▸'), number == front, "{whole:?}");
                    }
                    assert!(labels[front].contains("a-"), "{whole:?}");
                }
            }
        }
    }
}
