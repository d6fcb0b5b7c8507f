//! The working folder of a process, and what is in it when the process starts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use xmml_transfer::report::Progress;

use crate::files::{copy_into, with_path, FileError};
use crate::patterns::matches;
use crate::protocol::Text;
use crate::system::write_file;

/// A working folder that is to be made.
#[derive(Deserialize)]
pub struct WorkingFolder {
    /// The process, for messages.
    #[serde(default)]
    pub name: String,
    /// The path.
    folder: Text,
    /// The logs of the process, whose folders are made.
    stdout: Option<Text>,
    stderr: Option<Text>,
    /// Texts of files, by their paths.
    #[serde(default)]
    files: BTreeMap<Text, String>,
    /// Patterns of files of the model that are copied into the working folder.
    #[serde(default)]
    stage_in: Vec<Text>,
}

impl WorkingFolder {
    /// Makes the folder, writes the files, and copies those of the model.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn make(&self, model: &Path) -> Result<(), FileError> {
        let folder = Path::new(&self.folder.0);
        with_path(folder, fs::create_dir_all(folder))?;
        for log in [&self.stdout, &self.stderr].into_iter().flatten() {
            if let Some(parent) = Path::new(&log.0).parent() {
                with_path(parent, fs::create_dir_all(parent))?;
            }
        }
        for (path, text) in &self.files {
            let path = Path::new(&path.0);
            with_path(path, write_file(path, text.as_bytes()))?;
        }
        for pattern in &self.stage_in {
            for source in matches(model, &pattern.0, &Progress::default()) {
                copy_into(&source, folder)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_folder_has_the_files_of_its_order_and_those_of_the_model_that_patterns_name() {
        let top = std::env::temp_dir().join(format!("xmml-working-{}", std::process::id()));
        fs::create_dir_all(top.join("model")).unwrap();
        fs::write(top.join("model/mesh.csv"), "mesh").unwrap();
        let path = |name: &str| top.join(name).to_str().unwrap().to_owned();
        let order = serde_json::json!({
            "folder": path("a/work"), "stdout": path("logs/stdout"), "stderr": null,
            "files": {path("a/settings"): "text"}, "stage_in": ["*.csv"],
        });
        let folder: WorkingFolder = serde_json::from_value(order).unwrap();
        folder.make(&top.join("model")).unwrap();
        assert_eq!(fs::read_to_string(top.join("a/work/mesh.csv")).unwrap(), "mesh");
        assert_eq!(fs::read_to_string(top.join("a/settings")).unwrap(), "text");
        assert!(top.join("logs").is_dir() && !top.join("logs/stdout").exists());
        fs::remove_dir_all(top).unwrap();
    }
}
