//! Walking an LMDB tree in key order, one page in memory for each level.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use staddle_base::{Error, Result};

use super::page::{
    BIG_DATA, BRANCH, FIXED_KEYS, LEAF, META_BYTES, Meta, OVERFLOW, Page, SEVERAL, SUB_TREE,
    TreeInfo, head,
};
use crate::adopt::Source;

/// The deepest tree; LMDB itself stops at this.
const DEPTH_MAX: usize = 32;

/// A data file and the commit that is read.
pub(super) struct File<'a> {
    pub source: &'a dyn Source,
    pub meta: Meta,
}

/// A key with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub key: Vec<u8>,
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Found in its page.
    Here(Vec<u8>),
    /// On pages of its own.
    There {
        /// Where it begins in the file.
        offset: u64,
        /// Its bytes.
        len: u64,
    },
    /// A tree under a name: a database, not a value.
    Named(TreeInfo),
}

impl Value {
    /// Its bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::There { len, .. } => *len,
            Self::Named(_) => 0,
        }
    }
}

/// The newest commit of a data file.
///
/// # Errors
/// `Corrupt` when neither meta page is whole, `Unsupported` for another data format.
pub(super) fn newest(source: &dyn Source) -> Result<Meta> {
    let size = source.size();
    let read = |at: u64| {
        let mut bytes = vec![0; META_BYTES];
        let fits = at
            .checked_add(META_BYTES as u64)
            .is_some_and(|end| end <= size);
        if !fits {
            return Err(Error::corrupt(
                "the file is too short for an LMDB data file",
            ));
        }
        source.read(&mut bytes, at)?;
        Meta::decode(&bytes)
    };
    let first = read(0);
    let second = match &first {
        Ok(meta) => read(meta.page_bytes),
        // The page size is in the page that is damaged: try them all.
        Err(_) => (8..=16)
            .map(|log2| {
                read(1 << log2)
                    .ok()
                    .filter(|meta| meta.page_bytes == 1 << log2)
            })
            .find_map(|meta| meta)
            .ok_or_else(|| Error::corrupt("neither meta page of the LMDB file is whole")),
    };
    match (first, second) {
        (Ok(first), Ok(second)) if second.transaction > first.transaction => Ok(second),
        (Ok(first), _) => Ok(first),
        (Err(_), Ok(second)) => Ok(second),
        (Err(first), Err(_)) => Err(first),
    }
}

impl File<'_> {
    /// Where a page begins, if the commit has it.
    fn page_at(&self, number: u64, bytes: u64) -> Result<u64> {
        let at = number.checked_mul(self.meta.page_bytes);
        let end = at.and_then(|at| at.checked_add(bytes));
        match (at, end) {
            (Some(at), Some(end))
                if number > 1 && number <= self.meta.last_page && end <= self.source.size() =>
            {
                Ok(at)
            }
            _ => Err(Error::corrupt(format!(
                "LMDB page {number} lies outside the file"
            ))),
        }
    }

    fn page(&self, number: u64) -> Result<Page> {
        let at = self.page_at(number, self.meta.page_bytes)?;
        let mut bytes = vec![0; usize::try_from(self.meta.page_bytes).unwrap_or(0)];
        self.source.read(&mut bytes, at)?;
        let page = Page::decode(bytes, self.meta.format).map_err(|e| e.with("page", number))?;
        if page.number != number {
            return Err(Error::corrupt(format!(
                "LMDB page {number} says that it is page {}",
                page.number
            )));
        }
        Ok(page)
    }

    /// Where a value on overflow pages lies.
    fn overflow(&self, number: u64, len: u32) -> Result<Value> {
        let header = self.meta.format.header as u64;
        let len = u64::from(len);
        let at = self.page_at(number, header.saturating_add(len))?;
        let mut bytes = vec![0; self.meta.format.header];
        self.source.read(&mut bytes, at)?;
        let (says, flags) = head(&bytes, self.meta.format)?;
        if says != number || flags & OVERFLOW == 0 {
            return Err(Error::corrupt(format!(
                "LMDB page {number} holds no long value"
            )));
        }
        Ok(Value::There {
            offset: at.saturating_add(header),
            len,
        })
    }
}

/// A walk through a tree.
#[derive(Debug)]
pub(super) struct Walk {
    tree: TreeInfo,
    /// The page of each level, and the next position in it.
    stack: Vec<(Arc<Page>, usize)>,
    begun: bool,
    /// The values of the key at hand, where it has several.
    several: Option<(Vec<u8>, Box<Walk>)>,
    /// Pages entered, and bytes of long values: neither can exceed the file.
    pages: u64,
    long_bytes: u64,
}

