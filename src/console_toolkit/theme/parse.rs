//! Reads a theme file strictly: an unknown key is an error with its line and the nearest known key.
//!
//! A style is a string: `"#e06c75"`, `"red bold"`, `"$accent on #1c1f26 italic"`. `[palette]` defines names for
//! colours, used as `$name`. Missing keys come from the theme named by `extends`, else from the default theme.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use toml::de::{DeTable, DeValue};

use super::{KEYS, Theme, builtin};
use base::did_you_mean::nearest;

/// The error that makes a theme unusable.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{file}:{line}: {what}")]
pub struct ThemeError {
    pub(crate) file: String,
    /// The line, counted from one.
    pub(crate) line: usize,
    /// The problem and its solution.
    pub(crate) what: String,
}

struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, at: usize, message: impl Into<String>) -> ThemeError {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        ThemeError { file: self.file.to_owned(), line, what: message.into() }
    }
}

pub(super) fn parse(name: &str, file: &str, text: &str) -> Result<Theme, ThemeError> {
    let source = Source { file, text };
    let document = DeTable::parse(text).map_err(|error| {
        source.error(error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "))
    })?;
    let document = document.get_ref();
    let palette = palette(&source, document)?;

    let base = document.iter().find(|(key, _)| key.get_ref() == "extends");
    let mut theme = match base {
        Some((_, value)) => {
            let parent = value.get_ref().as_str().unwrap_or_default();
            builtin::text(parent)
                .filter(|_| parent != name)
                .ok_or_else(|| {
                    let known: Vec<&str> = builtin::names().collect();
                    source.error(
                        value.span().start,
                        format!("extends: unknown theme {parent:?}; the themes are {}", known.join(", ")),
                    )
                })
                .and_then(|text| parse(parent, parent, text))?
        }
        None if name == builtin::DEFAULT => Theme::default(),
        None => builtin::text(builtin::DEFAULT)
            .map_or_else(|| Ok(Theme::default()), |text| parse(builtin::DEFAULT, builtin::DEFAULT, text))?,
    };
    name.clone_into(&mut theme.name);

    for (section, value) in document {
        let section_name: &str = section.get_ref();
        if matches!(section_name, "palette" | "extends" | "about") {
            continue;
        }
        let Some((_, keys)) = KEYS.iter().find(|(known, _)| *known == section_name) else {
            let known = KEYS.iter().map(|(known, _)| *known).chain(["palette", "extends", "about"]);
            return Err(source.error(section.span().start, unknown("section", section_name, known)));
        };
        let Some(table) = value.get_ref().as_table() else {
            return Err(source
                .error(value.span().start, format!("{section_name} must be a section, [{section_name}]")));
        };
        for (key, value) in table {
            let key_name: &str = key.get_ref();
            if !keys.contains(&key_name) {
                let message = unknown("key", key_name, keys.iter().copied());
                return Err(source.error(key.span().start, format!("[{section_name}] {message}")));
            }
            let Some(text) = value.get_ref().as_str() else {
                return Err(source.error(
                    value.span().start,
                    format!("{key_name} must be a style in quotes, like \"#61afef bold\""),
                ));
            };
            let style = style(text, &palette).map_err(|what| {
                source.error(value.span().start, format!("{section_name}.{key_name}: {what}"))
            })?;
            if let Some(place) = theme.style_mut(section_name, key_name) {
                *place = style;
            }
        }
    }
    Ok(theme)
}

fn palette(source: &Source<'_>, document: &DeTable<'_>) -> Result<BTreeMap<String, Color>, ThemeError> {
    let mut colors = BTreeMap::new();
    let Some((_, value)) = document.iter().find(|(key, _)| key.get_ref() == "palette") else {
        return Ok(colors);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(source.error(value.span().start, "palette must be a section, [palette]"));
    };
    for (key, value) in table {
        let text = value.get_ref().as_str().unwrap_or_default();
        let color = color(text, &BTreeMap::new()).ok_or_else(|| {
            source.error(value.span().start, format!("palette.{}: unknown colour {text:?}", key.get_ref()))
        })?;
        colors.insert(key.get_ref().to_string(), color);
    }
    Ok(colors)
}

fn unknown<'a>(kind: &str, given: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(given, known) {
        Some(near) => format!("unknown {kind} {given:?}; did you mean {near:?}?"),
        None => format!("unknown {kind} {given:?}"),
    }
}

