//! Converts a skin of k9s to a theme (CON-16): each part takes the colour of the same or the most similar part in k9s.
//!
//! A skin may define only a few colours; the others are derived from the defined ones. Unknown keys are ignored,
//! because k9s adds keys with each version; an invalid colour is an error with its line.

use manifest::ConfigText;
use ratatui::style::{Color, Modifier, Style};
use serde_json::Value;

use super::css_colors;
use super::depth::{contrast, rgb};
use super::{Theme, ThemeError};
use crate::health::Health;

/// Minimum contrast of a state under the cursor; below it the cursor's line has a single colour.
const READABLE: f64 = 3.0;

/// The sections of a skin with colours.
const SECTIONS: [&str; 7] = ["body", "prompt", "help", "frame", "info", "views", "dialog"];

struct Skin<'a> {
    file: &'a str,
    text: ConfigText,
    colors: Value,
}

/// Parses a skin. `file` is only used in error messages.
pub(super) fn parse(name: &str, file: &str, text: &str) -> Result<Theme, ThemeError> {
    let whole = |error: manifest::ManifestError| ThemeError {
        file: file.to_owned(),
        line: error.position.map_or(1, |position| position.line),
        what: match &error.field {
            Some(field) => format!("{field}: {}", error.message),
            None => error.message.clone(),
        },
    };
    let text = ConfigText::parse(text, file).map_err(whole)?;
    let root: Value = text.decode().map_err(whole)?.unwrap_or_default();
    let Some(colors) = root.get("k9s").filter(|colors| colors.is_object()).cloned() else {
        return Err(whole(text.fault("k9s", "a k9s skin must have its colours below k9s")));
    };
    let skin = Skin { file, text, colors };
    for section in SECTIONS {
        if let Some(value) = skin.colors.get(section) {
            skin.check(value, &format!("k9s.{section}"))?;
        }
    }
    Ok(skin.theme(name))
}

