//! The colour depth of the terminal, conversion of colours to it, and the contrast of colours.

use ratatui::style::{Color, Style};

/// The colours that the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 24 bits.
    True,
    /// The 256 colours of xterm.
    Indexed,
    /// The 16 colours of ANSI.
    Sixteen,
    /// No colours: `NO_COLOR`.
    None,
}

impl Depth {
    /// Detects the depth from the environment variables `NO_COLOR`, `COLORTERM` and `TERM`.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Self::None;
        }
        let colorterm = variable("COLORTERM").unwrap_or_default();
        let term = variable("TERM").unwrap_or_default();
        match () {
            () if term == "dumb" => Self::None,
            () if colorterm == "truecolor" || colorterm == "24bit" || term.ends_with("-direct") => Self::True,
            () if term.contains("256color") => Self::Indexed,
            () => Self::Sixteen,
        }
    }

    /// Converts a style to the terminal's colours.
    #[must_use]
    pub fn adapt(self, style: Style) -> Style {
        Style {
            fg: style.fg.map(|color| self.color(color)),
            bg: style.bg.map(|color| self.color(color)),
            ..style
        }
    }

    fn color(self, color: Color) -> Color {
        match (self, color) {
            (Self::None, _) => Color::Reset,
            (Self::Indexed, Color::Rgb(r, g, b)) => Color::Indexed(nearest_of_256(r, g, b)),
            (Self::Sixteen, Color::Rgb(r, g, b)) => nearest_of_16(r, g, b),
            (Self::Sixteen, Color::Indexed(index)) if index > 15 => {
                let (r, g, b) = rgb_of_256(index);
                nearest_of_16(r, g, b)
            }
            (_, color) => color,
        }
    }
}

/// xterm's first sixteen colours, as most terminals show them.
pub(crate) const ANSI: [(Color, (u8, u8, u8)); 16] = [
    (Color::Black, (0, 0, 0)),
    (Color::Red, (205, 0, 0)),
    (Color::Green, (0, 205, 0)),
    (Color::Yellow, (205, 205, 0)),
    (Color::Blue, (0, 0, 238)),
    (Color::Magenta, (205, 0, 205)),
    (Color::Cyan, (0, 205, 205)),
    (Color::Gray, (229, 229, 229)),
    (Color::DarkGray, (127, 127, 127)),
    (Color::LightRed, (255, 0, 0)),
    (Color::LightGreen, (0, 255, 0)),
    (Color::LightYellow, (255, 255, 0)),
    (Color::LightBlue, (92, 92, 255)),
    (Color::LightMagenta, (255, 0, 255)),
    (Color::LightCyan, (0, 255, 255)),
    (Color::White, (255, 255, 255)),
];

/// Returns red, green and blue of a colour; `None` for the terminal's default.
pub fn rgb(color: Color) -> Option<(u8, u8, u8)> {
    match color {
        Color::Rgb(r, g, b) => Some((r, g, b)),
        Color::Indexed(index) => Some(rgb_of_256(index)),
        Color::Reset => None,
        named => ANSI.iter().find(|(known, _)| *known == named).map(|(_, rgb)| *rgb),
    }
}

/// Returns the contrast of two colours as defined by WCAG 2: 1 for equal colours, 21 for black and white.
pub(crate) fn contrast(a: (u8, u8, u8), b: (u8, u8, u8)) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance((r, g, b): (u8, u8, u8)) -> f64 {
    let part = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
}

/// Returns black or white as the nearest background; the terminal's default stays.
pub(super) fn plain_ground(ground: Color) -> Color {
    match rgb(ground) {
        None => ground,
        Some(rgb) if luminance(rgb) < 0.2 => Color::Black,
        Some(_) => Color::White,
    }
}

/// The contrast of a text that can be read in sixteen colours: that of light blue on black, the only blue there.
pub(super) const READABLE_OF_16: f64 = 4.4;

/// Returns one of the sixteen colours that has this contrast with the background: the colour itself, its brighter or
/// darker variant, or else grey, black or white. A state without its hue still has its sign and its word.
pub(super) fn readable_of_16(front: Color, ground: Color, least: f64) -> Color {
    let Some(ground) = rgb(ground) else { return front };
    let twin = ANSI.iter().position(|(known, _)| *known == front).map(|at| ANSI[(at + 8) % 16].0);
    let plain =
        if luminance(ground) < 0.2 { [Color::Gray, Color::White] } else { [Color::DarkGray, Color::Black] };
    let candidates = std::iter::once(front).chain(twin).chain(plain);
    let reads = |color: &Color| rgb(*color).is_some_and(|front| contrast(front, ground) >= least);
    candidates.into_iter().find(reads).unwrap_or(plain[1])
}

fn rgb_of_256(index: u8) -> (u8, u8, u8) {
    match index {
        0..=15 => ANSI[usize::from(index)].1,
        16..=231 => {
            let cube = index - 16;
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            (level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        232..=255 => {
            let gray = 8 + 10 * (index - 232);
            (gray, gray, gray)
        }
    }
}

fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> i32 {
    let part = |x: u8, y: u8, weight: i32| weight * (i32::from(x) - i32::from(y)).pow(2);
    part(a.0, b.0, 3) + part(a.1, b.1, 4) + part(a.2, b.2, 2)
}

fn nearest_of_256(r: u8, g: u8, b: u8) -> u8 {
    // The colour cube has few pale colours: a slightly blue grey would become clearly violet.
    let pale = r.max(g).max(b) - r.min(g).min(b) < 40;
    let from = if pale { 232 } else { 16 };
    (from..=255).min_by_key(|index| distance(rgb_of_256(*index), (r, g, b))).unwrap_or(15)
}

fn nearest_of_16(r: u8, g: u8, b: u8) -> Color {
    // The hue matters most: a pale red must not become grey, because red has a meaning.
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    if max - min < 40 {
        return match max {
            0..=63 => Color::Black,
            64..=150 => Color::DarkGray,
            151..=215 => Color::Gray,
            _ => Color::White,
        };
    }
    let half = min + (max - min) / 2;
    let bits = usize::from(r > half) | usize::from(g > half) << 1 | usize::from(b > half) << 2;
    let bright = if max > 220 { 8 } else { 0 };
    ANSI[bits + bright].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_tells_the_depth_con_1() {
        for (no_color, colorterm, term, depth) in [
            ("", "truecolor", "xterm-256color", Depth::True),
            ("", "", "xterm-256color", Depth::Indexed),
            ("", "", "linux", Depth::Sixteen),
            ("1", "truecolor", "xterm", Depth::None),
            ("", "", "dumb", Depth::None),
        ] {
            let seen = Depth::detect(|name| match name {
                "NO_COLOR" => Some(no_color.to_owned()),
                "COLORTERM" => Some(colorterm.to_owned()),
                _ => Some(term.to_owned()),
            });
            assert_eq!(seen, depth, "{no_color} {colorterm} {term}");
        }
    }

    #[test]
    fn few_colours_keep_the_hue_con_1() {
        for (rgb, ansi) in [
            ((224, 108, 117), Color::LightRed),
            ((152, 195, 121), Color::Green),
            ((40, 44, 52), Color::Black),
            ((97, 175, 239), Color::LightCyan),
        ] {
            assert_eq!(nearest_of_16(rgb.0, rgb.1, rgb.2), ansi);
        }
        assert_eq!(nearest_of_256(255, 0, 0), 196);
        assert_eq!(rgb_of_256(nearest_of_256(0x85, 0x8e, 0xa1)), (0x94, 0x94, 0x94));
    }
}
