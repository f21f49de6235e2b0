//! An object's JSON with who owns it, which stands beside the typed value: put into the metadata as it is written.

use std::io::{self, Write};

use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::managed::ManagedFields;

/// Writes compact JSON, and owners first in the metadata.
pub(super) struct Encoder {
    /// `"managedFields":[…]`; empty when nobody owns anything.
    owners: Vec<u8>,
    depth: usize,
    at: At,
}

/// Where the encoder stands at the top of the object.
#[derive(PartialEq)]
enum At {
    Elsewhere,
    /// In the name of a field.
    Name,
    /// Before the metadata.
    Metadata,
    /// In the metadata; the owners are written and nothing else.
    Owners,
}

impl Encoder {
    pub(super) fn serializer<W: Write>(out: W, owners: &ManagedFields) -> Serializer<W, Self> {
        let mut text = Vec::new();
        if !owners.is_empty() {
            owners.write_json(&mut text).expect("memory takes all");
        }
        Serializer::with_formatter(out, Self { owners: text, depth: 0, at: At::Elsewhere })
    }
}

impl Formatter for Encoder {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")?;
        if self.depth == 2 && self.at == At::Metadata && !self.owners.is_empty() {
            self.at = At::Owners;
            out.write_all(&self.owners)?;
        }
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        let follows_owners = self.depth == 2 && self.at == At::Owners;
        if self.depth == 1 {
            self.at = At::Name;
        } else if follows_owners {
            self.at = At::Elsewhere;
        }
        if first && !follows_owners { Ok(()) } else { out.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _out: &mut W) -> io::Result<()> {
        if self.at == At::Name {
            self.at = At::Elsewhere;
        }
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if self.at == At::Name && fragment == "metadata" {
            self.at = At::Metadata;
        }
        out.write_all(fragment.as_bytes())
    }
}