impl Skin<'_> {
    /// Validates all colours.
    fn check(&self, value: &Value, field: &str) -> Result<(), ThemeError> {
        let wrong = |message: String| {
            let error = self.text.fault(field, message);
            let line = error.position.map_or(1, |position| position.line);
            Err(ThemeError { file: self.file.to_owned(), line, what: format!("{field}: {}", error.message) })
        };
        let key = field.rsplit('.').next().unwrap_or_default();
        let is_color = key.ends_with("Color") || key.ends_with("ColorMsg");
        match value {
            Value::Object(fields) => {
                fields.iter().try_for_each(|(key, value)| self.check(value, &format!("{field}.{key}")))
            }
            Value::String(text) if is_color && color(text).is_none() => {
                wrong(format!("unknown colour {text:?}; use a CSS name, #rrggbb or default"))
            }
            Value::Array(_) | Value::Number(_) | Value::Bool(_) if is_color => {
                wrong("must be a colour: a CSS name, #rrggbb or default".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the first of these paths (below `k9s`) that the skin defines.
    fn first(&self, paths: &[&str]) -> Option<Color> {
        paths.iter().find_map(|path| {
            let mut value = &self.colors;
            for key in path.split('.') {
                value = match key.parse::<usize>() {
                    Ok(index) => value.get(index)?,
                    Err(_) => value.get(key)?,
                };
            }
            color(value.as_str()?)
        })
    }

    fn theme(&self, name: &str) -> Theme {
        let front = self.first(&["body.fgColor", "views.table.fgColor"]).unwrap_or(Color::Reset);
        let ground = self.first(&["body.bgColor", "views.table.bgColor"]).unwrap_or(Color::Reset);
        let fg = |paths: &[&str]| Style::new().fg(self.first(paths).unwrap_or(front));
        let on = |style: Style, paths: &[&str]| style.bg(self.first(paths).unwrap_or(ground));
        let bold = Modifier::BOLD;
        let text = Style::new().fg(front).bg(ground);
        let dim = Style::new().fg(between(front, ground).unwrap_or(front));
        let accent = fg(&["body.logoColor", "frame.title.highlightColor", "prompt.suggestColor"]);
        let good = fg(&["frame.status.addColor", "frame.status.newColor"]);
        let bad = fg(&["frame.status.errorColor", "body.logoColorError"]);
        let wait =
            fg(&["frame.status.pendingColor", "frame.status.highlightColor", "frame.status.modifyColor"]);
        let calm = fg(&["frame.status.newColor", "frame.status.modifyColor"]);
        let highlight = fg(&["frame.status.highlightColor", "frame.title.highlightColor"]);
        let over = fg(&["frame.status.completedColor", "frame.status.killColor"]);

        let mut theme = Theme { name: name.to_owned(), ..Theme::default() };
        (theme.body.text, theme.body.dim, theme.body.accent) = (text, dim, accent);
        (theme.header.bar, theme.header.title) = (text, accent.add_modifier(bold));
        theme.header.value = fg(&["info.sectionColor", "info.fgColor"]).add_modifier(bold);
        theme.prompt.text = fg(&["prompt.fgColor"]).add_modifier(bold);
        theme.prompt.suggestion = fg(&["prompt.suggestColor"]);
        theme.prompt.error = bad;
        theme.help.key = fg(&["frame.menu.keyColor", "help.keyColor"]);
        theme.help.text = fg(&["frame.menu.fgColor", "help.fgColor"]);
        theme.dialog.text = on(fg(&["dialog.fgColor"]), &["dialog.bgColor"]);
        theme.dialog.button = on(fg(&["dialog.buttonFgColor"]), &["dialog.buttonBgColor"]);
        theme.dialog.focus = match self.first(&["dialog.buttonFocusBgColor"]) {
            Some(behind) => fg(&["dialog.buttonFocusFgColor"]).bg(behind).add_modifier(bold),
            None => theme.dialog.text.add_modifier(bold | Modifier::REVERSED),
        };
        theme.dialog.warning = fg(&["frame.status.highlightColor", "dialog.labelFgColor"]);
        theme.frame.border = fg(&["frame.border.fgColor"]);
        theme.frame.focus = fg(&["frame.border.focusColor", "frame.title.highlightColor"]);
        theme.frame.title = fg(&["frame.title.fgColor"]).add_modifier(bold);
        theme.status.new = calm;
        theme.status.modified = fg(&["frame.status.modifyColor", "frame.status.newColor"]);
        theme.status.pending = wait;
        theme.status.running = good;
        theme.status.succeeded = over;
        theme.status.failed = bad;
        theme.status.crashing = bad;
        theme.status.terminating = fg(&["frame.status.killColor", "frame.status.completedColor"]);
        theme.status.unknown = highlight;
        theme.table.header =
            on(fg(&["views.table.header.fgColor"]), &["views.table.header.bgColor"]).add_modifier(bold);
        theme.table.mark = fg(&["views.table.markColor", "frame.status.highlightColor"]).add_modifier(bold);
        theme.table.flash = theme.status.modified.add_modifier(bold);
        theme.chart.full =
            fg(&["views.charts.defaultChartColors.0", "views.xray.graphicColor", "body.logoColor"]);
        theme.chart.second = fg(&["views.charts.defaultChartColors.1", "frame.status.completedColor"]);
        theme.chart.empty = theme.frame.border;
        theme.yaml.key = fg(&["views.yaml.keyColor"]);
        theme.yaml.text = fg(&["views.yaml.valueColor"]);
        (theme.yaml.number, theme.yaml.literal) = (theme.yaml.text, theme.yaml.text);
        theme.yaml.comment = fg(&["views.yaml.colonColor"]);
        theme.log.text = fg(&["views.logs.fgColor"]);
        theme.log.timestamp = dim;
        theme.log.source = accent;
        theme.log.found = Style::new().add_modifier(Modifier::REVERSED).patch(highlight);
        (theme.log.warning, theme.log.error) = (wait, bad);
        (theme.diff.added, theme.diff.removed) = (good, bad);
        (theme.terminal.frame, theme.terminal.hint) = (theme.frame.focus, dim);
        (theme.toast.done, theme.toast.note, theme.toast.failed) = (good, calm, bad);
        theme.table.cursor = self.cursor(&theme, front, ground);
        theme
    }

    /// Returns the style of the cursor's row. States keep their colours there, unless they are unreadable on its
    /// background.
    fn cursor(&self, theme: &Theme, front: Color, ground: Color) -> Style {
        let behind = self.first(&["views.table.cursorBgColor"]);
        let Some(behind) = behind else {
            return Style::new().fg(front).bg(ground).add_modifier(Modifier::REVERSED | Modifier::BOLD);
        };
        let before = self.first(&["views.table.cursorFgColor"]).unwrap_or(ground);
        let reads = |health: &Health| {
            let state = theme.health(*health).fg.and_then(rgb);
            state.zip(rgb(behind)).is_none_or(|(state, behind)| contrast(state, behind) >= READABLE)
        };
        if Health::ALL.iter().all(reads) {
            Style::new().fg(before).bg(behind).add_modifier(Modifier::BOLD)
        } else {
            Style::new().fg(behind).bg(before).add_modifier(Modifier::REVERSED | Modifier::BOLD)
        }
    }
}

/// Parses a colour of a skin; the terminal's default is `Color::Reset`.
fn color(text: &str) -> Option<Color> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("default") || text == "-" {
        return Some(Color::Reset);
    }
    let value = match text.strip_prefix('#') {
        Some(hex) => u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 6 && !hex.starts_with('+'))?,
        None => css_colors::named(text)?,
    };
    Some(Color::Rgb((value >> 16) as u8, (value >> 8) as u8, value as u8))
}

/// Returns a mix of two colours, closer to the first; `None` if one is the terminal's default.
fn between(near: Color, far: Color) -> Option<Color> {
    let (near, far) = rgb(near).zip(rgb(far))?;
    let mix = |near: u8, far: u8| ((u16::from(near) * 2 + u16::from(far)) / 3) as u8;
    Some(Color::Rgb(mix(near.0, far.0), mix(near.1, far.1), mix(near.2, far.2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::depth::Depth;

    const SKIN: &str = "foreground: &fg \"#f8f8f2\"
red: &red '#ff5555'
k9s:
  body:
    fgColor: *fg
    bgColor: \"#282a36\"
    logoColor: MediumPurple
  frame:
    border: {fgColor: dodgerblue, focusColor: aqua, somethingNew: 3}
    status: {newColor: cyan, addColor: \"#50fa7b\", errorColor: *red, killColor: default}
  views:
    table:
      cursorFgColor: black
      cursorBgColor: aqua
    charts:
      defaultChartColors: [orange, *red]
    xray: {showIcons: false}
  later: {fgColor: whatever}
";

    #[test]
    fn a_skin_is_a_theme_con_16() {
        let theme = parse("mine", "mine.yaml", SKIN).expect("a skin");
        assert_eq!(theme.name, "mine");
        for (style, fg) in [
            (theme.body.text, Color::Rgb(0xf8, 0xf8, 0xf2)),
            (theme.body.accent, Color::Rgb(0x93, 0x70, 0xdb)),
            (theme.frame.border, Color::Rgb(0x1e, 0x90, 0xff)),
            (theme.status.failed, Color::Rgb(0xff, 0x55, 0x55)),
            (theme.status.running, Color::Rgb(0x50, 0xfa, 0x7b)),
            (theme.status.terminating, Color::Reset),
            (theme.chart.full, Color::Rgb(0xff, 0xa5, 0x00)),
            // Undefined colours follow the text colour.
            (theme.yaml.key, Color::Rgb(0xf8, 0xf8, 0xf2)),
        ] {
            assert_eq!(style.fg, Some(fg));
        }
        assert_eq!(theme.body.text.bg, Some(Color::Rgb(0x28, 0x2a, 0x36)));
        // Green on aqua is unreadable, so that the line has a single colour.
        assert!(theme.table.cursor.add_modifier.contains(Modifier::REVERSED));
        let plain = theme.in_depth(Depth::None);
        assert!(plain.table.cursor.add_modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn a_skin_that_is_wrong_says_where_con_16() {
        for (text, error) in [
            (
                "k9s:\n  body:\n    fgColor: nocolour\n",
                "s.yaml:3: k9s.body.fgColor: unknown colour \"nocolour\"; use a CSS name, #rrggbb or default",
            ),
            (
                "k9s:\n  frame:\n    border:\n      fgColor: '#12345'\n",
                "s.yaml:4: k9s.frame.border.fgColor: unknown colour \"#12345\"",
            ),
            ("k9s:\n  body:\n    fgColor: 3\n", "s.yaml:3: k9s.body.fgColor: must be a colour"),
            ("body: {}\n", "s.yaml:1: k9s: a k9s skin must have its colours below k9s"),
            ("k9s: [\n", "s.yaml:1: unclosed bracket"),
            ("", "s.yaml:1: k9s: a k9s skin"),
        ] {
            let found = parse("s", "s.yaml", text).expect_err(text).to_string();
            assert!(found.starts_with(error), "{found}\n{error}");
        }
    }
}
