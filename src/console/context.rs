//! What a screen may read: everything shared, nothing mutable, and the one clock reading of this turn.

use std::cell::{Cell, RefCell};

use jiff::{SignedDuration, Timestamp};
use ratatui::layout::Rect;

use super::catalogue::Catalogue;
use super::command::Bindings;
use super::extensions::Extensions;
use super::journal::Journal;
use super::links::Links;
use super::scope::Scope;
use super::store::Stores;
use super::text;
use super::theme::Theme;

/// Names one screen for as long as it lives; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScreenId(pub u64);

/// The view of the world of one update or one draw.
#[derive(Debug)]
pub struct Context<'a> {
    /// The live copy of the cluster.
    pub stores: &'a Stores,
    /// Colours and glyphs.
    pub(crate) theme: &'a Theme,
    /// The kinds the server has.
    pub(crate) catalogue: &'a Catalogue,
    /// The keys in force.
    pub(crate) bindings: &'a Bindings,
    /// What the user brings.
    pub(crate) extensions: &'a Extensions,
    /// How fresh that copy is.
    pub(crate) links: &'a Links,
    /// What was changed from here.
    pub(crate) journal: &'a Journal,
    /// Which namespaces are shown.
    pub(crate) scope: &'a Scope,
    /// The namespaces of the keys 1 to 9.
    pub(crate) favourites: &'a [String],
    /// Whether changes of the cluster are refused.
    pub(crate) read_only: bool,
    /// Whether what is drawn has the focus: the other pane of a tab has not.
    pub(crate) focused: bool,
    /// Now; the same for the whole update or draw.
    pub(crate) now: Timestamp,
    /// Places that lead somewhere, with their URLs; collected while drawing.
    pub(super) anchors: &'a RefCell<Vec<(Rect, String)>>,
    /// When what is drawn now stops being true; collected while drawing.
    pub(super) wake: &'a Cell<Option<Timestamp>>,
}

impl Context<'_> {
    /// The age of something as kubectl prints it; asks to be drawn again when the text changes.
    pub(crate) fn age(&self, since: Timestamp) -> String {
        let (text, next) = text::age_and_next(text::seconds_between(since, self.now));
        // The text changes on the second of `since`, not of `now`.
        let elapsed = text::seconds_between(since, self.now);
        let at = since.saturating_add(SignedDuration::from_secs(elapsed.max(0) + next));
        self.redraw_at(at.unwrap_or(Timestamp::MAX));
        text
    }

    /// Says that a place leads to a URL.
    pub(crate) fn leads_to(&self, place: Rect, url: String) {
        self.anchors.borrow_mut().push((place, url));
    }

    /// The time left until something, in words; asks to be drawn again when the text changes.
    pub(crate) fn left(&self, until: Timestamp) -> String {
        let seconds = text::seconds_until(self.now, until);
        if seconds > 0 {
            self.redraw_at(Timestamp::from_second(self.now.as_second() + 1).unwrap_or(until));
        }
        text::age(seconds)
    }

    /// Asks to be drawn again at a moment: the end of a flash, the next frame of a countdown.
    pub(crate) fn redraw_at(&self, at: Timestamp) {
        let floor = self.now.saturating_add(SignedDuration::from_millis(100)).unwrap_or(at);
        let at = at.max(floor);
        if self.wake.get().is_none_or(|wake| at < wake) {
            self.wake.set(Some(at));
        }
    }
}