/// Parses a style without palette names: `red bold`, `#ff0000 on 17`.
pub fn style_of(text: &str) -> Result<Style, String> {
    style(text, &BTreeMap::new())
}

fn style(text: &str, palette: &BTreeMap<String, Color>) -> Result<Style, String> {
    let mut style = Style::default();
    let mut ground = false;
    for word in text.split_whitespace() {
        if word == "on" {
            ground = true;
            continue;
        }
        let modifier = match word {
            "bold" => Some(Modifier::BOLD),
            "dim" => Some(Modifier::DIM),
            "italic" => Some(Modifier::ITALIC),
            "underline" => Some(Modifier::UNDERLINED),
            "reverse" => Some(Modifier::REVERSED),
            "strike" => Some(Modifier::CROSSED_OUT),
            _ => None,
        };
        if let Some(modifier) = modifier {
            style = style.add_modifier(modifier);
        } else {
            let color = color(word, palette).ok_or_else(|| {
                format!("unknown colour or modifier {word:?}; use a name, #rrggbb, 0..255, $palette, bold, dim, italic, underline, reverse")
            })?;
            style = if ground { style.bg(color) } else { style.fg(color) };
            ground = false;
        }
    }
    Ok(style)
}

fn color(text: &str, palette: &BTreeMap<String, Color>) -> Option<Color> {
    if let Some(name) = text.strip_prefix('$') {
        return palette.get(name).copied();
    }
    if let Some(hex) = text.strip_prefix('#') {
        let value = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 6)?;
        return Some(Color::Rgb((value >> 16) as u8, (value >> 8) as u8, value as u8));
    }
    if let Ok(index) = text.parse::<u8>() {
        return Some(Color::Indexed(index));
    }
    Some(match text.to_ascii_lowercase().as_str() {
        "default" | "reset" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "gray" | "grey" => Color::Gray,
        "darkgray" | "darkgrey" => Color::DarkGray,
        "lightred" => Color::LightRed,
        "lightgreen" => Color::LightGreen,
        "lightyellow" => Color::LightYellow,
        "lightblue" => Color::LightBlue,
        "lightmagenta" => Color::LightMagenta,
        "lightcyan" => Color::LightCyan,
        "white" => Color::White,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_file_line_and_nearest_key_con_13() {
        for (text, error) in [
            (
                "\n[frame]\nbordr = \"red\"\n",
                "my.toml:3: [frame] unknown key \"bordr\"; did you mean \"border\"?",
            ),
            ("[fraem]\n", "my.toml:1: unknown section \"fraem\"; did you mean \"frame\"?"),
            ("[frame]\nborder = 3\n", "my.toml:2: border must be a style in quotes, like \"#61afef bold\""),
            ("extends = \"drak\"\n", "extends: unknown theme \"drak\""),
            (
                "[frame]\nborder = \"$nope\"\n",
                "my.toml:2: frame.border: unknown colour or modifier \"$nope\"",
            ),
            ("[frame\n", "my.toml:1: "),
        ] {
            let found = Theme::parse("my", "my.toml", text).expect_err(text).to_string();
            assert!(found.contains(error), "{found}\n{error}");
        }
    }

    #[test]
    fn styles_read_as_words_con_13() {
        let theme = Theme::parse(
            "my",
            "my.toml",
            "[palette]\nred = \"#ff0000\"\n[table]\ncursor = \"$red on 17 bold\"\n",
        )
        .expect("a theme");
        let expected =
            Style::new().fg(Color::Rgb(255, 0, 0)).bg(Color::Indexed(17)).add_modifier(Modifier::BOLD);
        assert_eq!(theme.table.cursor, expected);
        assert_ne!(theme.frame.border, Style::default(), "the rest comes from the default theme");
    }
}