impl Walk {
    /// Begins before the first key.
    pub(super) fn new(tree: TreeInfo) -> Self {
        Self {
            tree,
            stack: Vec::new(),
            begun: false,
            several: None,
            pages: 0,
            long_bytes: 0,
        }
    }

    /// A walk through a page that lies within a node.
    fn within(page: Page) -> Self {
        let tree = TreeInfo {
            key_bytes: 0,
            entries: 0,
            root: None,
        };
        Self {
            stack: vec![(Arc::new(page), 0)],
            begun: true,
            ..Self::new(tree)
        }
    }

    /// The next key with a value; the values of one key come one after the other.
    pub(super) fn next(&mut self, file: &File<'_>) -> Result<Option<Item>> {
        loop {
            if let Some((key, values)) = &mut self.several {
                if let Some(value) = values.next_key(file)? {
                    return Ok(Some(Item {
                        key: key.clone(),
                        value: Value::Here(value),
                    }));
                }
                self.pages = self.pages.saturating_add(values.pages);
                self.check_pages(file)?;
                self.several = None;
            }
            let Some((page, position)) = self.step(file)? else {
                return Ok(None);
            };
            if let Some(item) = self.item(file, &page, position)? {
                return Ok(Some(item));
            }
        }
    }

    /// The next key, in a tree of values.
    fn next_key(&mut self, file: &File<'_>) -> Result<Option<Vec<u8>>> {
        let key_bytes = self.tree.key_bytes;
        let Some((page, position)) = self.step(file)? else {
            return Ok(None);
        };
        let key = if page.flags & FIXED_KEYS != 0 {
            page.fixed_key(position, key_bytes)?
        } else {
            page.node(position)?.key
        };
        Ok(Some(key.to_vec()))
    }

    /// What the node at a position holds; `None` when it opened the values of a key.
    fn item(&mut self, file: &File<'_>, page: &Page, position: usize) -> Result<Option<Item>> {
        if page.flags & FIXED_KEYS != 0 {
            return Err(Error::corrupt("an LMDB tree has keys without values"));
        }
        let node = page.node(position)?;
        let value = if node.flags & SEVERAL != 0 {
            let values = if node.flags & SUB_TREE != 0 {
                Self::new(TreeInfo::decode(node.data()?)?)
            } else {
                Self::within(Page::decode(node.data()?.to_vec(), file.meta.format)?)
            };
            self.several = Some((node.key.to_vec(), Box::new(values)));
            return Ok(None);
        } else if node.flags & SUB_TREE != 0 {
            Value::Named(TreeInfo::decode(node.data()?)?)
        } else if node.flags & BIG_DATA != 0 {
            self.long_bytes = self.long_bytes.saturating_add(u64::from(node.length()));
            if self.long_bytes > file.source.size() {
                return Err(Error::corrupt("the long values of an LMDB tree overlap"));
            }
            file.overflow(node.overflow()?, node.length())?
        } else {
            Value::Here(node.data()?.to_vec())
        };
        let key = node.key.to_vec();
        Ok(Some(Item { key, value }))
    }

    /// Moves to the next position of a leaf.
    fn step(&mut self, file: &File<'_>) -> Result<Option<(Arc<Page>, usize)>> {
        if !self.begun {
            self.begun = true;
            if let Some(root) = self.tree.root {
                self.enter(file, root)?;
            }
        }
        loop {
            let Some((page, next)) = self.stack.last_mut() else {
                return Ok(None);
            };
            let position = *next;
            if position >= page.len() {
                self.stack.pop();
                continue;
            }
            *next = position.saturating_add(1);
            if page.flags & BRANCH != 0 {
                let child = page.node(position)?.child();
                self.enter(file, child)?;
            } else if page.flags & LEAF != 0 {
                return Ok(Some((Arc::clone(page), position)));
            } else {
                return Err(Error::corrupt(format!(
                    "LMDB page {} is neither branch nor leaf",
                    page.number
                )));
            }
        }
    }

    fn enter(&mut self, file: &File<'_>, number: u64) -> Result<()> {
        self.pages = self.pages.saturating_add(1);
        self.check_pages(file)?;
        if self.stack.len() >= DEPTH_MAX {
            return Err(Error::corrupt("an LMDB tree is deeper than LMDB allows"));
        }
        let page = file.page(number)?;
        self.stack.push((Arc::new(page), 0));
        Ok(())
    }

    /// A tree that enters more pages than there are goes round in circles.
    fn check_pages(&self, file: &File<'_>) -> Result<()> {
        if self.pages > file.meta.last_page {
            return Err(Error::corrupt("the pages of an LMDB tree form a circle"));
        }
        Ok(())
    }
}
