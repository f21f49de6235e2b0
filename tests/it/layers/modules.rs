//! The modules of all crates as a tree, parsed from their sources, with the paths that each of them uses. A crate of a
//! layer is in the tree at the position where the program's crate re-exports it: as a child of the root.
//!
//! Items under `#[cfg(test)]` (and under a feature) are left out. Paths count in all positions: in `use` items,
//! expressions, types, the tokens of macros and serde's attributes. A name that a module re-exports counts as the
//! module that defines it. Facts that only type inference knows, such as the home of a method, are not covered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{Attribute, Item, Meta, Token, UseTree};

/// A module's place in [`Modules`].
pub(crate) type Id = usize;

/// Maximum number of re-exports of a name before the search for its origin stops.
const LONGEST_CHAIN: usize = 16;

/// Precedes the first name of a path like `::name`, which is a crate's even if other items have that name.
const OTHER_CRATE: &str = "";

#[derive(Default)]
struct Module {
    /// From the root of the program's crate, which has none.
    path: Vec<String>,
    parent: Option<Id>,
    children: BTreeMap<String, Id>,
    /// Names of the items in it.
    defined: BTreeSet<String>,
    /// Names that `use` brings in, with the path of each.
    imported: BTreeMap<String, Vec<String>>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// Every path that its code names.
    paths: BTreeSet<Vec<String>>,
}

/// The modules of the program's crate, with those of the layers as its children.
pub(crate) struct Modules {
    tree: Vec<Module>,
    /// The roots of the layers' crates, by the name that other crates have for them.
    layers: BTreeMap<String, Id>,
}

/// A use of an item that another module defines.
pub(crate) struct Reference {
    pub(crate) from: Id,
    /// The path as written in the code.
    pub(crate) path: String,
    /// The module that defines the item.
    pub(crate) origin: Id,
}

impl Modules {
    /// Reads the crate with the root `lib.rs` in `directory`, and those with their roots in directories below.
    pub(crate) fn read(directory: &Path) -> Modules {
        let mut modules = Modules { tree: vec![Module::default()], layers: BTreeMap::new() };
        for layer in layers(directory) {
            let id = modules.add(0, &layer);
            modules.layers.insert(layer, id);
        }
        for (layer, id) in modules.layers.clone() {
            let directory = directory.join(layer);
            modules.read_file(id, &directory.join("lib.rs"), &directory);
        }
        modules.read_file(0, &directory.join("lib.rs"), directory);
        modules
    }

    /// A child of `parent`, still empty.
    fn add(&mut self, parent: Id, name: &str) -> Id {
        let mut path = self.tree[parent].path.clone();
        path.push(name.to_owned());
        let id = self.tree.len();
        self.tree.push(Module { path, parent: Some(parent), ..Module::default() });
        self.tree[parent].children.insert(name.to_owned(), id);
        id
    }

    /// `a::b::c`; the crate's root is `crate`.
    pub(crate) fn name(&self, id: Id) -> String {
        if self.tree[id].path.is_empty() { "crate".to_owned() } else { self.tree[id].path.join("::") }
    }

    /// The names of a module from the crate's root.
    pub(crate) fn path(&self, id: Id) -> &[String] {
        &self.tree[id].path
    }

    /// All references to modules of this crate, once for each module and path.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        for (from, module) in self.tree.iter().enumerate() {
            for path in &module.paths {
                if let Some(origin) = self.resolve(from, path, 0) {
                    found.push(Reference { from, path: path.join("::"), origin });
                }
            }
        }
        found
    }

    /// The module that defines `path` as seen from module `from`; `None` for other crates and local names.
    fn resolve(&self, from: Id, path: &[String], depth: usize) -> Option<Id> {
        if depth > LONGEST_CHAIN {
            return None;
        }
        let (mut module, mut rest) = match path.first()?.as_str() {
            "crate" => (self.root_of(from), &path[1..]),
            "self" => (from, &path[1..]),
            "super" => (self.tree[from].parent?, &path[1..]),
            OTHER_CRATE => (*self.layers.get(path.get(1)?)?, &path[2..]),
            name => {
                let found = self.find(from, path, depth);
                // A single name is a variable's.
                if found.is_some() || path.len() == 1 {
                    return found;
                }
                (*self.layers.get(name)?, &path[1..])
            }
        };
        while rest.first().is_some_and(|name| name == "super") {
            module = self.tree[module].parent?;
            rest = &rest[1..];
        }
        if rest.is_empty() { Some(module) } else { self.find(module, rest, depth).or(Some(module)) }
    }

    /// The root of the crate that module `id` is in.
    fn root_of(&self, id: Id) -> Id {
        self.tree[id].path.first().and_then(|name| self.layers.get(name)).copied().unwrap_or(0)
    }

    /// Like [`Modules::resolve`], but looks up the path's first name in `module`.
    fn find(&self, module: Id, path: &[String], depth: usize) -> Option<Id> {
        if depth > LONGEST_CHAIN {
            return None;
        }
        let (name, rest) = path.split_first()?;
        let here = &self.tree[module];
        if let Some(&child) = here.children.get(name) {
            return if rest.is_empty() { Some(child) } else { self.find(child, rest, depth).or(Some(child)) };
        }
        if here.defined.contains(name) {
            return Some(module);
        }
        if let Some(target) = here.imported.get(name) {
            let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
            return self.resolve(module, &whole, depth + 1);
        }
        here.globs.iter().find_map(|glob| {
            let target = self.resolve(module, glob, depth + 1)?;
            if target == module { None } else { self.find(target, path, depth + 1) }
        })
    }

    /// `directory` is where the files of its children are.
    fn read_file(&mut self, id: Id, file: &Path, directory: &Path) {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.read_items(id, &parsed.items, directory);
    }

    fn read_items(&mut self, id: Id, items: &[Item], directory: &Path) {
        let mut reader = Reader::default();
        for item in items {
            match item {
                Item::Mod(child) if is_built(&child.attrs) => self.read_module(id, child, directory),
                Item::Mod(_) => {}
                _ => reader.visit_item(item),
            }
        }
        let module = &mut self.tree[id];
        module.defined.extend(items.iter().filter_map(defined_name));
        module.imported.extend(reader.imported);
        module.globs.extend(reader.globs);
        module.paths.extend(reader.named);
    }

    fn read_module(&mut self, parent: Id, item: &syn::ItemMod, directory: &Path) {
        let name = item.ident.to_string();
        let id = self.add(parent, &name);
        let below = directory.join(&name);
        match &item.content {
            Some((_, items)) => self.read_items(id, items, &below),
            None => self.read_file(id, &file_of(directory, &name), &below),
        }
    }
}

