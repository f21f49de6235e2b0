//! What stands in a table without a row: why there is none, and what leads to some.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::Table;
use crate::context::Context;
use crate::effect::Only;
use crate::links::Refusal;
use crate::resource::ObjectRef;
use crate::scope::Scope;
use crate::text::{clean, grouped};
use object::fault::Fault;

/// Says it in the middle of the table.
pub(super) fn draw(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) {
    let refusal = cx.links.refused(&table.kind.resource).filter(|_| table.shown_moment().is_none());
    let text = if let Some(refusal) = refusal {
        match refusal {
            Refusal::NotAllowed(why) => format!("{}: {}", refusal.words(), clean(why)),
            Refusal::Absent => refusal.words().to_owned(),
        }
    } else if !table.loaded {
        "loading…".to_owned()
    } else if table.index.total() == 0 && table.lacks_some(cx) {
        "no workloads of the kinds that were told".to_owned()
    } else if table.index.total() > 0 {
        let total = grouped(table.index.total() as u64);
        // k9s takes this for labels.
        let labels = if table.query.contains('=') && !table.query.starts_with('-') {
            format!("; -l {} is a filter of labels", clean(&table.query))
        } else {
            String::new()
        };
        format!("none of {total} match; <esc> clears the filter{labels}")
    } else {
        let place = match (&table.only, table.kind.namespaced) {
            (Only::Using(object), _) => format!(" use {}", clean(&object.describe())),
            (Only::Selected(by), _) if has_no_selector(cx, by) => {
                format!(": {} has no selector, its endpoints are made by others", clean(&by.describe()))
            }
            (Only::All, _) if table.kind.is::<Fault>() => {
                ": podium fault breaks something on purpose, in another terminal".to_owned()
            }
            (Only::All, true) => match cx.scope {
                Scope::All => " in any namespace".to_owned(),
                Scope::One(name) => format!(" in namespace {name}; <0> shows all"),
            },
            _ => String::new(),
        };
        format!("no {}{place}", table.kind.resource.plural)
    };
    let place = Rect { y: inner.y + inner.height / 3, height: 1, ..inner };
    frame.render_widget(Line::styled(text, cx.theme.body.dim).centered(), place);
}

/// Whether it is a service that selects no pods.
fn has_no_selector(cx: &Context<'_>, by: &ObjectRef) -> bool {
    let service = by.uid.as_ref().and_then(|uid| cx.stores.services().get(uid));
    service.is_some_and(|service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_none_or(std::collections::BTreeMap::is_empty)
    })
}
