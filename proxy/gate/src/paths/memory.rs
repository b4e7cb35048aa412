//! A disk in memory, for tests.

use std::collections::BTreeMap;

use super::{Below, FileId, Files, Found, Look, LookError, Place, Style, fold};

/// A disk. Paths are absolute and hold no link above their last name.
#[derive(Clone, Debug)]
pub struct Disk {
    nodes: BTreeMap<String, Result<Look, String>>,
    home: Option<String>,
    style: Style,
    folds: bool,
    next: u64,
}

impl Disk {
    pub fn new() -> Self {
        Self::of(Style::Unix)
    }

    pub fn of(style: Style) -> Self {
        let mut disk = Self {
            nodes: BTreeMap::new(),
            home: None,
            style,
            folds: style == Style::Windows,
            next: 1,
        };
        disk.put(
            if style == Style::Unix { "/" } else { "C:\\" },
            Found::Folder,
        );
        disk
    }

    /// Names of different case are one.
    pub fn folding(mut self) -> Self {
        self.folds = true;
        self
    }

    pub fn home(mut self, home: &str) -> Self {
        self.home = Some(home.to_string());
        self.folder(home)
    }

    pub fn folder(mut self, path: &str) -> Self {
        self.parents(path);
        self.put(path, Found::Folder);
        self
    }

    pub fn file(mut self, path: &str) -> Self {
        self.parents(path);
        self.put(path, Found::File);
        self
    }

    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.parents(path);
        let target = target.to_string();
        self.put(path, Found::Link { target });
        self
    }

    pub fn other(mut self, path: &str) -> Self {
        self.parents(path);
        self.put(path, Found::Other);
        self
    }

    /// A second name of a file.
    pub fn hard_link(mut self, path: &str, of: &str) -> Self {
        self.parents(path);
        let mut look = self.nodes[&self.key(of)].clone().unwrap();
        look.names = 2;
        for path in [path, of] {
            self.nodes.insert(self.key(path), Ok(look.clone()));
        }
        self
    }

    pub fn unreadable(mut self, path: &str) -> Self {
        self.parents(path);
        self.nodes
            .insert(self.key(path), Err("permission denied".to_string()));
        self
    }

    fn parents(&mut self, path: &str) {
        let place = Place::parse(path, self.style).unwrap();
        for count in 0..place.names.len() {
            let above = Place {
                root: place.root.clone(),
                names: place.names[..count].to_vec(),
            };
            if !self.nodes.contains_key(&self.key(&above.text())) {
                self.put(&above.text(), Found::Folder);
            }
        }
    }

    fn put(&mut self, path: &str, found: Found) {
        let id = FileId {
            device: 1,
            file: self.next,
        };
        self.next += 1;
        let look = Look {
            found,
            id: (self.style == Style::Unix).then_some(id),
            names: 1,
        };
        self.nodes.insert(self.key(path), Ok(look));
    }

    fn key(&self, path: &str) -> String {
        if self.folds {
            fold(path)
        } else {
            path.to_string()
        }
    }
}

impl Files for Disk {
    fn style(&self) -> Style {
        self.style
    }

    fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn look(&self, path: &str) -> Result<Look, LookError> {
        match self.nodes.get(&self.key(path)) {
            None => Err(LookError::Missing),
            Some(Err(reason)) => Err(LookError::Unreadable(reason.clone())),
            Some(Ok(look)) => Ok(look.clone()),
        }
    }

    fn below(&self, folder: &str, at_most: usize) -> Below {
        let mut below = Below {
            entries: Vec::new(),
            whole: true,
        };
        let separator = if self.style == Style::Unix { '/' } else { '\\' };
        let start = format!(
            "{}{separator}",
            self.key(folder).trim_end_matches(separator)
        );
        for (path, node) in &self.nodes {
            let Some(rest) = path.strip_prefix(&start).filter(|rest| !rest.is_empty()) else {
                continue;
            };
            match node {
                Ok(look) if below.entries.len() < at_most => {
                    let names = rest.split(separator).map(String::from).collect();
                    below.entries.push((names, look.clone()));
                }
                _ => below.whole = false,
            }
        }
        below
    }
}
