//! The table of all workloads, with rows of several kinds. Keys do what they do in the table of the row's kind, and
//! commands on marked rows run kind by kind; kinds without rows are listed below the rows.

use ratatui::style::Style;
use ratatui::text::Line;

use super::Table;
use base::sort::SliceOrder;
use console_data::clusters::{ClusterView, ConnectionState, Freshness};
use console_data::context::Context;
use console_data::past::{Gap, MissingReason};
use console_data::resource::{ClusterId, Kind, ResourceKey};
use console_data::rows::Row;
use console_data::workloads::{self, Workload};
use console_toolkit::text::{clean, fit, grouped};
use console_toolkit::theme::Theme;

/// A kind without rows, or without live updates.
#[derive(Debug)]
struct KindNote {
    /// `Jobs not allowed`, with the cluster if there are several.
    text: String,
    sign: KindAvailability,
    /// The message of the server or the connection.
    reason: Option<String>,
}

/// The state of a kind with missing or incomplete rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KindAvailability {
    /// Rows are expected, but missing.
    Silent,
    /// There are more objects than were listed.
    Cut,
    /// The user may not read the kind.
    NotAllowed,
    /// The list is being loaded.
    CatchingUp,
    /// The server does not serve the kind.
    Absent,
}

impl KindAvailability {
    fn glyph(self) -> &'static str {
        match self {
            Self::Silent => "✖",
            Self::CatchingUp | Self::Cut => "◐",
            Self::NotAllowed | Self::Absent => "○",
        }
    }

    fn style(self, theme: &Theme) -> Style {
        match self {
            Self::Silent => theme.status.failed,
            Self::CatchingUp | Self::Cut => theme.status.pending,
            Self::NotAllowed | Self::Absent => theme.body.dim,
        }
    }
}

impl KindNote {
    /// Returns the note for a kind with an incomplete past.
    fn for_gap(gap: &Gap) -> Option<Self> {
        let of = gap.kind.heading();
        let (words, sign, why) = match &gap.missing {
            // The server's present refusal of the kind is reported instead.
            MissingReason::Refused(_) => return None,
            MissingReason::NotRecorded => (format!("no record of {of} then"), KindAvailability::Silent, None),
            MissingReason::Unanswered(why) => {
                (format!("{of} then unknown"), KindAvailability::Silent, Some(why.clone()))
            }
            MissingReason::Cut(cut) => {
                (format!("{} more {of}", grouped(*cut as u64)), KindAvailability::Cut, None)
            }
        };
        Some(Self { text: words, sign, reason: why })
    }
}

impl Table {
    /// Returns whether the table's rows are of several kinds.
    pub(super) fn is_mixed(&self) -> bool {
        workloads::is(&self.kind.resource)
    }

    /// Returns whether rows of the table are objects of this resource.
    pub(super) fn is_of(&self, resource: &ResourceKey) -> bool {
        self.kind.resource == *resource || self.is_mixed() && Workload::of(resource).is_some()
    }

    /// Returns the kind of the row under the cursor; the table's own kind if there is no row.
    pub(super) fn kind_at_cursor(&self) -> &Kind {
        self.index.at(self.cursor_row()).map_or(&self.kind, |row| self.kind_of(row))
    }

    /// Returns the kind of a row in a table of several kinds.
    pub(super) fn kind_of_mixed(&self, row: &Row) -> Option<&Kind> {
        self.kinds.get(&(row.cluster, row.workload?))
    }

    /// Looks up the kinds of its rows in each cluster.
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