/// The directories below `directory` that are this project's crates with code.
pub(crate) fn layers(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let is_crate = |entry: &std::fs::DirEntry| entry.path().join("Cargo.toml").exists();
    let names = entries.filter(is_crate).map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name != "workspace-hack").collect()
}

fn file_of(directory: &Path, name: &str) -> PathBuf {
    let flat = directory.join(format!("{name}.rs"));
    if flat.exists() { flat } else { directory.join(name).join("mod.rs") }
}

fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns true if an item with these attributes is part of the product, which includes neither tests nor features.
fn is_built(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).all(|attribute| {
        let condition: Meta = attribute.parse_args().expect("a condition that rustc takes");
        holds(&condition)
    })
}

fn holds(condition: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).expect("conditions in a list")
    };
    match condition {
        Meta::Path(path) => !path.is_ident("test"),
        Meta::NameValue(pair) => !pair.path.is_ident("feature"),
        Meta::List(list) if list.path.is_ident("any") => parts(list).iter().any(holds),
        Meta::List(list) if list.path.is_ident("not") => !parts(list).iter().any(holds),
        Meta::List(list) => parts(list).iter().all(holds),
    }
}

/// Collects the imports and uses of one module's items.
#[derive(Default)]
struct Reader {
    imported: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    named: BTreeSet<Vec<String>>,
}

impl Reader {
    fn read_use(&mut self, prefix: &[String], tree: &UseTree) {
        let joined = |name: &syn::Ident| {
            let mut path = prefix.to_vec();
            // `a::{self}` is `a`.
            if prefix.is_empty() || *name != "self" {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            UseTree::Path(path) => self.read_use(&joined(&path.ident), &path.tree),
            UseTree::Name(name) => {
                let path = joined(&name.ident);
                let last = path.last().expect("a name").clone();
                self.import(last, path);
            }
            UseTree::Rename(rename) => self.import(rename.rename.to_string(), joined(&rename.ident)),
            UseTree::Glob(_) => {
                self.named.insert(prefix.to_vec());
                self.globs.push(prefix.to_vec());
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.read_use(prefix, tree)),
        }
    }

    fn import(&mut self, name: String, path: Vec<String>) {
        self.named.insert(path.clone());
        if path != [name.clone()] {
            self.imported.insert(name, path);
        }
    }

    /// Paths in the tokens of a macro: names joined by `::`.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        // Colons since the last name.
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_path(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end_path(&mut path);
                    colons = 0;
                    self.read_tokens(group.stream());
                }
                _ => {
                    self.end_path(&mut path);
                    colons = 0;
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.named.insert(std::mem::take(path));
        }
    }

    /// Functions that serde's attributes name in strings.
    fn read_strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.read_strings(group.stream()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if let Ok(path) = syn::parse_str::<syn::Path>(text.trim_matches('"')) {
                        self.visit_path(&path);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Visits a node only when the product contains it.
macro_rules! if_built {
    ($($method:ident($node:ty)),* $(,)?) => {
        $(fn $method(&mut self, node: &'ast $node) {
            if is_built(&node.attrs) {
                syn::visit::$method(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Reader {
    if_built!(
        visit_arm(syn::Arm),
        visit_expr_block(syn::ExprBlock),
        visit_expr_call(syn::ExprCall),
        visit_field(syn::Field),
        visit_field_value(syn::FieldValue),
        visit_impl_item_const(syn::ImplItemConst),
        visit_impl_item_fn(syn::ImplItemFn),
        visit_item_const(syn::ItemConst),
        visit_item_enum(syn::ItemEnum),
        visit_item_fn(syn::ItemFn),
        visit_item_impl(syn::ItemImpl),
        visit_item_macro(syn::ItemMacro),
        visit_item_static(syn::ItemStatic),
        visit_item_struct(syn::ItemStruct),
        visit_item_trait(syn::ItemTrait),
        visit_item_type(syn::ItemType),
        visit_local(syn::Local),
        visit_stmt_macro(syn::StmtMacro),
        visit_trait_item_fn(syn::TraitItemFn),
        visit_variant(syn::Variant),
    );

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_built(&item.attrs) {
            let prefix = item.leading_colon.map(|_| OTHER_CRATE.to_owned());
            self.read_use(prefix.as_slice(), &item.tree);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.named.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.read_tokens(called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let (true, Meta::List(list)) = (attribute.path().is_ident("serde"), &attribute.meta) {
            self.read_strings(list.tokens.clone());
        }
    }
}
