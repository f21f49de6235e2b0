//! The table of all workloads: rows of several kinds. A key on a row does what it does in the table of that row's kind, and
//! marked rows are done kind by kind; what a kind gives no rows for is said below the others.

use ratatui::style::Style;
use ratatui::text::Line;

use super::Table;
use crate::clusters::{ClusterView, Freshness, Reach};
use crate::context::Context;
use crate::past::{Gap, Missing};
use crate::resource::{ClusterId, Kind, ResourceKey};
use crate::rows::Row;
use crate::text::{age, clean, fit, grouped, seconds_until};
use crate::theme::Theme;
use crate::workloads::{self, Workload};

/// A kind that gives no rows now, or none that go on.
#[derive(Debug)]
struct Note {
    /// `Jobs not allowed`, of which cluster where there are several.
    words: String,
    sign: Sign,
    /// What the server or the way to it has said.
    why: Option<String>,
}

/// How a kind is that gives no rows, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    /// It should give some, and does not.
    Silent,
    /// There are more than are told.
    Cut,
    /// It is not for whoever asks.
    NotAllowed,
    /// It is on its way.
    CatchingUp,
    /// The server has no such kind.
    Absent,
}

impl Sign {
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

impl Note {
    /// Of a kind of whose past something is not known.
    fn of_then(gap: &Gap) -> Option<Self> {
        let of = gap.kind.heading();
        let (words, sign, why) = match &gap.missing {
            // That is told as what is refused now.
            Missing::Refused(_) => return None,
            Missing::NotKept => (format!("{of} not kept so far back"), Sign::Silent, None),
            Missing::Unanswered(why) => (format!("{of} of then not known"), Sign::Silent, Some(why.clone())),
            Missing::Cut(cut) => (format!("{} more {of}", grouped(*cut as u64)), Sign::Cut, None),
        };
        Some(Self { words, sign, why })
    }
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
        let own = own.map(|own| {
            // What was there then does not change with what answers now.
            let reach = if self.past.is_some() { &Reach::Reached } else { own.reach };
            (None, ClusterView { stores: cx.stores, links: cx.links, reach, ..own })
        });
        own.into_iter().collect()
    }

    /// Its kinds as its own cluster has them, but for those that are refused: of their past nothing is told either.
    pub(super) fn kinds_that_tell(&self, cx: &Context<'_>) -> Vec<Kind> {
        let own = cx.clusters.get(cx.cluster).into_iter();
        let kinds = own.flat_map(|own| {
            let given = move |kind: &Kind| !own.lacks(kind) && cx.links.refused(&kind.resource).is_none();
            own.kinds_of(&self.kind).into_iter().filter(given)
        });
        kinds.collect()
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
                let (words, sign) = match &fresh {
                    Freshness::Live => continue,
                    Freshness::CatchingUp => ("still loading".to_owned(), Sign::CatchingUp),
                    Freshness::Silent(since) => {
                        let second = jiff::Timestamp::from_second(cx.now.as_second() + 1);
                        cx.redraw_at(second.unwrap_or(cx.now));
                        (format!("no answer {}", age(seconds_until(*since, cx.now))), Sign::Silent)
                    }
                    Freshness::NotAllowed => ("not allowed".to_owned(), Sign::NotAllowed),
                    Freshness::Absent => ("not on this server".to_owned(), Sign::Absent),
                };
                let of =
                    if self.says_context() { format!(" of {}", clean(cluster.name)) } else { String::new() };
                let words = format!("{}{of} {words}", kind.heading());
                notes.push(Note { words, sign, why: cluster.why(&kind) });
            }
        }
        notes.extend(self.past.iter().flat_map(|past| past.gaps()).filter_map(Note::of_then));
        // What somebody can do something about comes first.
        notes.sort_by_key(|note| note.sign >= Sign::CatchingUp);
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
            notes.iter().map(|note| format!("{} {}", note.sign.glyph(), note.words)).collect();
        let why = first.why.as_ref().map(|why| format!(" · {}", clean(why))).unwrap_or_default();
        let text = format!(" {}{why}", named.join("  "));
        Some(Line::styled(fit(&text, room).into_owned(), first.sign.style(cx.theme)))
    }
}