    /// Returns the clusters of the rows: with their ids in a table over several clusters, else the screen's own
    /// cluster.
    fn clusters<'a>(&self, cx: &Context<'a>) -> Vec<(Option<ClusterId>, ClusterView<'a>)> {
        if let Some(over) = self.over() {
            return over.iter().filter_map(|id| Some((Some(*id), cx.clusters.get(*id)?))).collect();
        }
        let own = cx.clusters.get(cx.cluster);
        let own = own.map(|own| {
            // The past does not depend on whether the server responds now.
            let reach = if self.past.is_some() { &ConnectionState::Reached } else { own.reach };
            (None, ClusterView { stores: cx.stores, links: cx.links, reach, ..own })
        });
        own.into_iter().collect()
    }

    /// Returns the table's kinds in the screen's own cluster, without those that the server refuses: their past is
    /// refused, too.
    pub(super) fn kinds_with_history(&self, cx: &Context<'_>) -> Vec<Kind> {
        let own = cx.clusters.get(cx.cluster).into_iter();
        let kinds = own.flat_map(|own| {
            let given = move |kind: &Kind| !own.lacks(kind) && cx.links.refused(&kind.resource).is_none();
            own.kinds_of(&self.kind).into_iter().filter(given)
        });
        kinds.collect()
    }

    /// Returns whether the list of every kind with rows has arrived.
    pub(super) fn is_mixed_loaded(&self, cx: &Context<'_>) -> bool {
        self.clusters(cx).iter().all(|(_, cluster)| cluster.is_loaded(&self.kind))
    }

    fn notes(&self, cx: &Context<'_>) -> Vec<KindNote> {
        let mut notes = Vec::new();
        for (_, cluster) in self.clusters(cx).into_iter().filter(|_| self.is_mixed()) {
            // A cluster without any rows is reported as a whole.
            if cluster.freshness(&self.kind) == Freshness::CatchingUp
                && !self.loaded
                && self.index.total() == 0
            {
                continue;
            }
            for kind in cluster.kinds_of(&self.kind) {
                let fresh = cluster.freshness(&kind);
                let (words, sign) = match &fresh {
                    Freshness::Live => continue,
                    Freshness::CatchingUp => ("still loading".to_owned(), KindAvailability::CatchingUp),
                    Freshness::Silent(since) => {
                        cx.redraw_in(1);
                        (cluster.outage_label(&kind, *since, cx.now), KindAvailability::Silent)
                    }
                    Freshness::NotAllowed => ("not allowed".to_owned(), KindAvailability::NotAllowed),
                    Freshness::Absent => ("not on this server".to_owned(), KindAvailability::Absent),
                };
                let of =
                    if self.shows_context() { format!(" of {}", clean(cluster.name)) } else { String::new() };
                let text = format!("{}{of} {words}", kind.heading());
                notes.push(KindNote { text, sign, reason: cluster.unavailable_reason(&kind) });
            }
        }
        notes.extend(self.past.iter().flat_map(|past| past.gaps()).filter_map(KindNote::for_gap));
        // Problems that the user can solve come first.
        notes.order_by_key(|note| note.sign >= KindAvailability::CatchingUp);
        notes
    }

    /// Returns whether a kind has no rows, or no live updates.
    pub(super) fn lacks_some(&self, cx: &Context<'_>) -> bool {
        !self.notes(cx).is_empty()
    }

    /// Returns the kinds without rows, as text: `Jobs not allowed, CronJobs not on this server`.
    pub(super) fn lacking(&self, cx: &Context<'_>) -> String {
        let notes: Vec<String> = self.notes(cx).into_iter().map(|note| note.text).collect();
        notes.join(", ")
    }

    /// As [`Self::lacking`], in one line, with the server's message for the first kind.
    pub(super) fn line_of_notes<'a>(&self, cx: &Context<'_>, width: usize) -> Option<Line<'a>> {
        let notes = self.notes(cx);
        let first = notes.first()?;
        // All kinds are named before the first message.
        let named: Vec<String> =
            notes.iter().map(|note| format!("{} {}", note.sign.glyph(), note.text)).collect();
        let reason = first.reason.as_ref().map(|why| format!(" · {}", clean(why))).unwrap_or_default();
        let text = format!(" {}{reason}", named.join("  "));
        Some(Line::styled(fit(&text, width).into_owned(), first.sign.style(cx.theme)))
    }
}
