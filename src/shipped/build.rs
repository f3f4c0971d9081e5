//! Lists every JSON file under `topologies/` and `workloads/` with its text, so that a new file needs no code. Schemas
//! (`*.schema.json`) are for editors and are left out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let crate_folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = crate_folder.join("../..");
    let mut files = Vec::new();
    for folder in ["topologies", "workloads"] {
        collect(&root.join(folder), folder, &mut files);
    }
    files.sort();
    let mut code = String::from(
        "/// The path of each file in the repository, and its text.\npub static FILES: &[(&str, &str)] = &[\n",
    );
    // Found by the compiler from where the package lies then: a folder of builds may serve a checkout and an unpacked
    // package.
    for name in &files {
        let path = format!("/../../{name}");
        writeln!(code, "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),")
            .expect("a string takes all");
    }
    code.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("embedded.rs"), code).expect("OUT_DIR is writable");
}

/// Adds the JSON files of a folder and of its folders, as `topologies/devices/x.json`.
fn collect(folder: &Path, name: &str, files: &mut Vec<String>) {
    println!("cargo:rerun-if-changed=../../{name}");
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            collect(&path, &name, files);
        } else if name.ends_with(".json") && !name.ends_with(".schema.json") {
            println!("cargo:rerun-if-changed=../../{name}");
            files.push(name);
        }
    }
}
