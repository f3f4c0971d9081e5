//! Files that others name: beside the file that names them, in a folder above it, or in the working folder.

use std::path::{Path, PathBuf};

use stepsim_spec::{Disk, Files};

/// Folders above a file's that are looked into.
const MOST_FOLDERS: usize = 8;

/// The path and the text of a file as another in a folder names it. Of a path that begins elsewhere (`/data/x`,
/// `~/x`, `$ROOT/x`) the parts from the end are tried.
pub fn beside(folder: &Path, name: &str) -> Option<(PathBuf, String)> {
    let name = name.trim();
    if name.is_empty() || name.contains(['\n', '*']) {
        return None;
    }
    let elsewhere = name.starts_with(['/', '~', '$']);
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let above = folder
        .ancestors()
        .take(MOST_FOLDERS)
        .filter(|folder| folder.parent().is_some() || *folder == Path::new(""));
    let folders: Vec<&Path> = above.chain([Path::new("")]).collect();
    let heads = if elsewhere { parts.len() } else { 1 };
    let whole = Some(PathBuf::from(name)).filter(|path| path.is_absolute() && path.is_file());
    if let Some((path, text)) = whole.and_then(|path| Some((path.clone(), Disk.read(&path).ok()?))) {
        return Some((path, text));
    }
    (0..heads).find_map(|head| {
        let rest = parts.get(head..).filter(|rest| !rest.is_empty())?.join("/");
        folders.iter().find_map(|folder| {
            let path = folder.join(&rest);
            if path.is_dir() {
                return None;
            }
            Disk.read(&path).ok().map(|text| (path, text))
        })
    })
}
