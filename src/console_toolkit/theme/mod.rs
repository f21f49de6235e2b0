//! Colours and styles of each part of the screen, read from TOML (CON-13).
//!
//! Colour shows state, never decoration, and never alone: every state also has a sign and a word, and the cursor is
//! reversed or bold, so that everything works with `NO_COLOR` (see [`depth`]).

pub mod background;
mod builtin;
mod css_colors;
pub mod depth;
pub mod library;
mod parse;
mod skin;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Padding};

pub use parse::{ThemeError, style_of};

/// Marks values that change all the time. Only the theme of linear mode uses it; user themes cannot.
pub const RESTLESS: Modifier = Modifier::SLOW_BLINK;

use super::difference::LineChange;
use super::health::Health;
use depth::Depth;

macro_rules! theme {
    ($( $(#[$meta:meta])* $section:ident $type:ident { $( $(#[$key_meta:meta])* $key:ident ),* $(,)? } )*) => {
        $( $(#[$meta])* #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $type { $( $(#[$key_meta])* pub $key: Style, )* } )*

        /// A theme: one style for each part of the screen.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Theme {
            /// The name: that of the file without `.toml`.
            pub name: String,
            /// True for views of the past: their frames are doubled, which is visible without colours, too.
            pub(crate) past: bool,
            /// True for linear mode, which is read aloud: signs become words, and columns are stacked.
            pub spoken: bool,
            $( $(#[$meta])* pub $section: $type, )*
        }

        /// All sections with their keys.
        pub(super) const KEYS: &[(&str, &[&str])] = &[ $( (stringify!($section), &[ $( stringify!($key) ),* ]) ),* ];

        impl Theme {
            /// Returns the style of a key in a section.
            pub(super) fn style_mut(&mut self, section: &str, key: &str) -> Option<&mut Style> {
                match (section, key) {
                    $( $( (stringify!($section), stringify!($key)) => Some(&mut self.$section.$key), )* )*
                    _ => None,
                }
            }
        }
    };
}

theme! {
    /// Plain text.
    body Body {
        /// Text on the main background.
        text,
        /// Less important text.
        dim,
        /// The accent colour.
        accent,
    }
    /// The header line.
    header Header {
        /// The line itself.
        bar,
        /// The program and the cluster.
        title,
        /// Numbers.
        value,
    }
    /// The `:` and `/` line.
    prompt Prompt {
        /// The typed text.
        text,
        /// A suggested completion.
        suggestion,
        /// An error in the input.
        error,
    }
    /// The help and the footer.
    help Help {
        /// A key.
        key,
        /// The description of a key.
        text,
    }
    /// Dialogs.
    dialog DialogStyles {
        /// Text and background.
        text,
        /// A button or field.
        button,
        /// The button or field with the focus.
        focus,
        /// A warning of a risk.
        warning,
    }
    /// Frames.
    frame FrameStyles {
        /// The border.
        border,
        /// The border of the part with the focus.
        focus,
        /// The title in the border.
        title,
    }
    /// Object states.
    status StatusStyles {
        /// Created a moment ago.
        new,
        /// Changed a moment ago.
        modified,
        /// Pending.
        pending,
        /// Running.
        running,
        /// Finished successfully.
        succeeded,
        /// Failed.
        failed,
        /// Crashing repeatedly.
        crashing,
        /// Being deleted.
        terminating,
        /// Unknown.
        unknown,
    }
    /// Tables.
    table TableStyles {
        /// Column names.
        header,
        /// The row with the cursor.
        cursor,
        /// A marked row.
        mark,
        /// A cell that just changed.
        flash,
    }
    /// Bars.
    chart Chart {
        /// The full part.
        full,
        /// The empty part.
        empty,
        /// A second quantity, such as the old replica set beside the new one.
        second,
    }
    /// YAML.
    yaml YamlStyles {
        /// Keys.
        key,
        /// Strings.
        text,
        /// Numbers.
        number,
        /// true, false, null.
        literal,
        /// Comments and punctuation.
        comment,
    }
    /// Logs.
    log LogStyles {
        /// Lines.
        text,
        /// Timestamps.
        timestamp,
        /// The container of a line.
        source,
        /// Matches of a search.
        found,
        /// Warnings.
        warning,
        /// Errors.
        error,
    }
    /// Diffs.
    diff DiffStyles {
        /// Added lines.
        added,
        /// Removed lines.
        removed,
    }
    /// Terminal panes.
    terminal TerminalStyles {
        /// The frame while keys go to the process.
        frame,
        /// The hint for leaving.
        hint,
    }
    /// Toasts.
    toast ToastStyles {
        /// Success.
        done,
        /// A note.
        note,
        /// A failure.
        failed,
    }
}

/// Returns the minimum contrast of a key with its background. Less important parts may have less; borders and empty
/// bars carry no information and have none.
fn least_contrast(section: &str, key: &str) -> Option<f64> {
    match (section, key) {
        ("frame", "border" | "focus") | ("chart", _) | ("terminal", "frame") => None,
        ("body", "dim")
        | ("prompt", "suggestion")
        | ("help", "text")
        | ("terminal", "hint")
        | ("yaml", "comment")
        | ("log", "timestamp")
        | ("table", "header") => Some(3.0),
        _ => Some(4.5),
    }
}

impl Theme {
    /// Parses a theme. `file` is only used in error messages.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ThemeError> {
        parse::parse(name, file, text)
    }

    /// Parses a skin of k9s. `file` is only used in error messages.
    pub fn parse_skin(name: &str, file: &str, text: &str) -> Result<Self, ThemeError> {
        skin::parse(name, file, text)
    }

    /// Creates the theme of linear mode: it only marks the cursor's line.
    pub fn linear() -> Self {
        let mut theme = Self { name: "linear".into(), spoken: true, ..Self::default() };
        theme.table.cursor = Style::new().add_modifier(Modifier::REVERSED);
        theme
    }

    /// Returns a sign as it is drawn, or the word read aloud instead; the word is empty if the text beside the sign
    /// says the same.
    pub fn sign(&self, glyph: &'static str, text: &'static str) -> &'static str {
        if self.spoken { text } else { glyph }
    }

    /// Returns the sign of a state beside its word.
    pub fn state_sign(&self, health: Health) -> &'static str {
        self.sign(health.glyph(), "")
    }

    /// Returns the sign before a count of pods.
    pub fn pods_sign(&self, health: Health) -> &'static str {
        self.sign(health.glyph(), health.label())
    }

    /// Returns the style of a value that changes all the time: linear mode reads it with its line, and does not
    /// announce its changes.
    pub fn restless(&self, style: Style) -> Style {
        if self.spoken { style.add_modifier(RESTLESS) } else { style }
    }

    /// Returns the theme without the highlight of changed cells.
    #[must_use]
    pub fn without_flashes(mut self) -> Self {
        self.table.flash = Style::default();
        self
    }

    /// Returns the theme in the terminal's colours.
    #[must_use]
    pub fn in_depth(mut self, depth: Depth) -> Self {
        let ground = self.body.text.bg.unwrap_or_default();
        for (section, keys) in KEYS {
            for key in *keys {
                if let Some(style) = self.style_mut(section, key) {
                    *style = depth.adapt(*style);
                }
            }
        }
        if depth == Depth::Sixteen {
            self.reduce_to_16_colors(depth::plain_ground(ground));
        }
        if depth == Depth::None {
            // Without colours, these parts differ only by attributes.
            self.table.cursor = self.table.cursor.add_modifier(Modifier::REVERSED);
            self.dialog.focus = self.dialog.focus.add_modifier(Modifier::REVERSED);
            self.table.mark = self.table.mark.add_modifier(Modifier::BOLD);
            self.table.flash = self.table.flash.add_modifier(Modifier::BOLD);
            self.log.found = self.log.found.add_modifier(Modifier::REVERSED);
            self.prompt.suggestion = self.prompt.suggestion.add_modifier(Modifier::DIM);
        }
        self
    }

    /// Sixteen colours have no shades: slightly raised backgrounds become the main background, the cursor is reversed,
    /// and unreadable colours are replaced by readable ones.
    fn reduce_to_16_colors(&mut self, ground: ratatui::style::Color) {
        use ratatui::style::Color;
        let gray =
            |color: Color| matches!(color, Color::Black | Color::DarkGray | Color::Gray | Color::White);
        for (section, keys) in KEYS {
            for key in *keys {
                let Some(style) = self.style_mut(section, key) else { continue };
                if style.bg.is_some_and(gray) {
                    style.bg = Some(ground);
                }
                let behind = style.bg.unwrap_or(ground);
                let least = least_contrast(section, key).unwrap_or(3.0).min(depth::READABLE_OF_16);
                style.fg = style.fg.map(|fg| depth::readable_of_16(fg, behind, least));
            }
        }
        // No coloured background keeps all states readable; reversed, each is as clear as on the main background.
        let cursor = Style { fg: self.body.text.fg, bg: self.body.text.bg, ..self.table.cursor };
        self.table.cursor = cursor.add_modifier(Modifier::REVERSED);
    }

    /// Returns the style of a line in a diff.
    pub fn of_difference(&self, sign: LineChange) -> Style {
        match sign {
            LineChange::Same | LineChange::Gap => self.body.dim,
            LineChange::Removed => self.diff.removed,
            LineChange::Added => self.diff.added,
        }
    }

    /// Returns the colour of a cluster's name, the same in every session; production clusters stand out.
    pub fn of_cluster(&self, name: &str) -> Style {
        if name.to_lowercase().contains("prod") {
            return self.status.failed.add_modifier(Modifier::BOLD);
        }
        let styles = [self.body.accent, self.yaml.text, self.yaml.number, self.yaml.key, self.yaml.literal];
        Self::pick(name, styles).add_modifier(Modifier::BOLD)
    }

    /// Picks a style by a name: the same one in every session, and usually different ones for different names.
    pub fn pick(name: &str, styles: [Style; 5]) -> Style {
        // FNV-1a gives the same value on every machine.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        styles[(hash % styles.len() as u64) as usize]
    }

    /// Returns the theme for views of the past: frames of another colour, and doubled.
    #[must_use]
    pub fn with_past_frame(mut self) -> Self {
        self.past = true;
        self.frame.border = self.status.pending;
        self.frame.focus = self.status.pending;
        self
    }

    /// Returns the theme for a pane without the focus: no frame looks focused.
    #[must_use]
    pub fn without_focus(mut self) -> Self {
        // All frames of the past have the same colour, so a frame without the focus is dimmed.
        if self.past {
            self.frame.border = self.frame.border.add_modifier(Modifier::DIM);
        }
        self.frame.focus = self.frame.border;
        self
    }

    /// Returns the style of a line under the cursor. A reversed cursor would also reverse the colours of each part,
    /// which gives a patchwork of backgrounds: with such a cursor the whole line has the cursor's colours, and states
    /// are visible by their signs.
    #[must_use]
    pub fn chosen<'a>(&self, mut line: Line<'a>) -> Line<'a> {
        if self.table.cursor.add_modifier.contains(Modifier::REVERSED) {
            for span in &mut line.spans {
                (span.style.fg, span.style.bg) = (None, None);
            }
        }
        line.style(self.table.cursor)
    }

    /// Returns the style of a health.
    pub fn health(&self, health: Health) -> Style {
        match health {
            Health::Running => self.status.running,
            Health::Pending => self.status.pending,
            Health::Succeeded => self.status.succeeded,
            Health::Crashing => self.status.crashing,
            Health::Failed => self.status.failed,
            Health::Terminating => self.status.terminating,
            Health::Unknown => self.status.unknown,
        }
    }

    /// Returns a rounded frame with a title, in the style of frames.
    pub fn block<'a>(&self, title: impl Into<String>) -> Block<'a> {
        let title = title.into();
        let block = Block::new()
            .borders(Borders::ALL)
            .border_type(if self.past { BorderType::Double } else { BorderType::Rounded })
            .border_style(self.frame.border)
            .padding(Padding::horizontal(1));
        if title.is_empty() {
            block
        } else {
            block.title(Span::styled(format!(" {title} "), self.frame.title))
        }
    }

    /// Returns a rounded frame with a title, in the style of the part with the focus.
    pub fn block_focused<'a>(&self, title: impl Into<String>) -> Block<'a> {
        self.block(title).border_style(self.frame.focus)
    }
}
