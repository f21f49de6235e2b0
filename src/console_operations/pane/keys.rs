//! Encodes key presses as the bytes that an xterm sends, which programs in a container expect.
//!
//! Does not decide which keys belong to the console: the screen handles its own keys (detach, paging) first.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The keyboard modes set by the program in the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// DECCKM: arrows, Home and End are sent as `ESC O x` instead of `ESC [ x`.
    pub(crate) application_cursor: bool,
    /// Mode 2004: pasted text is bracketed, so that an editor does not treat it as typed.
    pub(crate) bracketed_paste: bool,
}

/// Returns the bytes for one key press; empty for keys a terminal does not send.
pub fn encode(key: KeyEvent, modes: KeyModes) -> Vec<u8> {
    let KeyEvent { code, modifiers, .. } = key;
    match code {
        KeyCode::Char(character) => encode_char(character, modifiers),
        KeyCode::Enter => prefixed(modifiers, b"\r"),
        KeyCode::Tab => prefixed(modifiers, b"\t"),
        KeyCode::BackTab => b"\x1b[Z".to_vec(),
        KeyCode::Backspace if modifiers.contains(KeyModifiers::CONTROL) => prefixed(modifiers, b"\x08"),
        KeyCode::Backspace => prefixed(modifiers, b"\x7f"),
        KeyCode::Esc => prefixed(modifiers, b"\x1b"),
        KeyCode::Null => vec![0],
        KeyCode::Up => cursor_key(b'A', modifiers, modes),
        KeyCode::Down => cursor_key(b'B', modifiers, modes),
        KeyCode::Right => cursor_key(b'C', modifiers, modes),
        KeyCode::Left => cursor_key(b'D', modifiers, modes),
        KeyCode::Home => cursor_key(b'H', modifiers, modes),
        KeyCode::End => cursor_key(b'F', modifiers, modes),
        KeyCode::Insert => tilde_key(2, modifiers),
        KeyCode::Delete => tilde_key(3, modifiers),
        KeyCode::PageUp => tilde_key(5, modifiers),
        KeyCode::PageDown => tilde_key(6, modifiers),
        KeyCode::F(number) => function_key(number, modifiers),
        KeyCode::Media(_)
        | KeyCode::CapsLock
        | KeyCode::ScrollLock
        | KeyCode::NumLock
        | KeyCode::PrintScreen
        | KeyCode::Pause
        | KeyCode::Menu
        | KeyCode::KeypadBegin
        | KeyCode::Modifier(_) => Vec::new(),
    }
}

/// Returns the bytes for pasted text. Line ends become carriage returns, as a keyboard sends them, and an end marker in
/// the text cannot terminate the brackets.
pub fn paste(text: &str, modes: KeyModes) -> Vec<u8> {
    let typed = text.replace("\r\n", "\r").replace('\n', "\r");
    if !modes.bracketed_paste {
        return typed.into_bytes();
    }
    let inner = typed.replace("\x1b[201~", "").replace("\x1b[200~", "");
    format!("\x1b[200~{inner}\x1b[201~").into_bytes()
}

/// Prefixes the bytes with an escape if Alt is held, as every terminal since the VT100 does.
fn prefixed(modifiers: KeyModifiers, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    if modifiers.contains(KeyModifiers::ALT) {
        out.push(0x1b);
    }
    out.extend_from_slice(bytes);
    out
}

fn encode_char(character: char, modifiers: KeyModifiers) -> Vec<u8> {
    if modifiers.contains(KeyModifiers::CONTROL)
        && let Some(control) = control_byte(character)
    {
        return prefixed(modifiers, &[control]);
    }
    let mut buffer = [0; 4];
    prefixed(modifiers, character.encode_utf8(&mut buffer).as_bytes())
}

/// Returns the C0 byte of Ctrl with a character, with xterm's traditional stand-ins for the digits.
fn control_byte(character: char) -> Option<u8> {
    match character {
        'a'..='z' => Some(character as u8 - b'a' + 1),
        'A'..='Z' => Some(character as u8 - b'A' + 1),
        ' ' | '@' | '2' => Some(0x00),
        '[' | '3' => Some(0x1b),
        '\\' | '4' => Some(0x1c),
        ']' | '5' => Some(0x1d),
        '^' | '6' => Some(0x1e),
        '_' | '/' | '7' => Some(0x1f),
        '?' | '8' => Some(0x7f),
        _ => None,
    }
}

/// xterm's modifier parameter: 1 + Shift 1 + Alt 2 + Ctrl 4.
fn modifier_parameter(modifiers: KeyModifiers) -> u8 {
    1 + u8::from(modifiers.contains(KeyModifiers::SHIFT))
        + 2 * u8::from(modifiers.contains(KeyModifiers::ALT))
        + 4 * u8::from(modifiers.contains(KeyModifiers::CONTROL))
}

fn cursor_key(letter: u8, modifiers: KeyModifiers, modes: KeyModes) -> Vec<u8> {
    match (modifier_parameter(modifiers), modes.application_cursor) {
        (1, true) => vec![0x1b, b'O', letter],
        (1, false) => vec![0x1b, b'[', letter],
        (parameter, _) => format!("\x1b[1;{parameter}{}", letter as char).into_bytes(),
    }
}

