//! Colours: what each part of the screen looks like, read from TOML (CON-13).
//!
//! Colour carries state, never decoration, and never alone: every phase also has a glyph and a word,
//! and the cursor is reversed or bold, so that all of it survives `NO_COLOR` (see [`depth`]).

mod css_colors;
pub mod depth;
pub(crate) mod ground;
pub(crate) mod library;
mod parse;
mod shipped;
mod skin;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Padding};

pub(crate) use parse::{ThemeError, style_of};

/// Marks values that change all the time, in the theme of what is read aloud alone; no theme of a user has it.
pub(crate) const RESTLESS: Modifier = Modifier::SLOW_BLINK;

use super::changes::lines::Sign;
use super::health::Health;
use depth::Depth;

macro_rules! theme {
    ($( $(#[$meta:meta])* $section:ident $type:ident { $( $(#[$key_meta:meta])* $key:ident ),* $(,)? } )*) => {
        $( $(#[$meta])* #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $type { $( $(#[$key_meta])* pub $key: Style, )* } )*

        /// A theme: one style a part of the screen.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Theme {
            /// Its name: the file's without `.toml`.
            pub name: String,
            /// Whether what is drawn with it is over: its frames are doubled, which is seen without colour too.
            pub(crate) past: bool,
            /// Whether what is drawn with it is read aloud: signs are words there, and columns stand below one another.
            pub(crate) spoken: bool,
            $( $(#[$meta])* pub $section: $type, )*
        }

        /// Every section with its keys.
        pub(super) const KEYS: &[(&str, &[&str])] = &[ $( (stringify!($section), &[ $( stringify!($key) ),* ]) ),* ];

        impl Theme {
            /// The style of a section's key.
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
        /// Text on the background of everything.
        text,
        /// Text that matters less.
        dim,
        /// The one accent.
        accent,
    }
    /// The line at the top.
    header Header {
        /// The line.
        bar,
        /// The program and the cluster.
        title,
        /// Numbers.
        value,
    }
    /// The `:` and `/` line.
    prompt Prompt {
        /// What is typed.
        text,
        /// What could be typed.
        suggestion,
        /// What is wrong with it.
        error,
    }
    /// Help and footer.
    help Help {
        /// A key.
        key,
        /// What it does.
        text,
    }
    /// Dialogs.
    dialog DialogStyles {
        /// Text and ground.
        text,
        /// A button or field.
        button,
        /// The button or field with the focus.
        focus,
        /// What is risky.
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
    /// States of things.
    status StatusStyles {
        /// Just appeared.
        new,
        /// Just changed.
        modified,
        /// On its way.
        pending,
        /// Runs.
        running,
        /// Ended well.
        succeeded,
        /// Ended badly.
        failed,
        /// Comes and goes.
        crashing,
        /// Is being deleted.
        terminating,
        /// Nobody knows.
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
        /// A second quantity: the old replica set beside the new one.
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
        /// Which container a line is from.
        source,
        /// What a search found.
        found,
        /// Warnings.
        warning,
        /// Errors.
        error,
    }
    /// Differences.
    diff DiffStyles {
        /// Lines that come.
        added,
        /// Lines that go.
        removed,
    }
    /// Terminal panes.
    terminal TerminalStyles {
        /// The frame while keys go to the process.
        frame,
        /// The hint how to leave.
        hint,
    }
    /// Toasts.
    toast ToastStyles {
        /// It worked.
        done,
        /// Worth knowing.
        note,
        /// It did not work.
        failed,
    }
}

impl Theme {
    /// Reads a theme. `file` is only named in errors.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ThemeError> {
        parse::parse(name, file, text)
    }

    /// Reads a skin of k9s. `file` is only named in errors.
    pub fn parse_skin(name: &str, file: &str, text: &str) -> Result<Self, ThemeError> {
        skin::parse(name, file, text)
    }

    /// The theme of what is read and not seen: it tells the cursor's line alone.
    pub(crate) fn linear() -> Self {
        let mut theme = Self { name: "linear".into(), spoken: true, ..Self::default() };
        theme.table.cursor = Style::new().add_modifier(Modifier::REVERSED);
        theme
    }

    /// Returns a sign as it is drawn, or the word that is read in its place; where the words beside it say the same, none.
    pub(crate) fn sign(&self, drawn: &'static str, word: &'static str) -> &'static str {
        if self.spoken { word } else { drawn }
    }

    /// The sign of a state that stands beside its word.
    pub(crate) fn state_sign(&self, health: Health) -> &'static str {
        self.sign(health.glyph(), "")
    }

    /// The sign of pods that are counted.
    pub(crate) fn pods_sign(&self, health: Health) -> &'static str {
        self.sign(health.glyph(), health.word())
    }

    /// The style of a value that changes all the time: it is read with its line, and its changes are not announced.
    pub(crate) fn restless(&self, style: Style) -> Style {
        if self.spoken { style.add_modifier(RESTLESS) } else { style }
    }

    /// The same theme, in which nothing that changed is told from what stays.
    #[must_use]
    pub(crate) fn without_flashes(mut self) -> Self {
        self.table.flash = Style::default();
        self
    }

    /// The same theme in the colours the terminal has.
    #[must_use]
    pub(crate) fn in_depth(mut self, depth: Depth) -> Self {
        let ground = self.body.text.bg.unwrap_or_default();
        for (section, keys) in KEYS {
            for key in *keys {
                if let Some(style) = self.style_mut(section, key) {
                    *style = depth.adapt(*style);
                }
            }
        }
        if depth == Depth::Sixteen {
            self.settle_on_sixteen(depth::plain_ground(ground));
        }
        if depth == Depth::None {
            // Without colour these differ by attribute alone.
            self.table.cursor = self.table.cursor.add_modifier(Modifier::REVERSED);
            self.dialog.focus = self.dialog.focus.add_modifier(Modifier::REVERSED);
            self.table.mark = self.table.mark.add_modifier(Modifier::BOLD);
            self.table.flash = self.table.flash.add_modifier(Modifier::BOLD);
            self.log.found = self.log.found.add_modifier(Modifier::REVERSED);
        }
        self
    }

    /// Sixteen colours have no shades: grounds that were raised a little become the ground itself, the cursor
    /// is turned around, and what could not be read is made readable.
    fn settle_on_sixteen(&mut self, ground: ratatui::style::Color) {
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
                style.fg = style.fg.map(|fg| depth::readable_of_16(fg, behind));
            }
        }
        // No coloured ground lets all states be read; turned around, each is as clear as on the ground.
        let cursor = Style { fg: self.body.text.fg, bg: self.body.text.bg, ..self.table.cursor };
        self.table.cursor = cursor.add_modifier(Modifier::REVERSED);
    }

    /// How a line of a difference looks.
    pub(crate) fn of_difference(&self, sign: Sign) -> Style {
        match sign {
            Sign::Same | Sign::Gap => self.body.dim,
            Sign::Removed => self.diff.removed,
            Sign::Added => self.diff.added,
        }
    }

    /// The colour of a cluster's name, the same in every run: what is for production looks like it.
    pub(crate) fn of_cluster(&self, name: &str) -> Style {
        if name.to_lowercase().contains("prod") {
            return self.status.failed.add_modifier(Modifier::BOLD);
        }
        let styles = [self.body.accent, self.yaml.text, self.yaml.number, self.yaml.key, self.yaml.literal];
        // FNV-1a: the same on every machine.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        styles[(hash % styles.len() as u64) as usize].add_modifier(Modifier::BOLD)
    }

    /// The same theme for what is over: frames of another colour, and doubled.
    #[must_use]
    pub(crate) fn of_the_past(mut self) -> Self {
        self.past = true;
        self.frame.border = self.status.pending;
        self.frame.focus = self.status.pending;
        self
    }

    /// The same theme for a pane without the focus: none of its frames looks focused.
    #[must_use]
    pub(crate) fn without_focus(mut self) -> Self {
        // All frames of the past have one colour.
        if self.past {
            self.frame.border = self.frame.border.add_modifier(Modifier::DIM);
        }
        self.frame.focus = self.frame.border;
        self
    }

    /// A line under the cursor. A cursor that turns the colours around would turn each part's own around as well, which
    /// makes a patchwork of grounds: there all of it has the cursor's, and states are told by their glyphs.
    #[must_use]
    pub(crate) fn chosen<'a>(&self, mut line: Line<'a>) -> Line<'a> {
        if self.table.cursor.add_modifier.contains(Modifier::REVERSED) {
            for span in &mut line.spans {
                (span.style.fg, span.style.bg) = (None, None);
            }
        }
        line.style(self.table.cursor)
    }

    /// The style of a health.
    pub(crate) fn health(&self, health: Health) -> Style {
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

    /// A rounded frame with a title, in the style of frames.
    pub(crate) fn block<'a>(&self, title: impl Into<String>) -> Block<'a> {
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

    /// A frame of the part that has the focus.
    pub(crate) fn block_focused<'a>(&self, title: impl Into<String>) -> Block<'a> {
        self.block(title).border_style(self.frame.focus)
    }
}
