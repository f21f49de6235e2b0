//! The text of a table without rows: the reason, and a key that leads to rows.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::Table;
use console_data::context::Context;
use console_data::links::UnavailableReason;
use console_data::query::exact_name;
use console_data::resource::ObjectRef;
use console_data::scope::Scope;
use console_operations::effect::RowScope;
use console_operations::operations::snapshot;
use console_toolkit::command::Command;
use console_toolkit::text::{clean, grouped};
use console_toolkit::widget::notice;
use extension::fault::Fault;

/// Draws the text in the middle of the table.
pub(super) fn draw(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) {
    notice::draw_centered(&reason(table, cx), cx.theme.body.dim, frame, inner);
}

/// Returns the reason why there are no rows.
fn reason(table: &Table, cx: &Context<'_>) -> String {
    let refusal = cx.links.refused(&table.kind.resource).filter(|_| table.displayed_time().is_none());
    if let Some(refusal) = refusal {
        match refusal {
            UnavailableReason::NotAllowed(why) => format!("{}: {}", refusal.label(), clean(why)),
            UnavailableReason::Absent => refusal.label().to_owned(),
        }
    } else if !table.loaded {
        "loading…".to_owned()
    } else if let Some(name) = missing_namespace(table, cx) {
        format!("the namespace {} does not exist; <0> shows all", clean(name))
    } else if table.index.total() == 0 && table.lacks_some(cx) {
        "no workloads of the available kinds".to_owned()
    } else if table.index.total() > 0 {
        let total = grouped(table.index.total() as u64);
        if let Some(name) = exact_name(&table.query) {
            return format!("no {} {name:?}; <esc> shows all {total}", table.kind.singular);
        }
        // k9s treats such a filter as a label selector.
        let labels = if table.query.contains('=') && !table.query.starts_with('-') {
            format!("; -l {} filters by label", clean(&table.query))
        } else {
            String::new()
        };
        format!("none of {total} match; <esc> clears the filter{labels}")
    } else {
        let place = match (&table.only, table.kind.namespaced) {
            (RowScope::Using(object), _) => format!(" use {}", clean(&object.describe())),
            (RowScope::UsingImage(used), _) => format!(" use {}", clean(&used.describe())),
            (RowScope::Selected(by), _) if has_no_selector(cx, by) => {
                format!(": {} has no selector, so it matches no pods", clean(&by.describe()))
            }
            (RowScope::All, _) if table.kind.is::<Fault>() => {
                let key = cx.bindings.key(Command::Break).map(|key| format!("<{key}>"));
                format!("; {} adds a fault", key.as_deref().unwrap_or(":break"))
            }
            (RowScope::All, _) if snapshot::is_kind(&table.kind) => {
                let key = cx.bindings.key(Command::SnapshotSave).map(|key| format!("<{key}>"));
                format!("; {} saves one of the whole cluster", key.as_deref().unwrap_or(":snapshot-save"))
            }
            (RowScope::All, true) => match cx.scope {
                Scope::All => " in any namespace".to_owned(),
                Scope::One(name) => format!(" in namespace {name}; <0> shows all"),
            },
            _ => String::new(),
        };
        format!("no {}{place}", table.kind.resource.plural)
    }
}

/// Returns the namespace of the table if it does not exist.
fn missing_namespace<'a>(table: &'a Table, cx: &Context<'a>) -> Option<&'a str> {
    let ((RowScope::In(name), _) | (RowScope::All, Scope::One(name))) = (&table.only, cx.scope) else {
        return None;
    };
    let namespaces = cx.stores.namespaces();
    // Past states have no list of namespaces, and it may be refused.
    let is_known = namespaces.synced() && table.displayed_time().is_none() && table.kind.namespaced;
    (is_known && table.index.total() == 0 && namespaces.by_name("", name).is_none()).then_some(name)
}

/// Returns whether the object is a service without a selector.
fn has_no_selector(cx: &Context<'_>, by: &ObjectRef) -> bool {
    let service = by.uid.as_ref().and_then(|uid| cx.stores.services().get(uid));
    service.is_some_and(|service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_none_or(std::collections::BTreeMap::is_empty)
    })
}
