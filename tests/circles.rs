//! No two files need each other, directly or by way of others.
//!
//! A file needs the files that *define* what it names, in `use` or in a path. A re-export is a signpost and no need: a
//! `mod.rs` with `pub use ring::Ring` needs nothing for it, and whoever names `collective::Ring` needs `ring.rs`. What
//! only unit tests name does not count; what a called method's own file needs is not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::layers::{files, src};

/// A module: its crate, and its segments below `crate`.
type Module = Vec<String>;

/// What the tokens of a file say.
#[derive(Default)]
struct Source {
    /// Its own items.
    defines: BTreeSet<String>,
    /// The names that `use` brings in: the path of each, and whether it is passed on (`pub use`).
    imports: BTreeMap<String, (Vec<String>, bool)>,
    /// Paths outside `use`.
    paths: BTreeSet<Vec<String>>,
}

impl Source {
    fn of(text: &str) -> Self {
        let mut source = Source::default();
        source.walk(text.parse().expect("Rust"), 0);
        source
    }

    fn walk(&mut self, stream: TokenStream, depth: usize) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = match &tokens[at] {
                TokenTree::Ident(word) if word == "use" && !is(tokens.get(at + 1), '<') => {
                    self.import(&tokens, at)
                }
                TokenTree::Ident(_) if !is_member(&tokens, at) => self.path(&tokens, at, depth),
                TokenTree::Group(group) if is_cfg_test(group) => behind_item(&tokens, at + 1),
                TokenTree::Group(group) => {
                    self.walk(group.stream(), depth + 1);
                    at + 1
                }
                _ => at + 1,
            };
        }
    }

    /// Reads a definition or a path that begins at a token; gives the place behind it.
    fn path(&mut self, tokens: &[TokenTree], at: usize, depth: usize) -> usize {
        const ITEMS: [&str; 9] =
            ["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type", "union"];
        let (mut path, mut next) = (vec![tokens[at].to_string()], at + 1);
        while is(tokens.get(next), ':') && is(tokens.get(next + 1), ':') {
            let Some(TokenTree::Ident(name)) = tokens.get(next + 2) else { break };
            path.push(name.to_string());
            next += 3;
        }
        match at.checked_sub(1).map(|i| tokens[i].to_string()).unwrap_or_default().as_str() {
            "mod" => {}
            word if ITEMS.contains(&word) => self.defines.extend((depth == 0).then(|| path.remove(0))),
            _ => {
                self.paths.insert(path);
            }
        }
        next
    }

    /// Reads the `use` at a token; gives the place behind its semicolon.
    fn import(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let end = (at..tokens.len()).find(|i| is(tokens.get(*i), ';')).unwrap_or(tokens.len());
        let word = |back: usize| at.checked_sub(back).map(|i| tokens[i].to_string()).unwrap_or_default();
        let passed_on = word(1) == "pub" || (word(1).starts_with('(') && word(2) == "pub");
        self.tree(&tokens[at + 1..end], &[], passed_on);
        end + 1
    }

    fn tree(&mut self, tokens: &[TokenTree], stem: &[String], passed_on: bool) {
        for branch in tokens.split(|token| is(Some(token), ',')) {
            let (mut path, mut name) = (stem.to_vec(), None);
            for (at, token) in branch.iter().enumerate() {
                match token {
                    TokenTree::Ident(word) if word == "as" => name = Some(branch[at + 1].to_string()),
                    TokenTree::Ident(word) if name.is_none() => path.push(word.to_string()),
                    TokenTree::Group(list) => {
                        let list: Vec<TokenTree> = list.stream().into_iter().collect();
                        self.tree(&list, &path, passed_on);
                        path.clear();
                    }
                    token => assert!(!is(Some(token), '*'), "a glob import is not read here: {path:?}"),
                }
            }
            path.pop_if(|last| last == "self");
            let Some(last) = path.last() else { continue };
            self.imports.insert(name.unwrap_or_else(|| last.clone()), (path, passed_on));
        }
    }
}

fn is(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == sign)
}

/// A field or a method. What stands behind `..` is none.
fn is_member(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && is(tokens.get(at - 1), '.') && !(at > 1 && is(tokens.get(at - 2), '.'))
}