fn tilde_key(number: u8, modifiers: KeyModifiers) -> Vec<u8> {
    match modifier_parameter(modifiers) {
        1 => format!("\x1b[{number}~").into_bytes(),
        parameter => format!("\x1b[{number};{parameter}~").into_bytes(),
    }
}

fn function_key(number: u8, modifiers: KeyModifiers) -> Vec<u8> {
    let parameter = modifier_parameter(modifiers);
    match number {
        1..=4 => {
            let letter = (b'P' + number - 1) as char;
            if parameter == 1 {
                format!("\x1bO{letter}").into_bytes()
            } else {
                format!("\x1b[1;{parameter}{letter}").into_bytes()
            }
        }
        5 => tilde_key(15, modifiers),
        6..=10 => tilde_key(number + 11, modifiers),
        11..=14 => tilde_key(number + 12, modifiers),
        15 | 16 => tilde_key(number + 13, modifiers),
        17..=20 => tilde_key(number + 14, modifiers),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-8: a program in the pane receives what xterm would send.
    #[test]
    fn keys_are_sent_as_xterm_sends_them() {
        let plain = KeyModes::default();
        let application = KeyModes { application_cursor: true, ..plain };
        let none = KeyModifiers::NONE;
        let cases: &[(KeyCode, KeyModifiers, KeyModes, &[u8])] = &[
            (KeyCode::Char('a'), none, plain, b"a"),
            (KeyCode::Char('A'), KeyModifiers::SHIFT, plain, b"A"),
            (KeyCode::Char('é'), none, plain, "é".as_bytes()),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, plain, b"\x03"),
            (KeyCode::Char('d'), KeyModifiers::CONTROL, plain, b"\x04"),
            (KeyCode::Char(' '), KeyModifiers::CONTROL, plain, b"\x00"),
            (KeyCode::Char('\\'), KeyModifiers::CONTROL, plain, b"\x1c"),
            (KeyCode::Char('_'), KeyModifiers::CONTROL, plain, b"\x1f"),
            (KeyCode::Char('x'), KeyModifiers::ALT, plain, b"\x1bx"),
            (KeyCode::Char('x'), KeyModifiers::ALT | KeyModifiers::CONTROL, plain, b"\x1b\x18"),
            (KeyCode::Enter, none, plain, b"\r"),
            (KeyCode::Enter, KeyModifiers::ALT, plain, b"\x1b\r"),
            (KeyCode::Backspace, none, plain, b"\x7f"),
            (KeyCode::Backspace, KeyModifiers::ALT, plain, b"\x1b\x7f"),
            (KeyCode::Tab, none, plain, b"\t"),
            (KeyCode::BackTab, KeyModifiers::SHIFT, plain, b"\x1b[Z"),
            (KeyCode::Esc, none, plain, b"\x1b"),
            (KeyCode::Up, none, plain, b"\x1b[A"),
            (KeyCode::Up, none, application, b"\x1bOA"),
            (KeyCode::Right, KeyModifiers::CONTROL, application, b"\x1b[1;5C"),
            (KeyCode::Left, KeyModifiers::ALT, plain, b"\x1b[1;3D"),
            (KeyCode::Home, none, plain, b"\x1b[H"),
            (KeyCode::End, none, application, b"\x1bOF"),
            (KeyCode::Delete, none, plain, b"\x1b[3~"),
            (KeyCode::PageUp, KeyModifiers::SHIFT, plain, b"\x1b[5;2~"),
            (KeyCode::F(1), none, plain, b"\x1bOP"),
            (KeyCode::F(4), KeyModifiers::SHIFT, plain, b"\x1b[1;2S"),
            (KeyCode::F(5), none, plain, b"\x1b[15~"),
            (KeyCode::F(6), none, plain, b"\x1b[17~"),
            (KeyCode::F(10), none, plain, b"\x1b[21~"),
            (KeyCode::F(11), none, plain, b"\x1b[23~"),
            (KeyCode::F(12), KeyModifiers::CONTROL, plain, b"\x1b[24;5~"),
            (KeyCode::F(15), none, plain, b"\x1b[28~"),
            (KeyCode::CapsLock, none, plain, b""),
        ];
        for (code, modifiers, modes, expect) in cases {
            let bytes = encode(KeyEvent::new(*code, *modifiers), *modes);
            assert_eq!(&bytes, expect, "{code:?} with {modifiers:?} in {modes:?}");
        }
    }

    #[test]
    fn a_paste_is_bracketed_only_on_request_and_cannot_break_out() {
        let bracketed = KeyModes { bracketed_paste: true, ..KeyModes::default() };
        assert_eq!(paste("a\nb\r\nc", KeyModes::default()), b"a\rb\rc");
        assert_eq!(paste("ls\n", bracketed), b"\x1b[200~ls\r\x1b[201~");
        assert_eq!(paste("x\x1b[201~rm -rf", bracketed), b"\x1b[200~xrm -rf\x1b[201~");
    }
}
