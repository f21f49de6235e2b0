//! The table of all workloads: rows of several kinds. A key on a row does what it does in the table of that row's kind, and
//! marked rows are done kind by kind; what a kind gives no rows for is said below the others.

use ratatui::text::Line;

use super::Table;
use crate::clusters::{ClusterView, Freshness};
use crate::context::Context;
use crate::resource::{ClusterId, Kind, ResourceKey};
use crate::rows::Row;
use crate::text::{age, clean, fit, seconds_until};
use crate::workloads::{self, Workload};

/// A kind that gives no rows now, or none that go on.
#[derive(Debug)]
struct Note {
    /// `Jobs not allowed`, of which cluster where there are several.
    words: String,
    fresh: Freshness,
    /// What the server or the way to it has said.
    why: Option<String>,
}

impl Table {
    /// Whether its rows are of several kinds.
    pub(super) fn is_mixed(&self) -> bool {
        workloads::is(&self.kind.resource)
    }

    /// Whether objects of a resource are its rows.
    pub(super) fn is_of(&self, resource: &ResourceKey) -> bool {
        self.kind.resource == *resource || self.is_mixed() && Workload::of(resource).is_some()
    }

    /// The kind of the row under the cursor; the table's own, where there is none.
    pub(super) fn kind_at_cursor(&self) -> &Kind {
        self.index.at(self.cursor_place()).map_or(&self.kind, |row| self.kind_of(row))
    }

    /// The kind of a row of several kinds.
    pub(super) fn kind_of_mixed(&self, row: &Row) -> Option<&Kind> {
        self.kinds.get(&(row.cluster, row.workload?))
    }

    /// Learns the kinds of its rows, as each cluster has them.
    pub(super) fn learn_kinds(&mut self, cx: &Context<'_>) {
        if !self.is_mixed() {
            return;
        }
        for (id, cluster) in self.clusters(cx) {
            for one in Workload::ALL {
                self.kinds.insert((id, one), cluster.kind(&one.kind()));
            }
        }
    }

    /// The clusters of its rows: by name where it is over several, else its own.
    fn clusters<'a>(&self, cx: &Context<'a>) -> Vec<(Option<ClusterId>, ClusterView<'a>)> {
        if let Some(over) = self.over() {
            return over.iter().filter_map(|id| Some((Some(*id), cx.clusters.get(*id)?))).collect();
        }
        let own = cx.clusters.get(cx.cluster);
        own.map(|own| (None, ClusterView { stores: cx.stores, links: cx.links, ..own })).into_iter().collect()
    }

    /// Whether every kind that gives rows has given its list.
    pub(super) fn is_mixed_loaded(&self, cx: &Context<'_>) -> bool {
        self.clusters(cx).iter().all(|(_, cluster)| cluster.is_loaded(&self.kind))
    }

    fn notes(&self, cx: &Context<'_>) -> Vec<Note> {
        let mut notes = Vec::new();
        for (_, cluster) in self.clusters(cx).into_iter().filter(|_| self.is_mixed()) {
            // Of a cluster that gives nothing at all its own line tells.
            if cluster.freshness(&self.kind) == Freshness::CatchingUp
                && !self.loaded
                && self.index.total() == 0
            {
                continue;
            }
            for kind in cluster.kinds_of(&self.kind) {
                let fresh = cluster.freshness(&kind);
                let words = match &fresh {
                    Freshness::Live => continue,
                    Freshness::CatchingUp => "still loading".to_owned(),
                    Freshness::Silent(since) => {
                        let second = jiff::Timestamp::from_second(cx.now.as_second() + 1);
                        cx.redraw_at(second.unwrap_or(cx.now));
                        format!("no answer {}", age(seconds_until(*since, cx.now)))
                    }
                    Freshness::NotAllowed => "not allowed".to_owned(),
                    Freshness::Absent => "not on this server".to_owned(),
                };
                let of =
                    if self.says_context() { format!(" of {}", clean(cluster.name)) } else { String::new() };
                let words = format!("{}{of} {words}", kind.heading());
                notes.push(Note { words, fresh, why: cluster.why(&kind) });
            }
        }
        // What somebody can do something about comes first.
        notes.sort_by_key(|note| matches!(note.fresh, Freshness::Absent | Freshness::CatchingUp));
        notes
    }

    /// Whether a kind gives no rows, or none that go on.
    pub(super) fn lacks_some(&self, cx: &Context<'_>) -> bool {
        !self.notes(cx).is_empty()
    }

    /// What gives no rows, in words: `Jobs not allowed, CronJobs not on this server`.
    pub(super) fn lacking(&self, cx: &Context<'_>) -> String {
        let notes: Vec<String> = self.notes(cx).into_iter().map(|note| note.words).collect();
        notes.join(", ")
    }

    /// The same in a line, with what the server has said of the first.
    pub(super) fn line_of_notes<'a>(&self, cx: &Context<'_>, room: usize) -> Option<Line<'a>> {
        let notes = self.notes(cx);
        let first = notes.first()?;
        // All are named before one is told whole.
        let named: Vec<String> =
            notes.iter().map(|note| format!("{} {}", note.fresh.glyph(), note.words)).collect();
        let why = first.why.as_ref().map(|why| format!(" · {}", clean(why))).unwrap_or_default();
        let text = format!(" {}{why}", named.join("  "));
        let style = match first.fresh {
            Freshness::Silent(_) => cx.theme.status.failed,
            Freshness::CatchingUp | Freshness::Live => cx.theme.status.pending,
            Freshness::NotAllowed | Freshness::Absent => cx.theme.body.dim,
        };
        Some(Line::styled(fit(&text, room).into_owned(), style))
    }
}