fn is_cfg_test(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The place behind an item whose attribute ends before `start`.
fn behind_item(tokens: &[TokenTree], start: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(p) => ";,".contains(p.as_char()),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    (start..tokens.len()).find(|i| ends(&tokens[*i])).map_or(tokens.len(), |i| i + 1)
}

/// All files of the library by their modules.
struct Library(BTreeMap<Module, (PathBuf, Source)>);

impl Library {
    fn read() -> Self {
        let mut library = BTreeMap::new();
        for path in files(&src()) {
            let below = path.strip_prefix(src()).unwrap();
            let mut module: Module =
                below.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            if ["main", "shipped/build"].contains(&module.join("/").as_str()) {
                continue;
            }
            module.pop_if(|last| last == "mod" || last == "lib");
            library.insert(module, (below.to_owned(), Source::of(&fs::read_to_string(&path).unwrap())));
        }
        Library(library)
    }

    /// The module whose file defines what a path names; `None` for other crates and for a module as such.
    fn definer(&self, module: &[String], path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let source = &self.0[module].1;
        match first.as_str() {
            "crate" => self.below(&module[..module.len().min(1)], rest),
            name if name
                .strip_prefix("stepsim_")
                .is_some_and(|name| self.0.contains_key(&[name.to_owned()][..])) =>
            {
                self.below(&[name["stepsim_".len()..].to_owned()], rest)
            }
            "self" => self.below(module, rest),
            "super" => self.below(&module[..module.len() - 1], rest),
            name if source.defines.contains(name) => Some(module.to_vec()),
            name => match source.imports.get(name) {
                Some((full, _)) if full[0] != name => self.definer(module, &[full, rest].concat()),
                Some((full, _)) if self.has(module, name) => self.below(module, &[full, rest].concat()),
                None if self.has(module, name) => self.below(module, path),
                _ => None,
            },
        }
    }

    fn has(&self, module: &[String], child: &str) -> bool {
        self.0.contains_key(&[module, &[child.to_owned()]].concat())
    }

    /// The same for a path that begins in a module.
    fn below(&self, module: &[String], path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let imports = &self.0[module].1.imports;
        if first == "super" {
            return self.below(&module[..module.len() - 1], rest);
        }
        let namesake = imports.get(first).is_some_and(|(full, _)| full.len() > 1);
        if self.has(module, first) && !(rest.is_empty() && namesake) {
            return self.below(&[module, &path[..1]].concat(), rest);
        }
        match imports.get(first) {
            Some((onward, _)) => self.definer(module, &[onward, rest].concat()),
            None => Some(module.to_vec()),
        }
    }

    /// The modules that each module needs, each with a name that shows it.
    fn needs(&self) -> BTreeMap<&Module, BTreeMap<Module, String>> {
        let of = |module: &Module, source: &Source| {
            let named =
                source.paths.iter().filter(|path| path.len() > 1 || source.imports.contains_key(&path[0]));
            let taken = source.imports.values().filter(|(_, passed_on)| !passed_on).map(|(path, _)| path);
            let needed =
                taken.chain(named).filter_map(|path| Some((self.definer(module, path)?, path.join("::"))));
            needed.filter(|(needed, _)| needed != module).collect()
        };
        self.0.iter().map(|(module, (_, source))| (module, of(module, source))).collect()
    }

    /// Each circle: lines that say which of its files needs which, and why.
    fn circles(&self) -> Vec<Vec<String>> {
        let needs = self.needs();
        let mut graph = DiGraph::new();
        let nodes: BTreeMap<_, _> = needs.keys().map(|module| (*module, graph.add_node(*module))).collect();
        for (module, needed) in &needs {
            for needed in needed.keys() {
                graph.add_edge(nodes[module], nodes[needed], ());
            }
        }
        let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
        let lines = |circle: Vec<_>| {
            let members: BTreeSet<&Module> = circle.into_iter().map(|node| graph[node]).collect();
            let of = |module: &&Module| {
                let needed = needs[*module].iter().filter(|(needed, _)| members.contains(needed));
                let file = |module: &Module| self.0[module].0.display().to_string();
                let from = file(module);
                needed.map(|(to, name)| format!("{from} needs {} ({name})", file(to))).collect::<Vec<_>>()
            };
            members.iter().flat_map(of).collect()
        };
        circles.map(lines).collect()
    }
}

/// The event loop and its parts are one machine in several files: the only circle.
const MACHINE: &str = "core/engine/";

#[test]
fn no_two_files_need_each_other() {
    let mut circles = Library::read().circles();
    let in_it = |circle: &mut Vec<String>| circle.iter().all(|line| line.starts_with(MACHINE));
    assert_eq!(circles.extract_if(.., in_it).count(), 1, "the circle that this test must find");
    let shown: Vec<String> = circles.iter().map(|circle| circle.join("\n  ")).collect();
    assert!(circles.is_empty(), "{} circles:\n  {}", circles.len(), shown.join("\n\n  "));
}
